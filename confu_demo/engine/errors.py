"""What can go wrong when a model is loaded or its cache runs full.

Every message is one sentence that says what to do; the command line and the page show it as is.
"""

from __future__ import annotations


class MissingModel(FileNotFoundError):
    """A folder or file of the model is not there."""


class CorruptModel(ValueError):
    """The files are there but do not hold the model that the config describes."""


class UnsupportedModel(ValueError):
    """A family or a setting that the lean forward does not implement."""


class ContextFull(ValueError):
    """A forward would write beyond the capacity of its cache."""
