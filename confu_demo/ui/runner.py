"""What the page needs from whoever runs a race: an interface, so that the page knows no engine.

The application injects an object with these four methods; tests inject a scripted one. Nothing
here imports torch, and nothing here computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from confu_demo.config import DecodeConfig
from confu_demo.trace import Event

METHODS = ("autoregressive", "prompt_lookup", "eagle3", "confu", "confspec")
"""The lanes that a page without an engine names; a runner may offer more, in its own order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemCard:
    """One problem of the gallery. ``answer`` is what a right solution ends with; None for free
    text, where nothing can be checked and ``family`` is the category."""

    text: str
    answer: str | None
    family: str
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRequest:
    """One race. ``is_problem`` asks for the suite's question format (or chat template) around
    ``text``; otherwise the text is continued as it stands. ``suite`` is the page's own note of
    which runner it is for."""

    text: str
    methods: tuple[str, ...]
    config: DecodeConfig = field(default_factory=DecodeConfig)
    expected_answer: str | None = None
    is_problem: bool = True
    suite: str = ""


class RaceRunner(Protocol):
    """Runs races on the models that the application holds."""

    def methods(self) -> Sequence[tuple[str, bool, str]]:
        """``(method, available, why_not)`` for every method that the page may offer. The reason
        is a key of the wording, or a sentence as it is."""

    def check(self, request: RaceRequest) -> None:
        """Raise ``ValueError`` with one sentence if this race cannot run."""

    def race(self, request: RaceRequest, stop: Callable[[], bool]) -> Iterator[tuple[str, Event]]:
        """``(lane, event)`` pairs as they happen; reads ``stop`` every cycle and frees its
        caches when closed."""

    def new_problem(self, seed: int, family: str | None) -> ProblemCard:
        """A fresh problem with new numbers, of ``family`` or of any family if None."""
