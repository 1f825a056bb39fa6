"""The benchmark: many held-out problems, every method, one table.

:mod:`measure` runs, :mod:`report` computes, :mod:`generate_baseline` and :mod:`race_check` say how
far the plain loop and the race itself can be trusted, :mod:`processes` spreads the problems.
"""
