"""The tests mirror ``confu_demo/``; ``python -m tests`` runs every check of the project."""
