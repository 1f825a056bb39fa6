"""The commands behind ``python -m confu_demo``: thin, each one file with its arguments and run.

Everything that a user can get wrong is a :class:`~confu_demo.cli.errors.UserError`: one line on
stderr and exit status 2.
"""
