"""Weights that a suite fetches once: found, fetched, checked by hash, kept as a dense copy.

:mod:`sources` says what there is, :mod:`places` where it lies, :mod:`fetching` how it gets there.
"""
