"""The runner of a page without an engine: it shows recordings and says why it cannot race."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from confu_demo.trace import Event
from confu_demo.ui.runner import METHODS, ProblemCard, RaceRequest


class NoEngine:
    """A :class:`~confu_demo.ui.runner.RaceRunner` that refuses everything with one sentence."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def methods(self) -> Sequence[tuple[str, bool, str]]:
        return tuple((method, False, self._reason) for method in METHODS)

    def check(self, request: RaceRequest) -> None:
        raise ValueError(f"this page can only show recorded races: {self._reason}")

    def race(self, request: RaceRequest, stop: Callable[[], bool]) -> Iterator[tuple[str, Event]]:
        self.check(request)
        return iter(())

    def new_problem(self, seed: int, family: str | None) -> ProblemCard:
        raise ValueError(f"this page can only show recorded races: {self._reason}")
