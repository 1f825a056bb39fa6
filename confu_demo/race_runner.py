"""Races for the page: the interface that ``confu_demo/ui/runner.py`` describes, on real models.

The page and the engine never import one another, so requests come in as anything with the right
attributes (:class:`RaceWish`) and problems go out through ``new_card``, the page's own record.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from confu_demo.config import DecodeConfig
from confu_demo.data.gallery import (
    another_prompt,
    free_prompts,
    new_word_problem,
    word_problems,
)
from confu_demo.data.problems import Problem
from confu_demo.data.prompts import Prompt
from confu_demo.decoding.base import DecodeRequest
from confu_demo.decoding.registry import METHODS, check_methods
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.provenance import collect
from confu_demo.race import race
from confu_demo.suites import find_suite, lacking, without_root
from confu_demo.trace import Event

Card = TypeVar("Card")
CardT = TypeVar("CardT", covariant=True)


class RaceWish(Protocol):
    """What a race needs to be told."""

    @property
    def text(self) -> str: ...

    @property
    def methods(self) -> tuple[str, ...]: ...

    @property
    def config(self) -> DecodeConfig: ...

    @property
    def is_problem(self) -> bool: ...


class CardMaker(Protocol[CardT]):
    """Makes the page's record of a problem."""

    def __call__(self, *, text: str, answer: str | None, family: str, steps: int) -> CardT: ...


def make_runner(
    suite: str,
    new_card: CardMaker[Card],
    *,
    device: str = "auto",
    dtype: str = "auto",
    threads: int | None = None,
) -> SuiteRunner[Card]:
    """A runner on the suite of that name or folder. Loads nothing yet.

    Raises ``ValueError`` for an unknown suite.
    """
    loaded = LoadedSuite(find_suite(suite), device=device, dtype=dtype, threads=threads)
    return SuiteRunner(loaded, new_card)


class SuiteRunner(Generic[Card]):
    """Holds one suite for all visitors; a race's own state lives in its generator."""

    def __init__(self, suite: LoadedSuite, new_card: CardMaker[Card]) -> None:
        self._suite = suite
        self._new_card = new_card
        self._loading = threading.Lock()

    def methods(self) -> Sequence[tuple[str, bool, str]]:
        """``(method, available, why_not)``, in the order of the lanes; the reason is a key of the
        page's wording. A target that has yet to be fetched is in no lane's way: the page asks
        for it."""
        reasons = {method: self._reason(method) for method in METHODS}
        return tuple((method, not reason, reason) for method, reason in reasons.items())

    def _reason(self, method: str) -> str:
        status = lacking(self._suite.suite, method, once_fetched=True)
        if status is None:
            return ""
        return f"unavailable.{'missing' if status.meant else 'none'}.{status.part}"

    def check(self, request: RaceWish) -> None:
        """Raises ``ValueError`` with one sentence if this race cannot run. Loads what it needs."""
        self._prepare(request)

    def race(self, request: RaceWish, stop: Callable[[], bool]) -> Iterator[tuple[str, Event]]:
        """``(method, event)`` pairs as they happen. Raises as :meth:`check`, before the first."""
        prompt, config = self._prepare(request)
        suite = self._suite
        with self._loading:
            suite.use_threads()
            suite.warm_up(request.methods, config)
        events = race(
            suite.lanes(request.methods, prompt),
            config,
            stop,
            new_clock=suite.new_clock,
            provenance=collect(suite.device, suite.dtype, suite.threads, sys.argv),
        )
        return self._on_our_threads(events)

    def new_problem(self, seed: int, family: str | None = None) -> Card:
        """A fresh problem as long as the held-out ones, or another held-out prompt. ValueError
        for an unknown family."""
        suite = self._suite.suite
        if suite.free_text:
            return self._card(another_prompt(suite.name, seed, family))
        return self._card(new_word_problem(seed, family))

    def gallery(self, count: int = 12) -> tuple[Card, ...]:
        """Held-out problems or prompts of every kind."""
        suite = self._suite.suite
        chosen = free_prompts(suite.name, count) if suite.free_text else word_problems(count)
        return tuple(self._card(prompt) for prompt in chosen)

    def _prepare(self, request: RaceWish) -> tuple[DecodeRequest, DecodeConfig]:
        suite, methods = self._suite, request.methods
        check_methods(methods)
        with self._loading:
            try:
                for method in methods:
                    suite.decoder(method)
            except (OSError, ValueError) as error:  # visitors need not know the server's folders
                raise ValueError(without_root(error)) from error
            prompt = suite.request(request.text, is_problem=request.is_problem)
            return prompt, suite.fit(request.config, prompt, methods, may_shorten=True)

    def _on_our_threads(self, events: Iterator[tuple[str, Event]]) -> Iterator[tuple[str, Event]]:
        """A web server may take every event from another thread of its pool."""
        try:
            while True:
                self._suite.use_threads()
                pair = next(events, None)
                if pair is None:
                    return
                yield pair
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()

    def _card(self, made: Problem | Prompt) -> Card:
        if isinstance(made, Prompt):
            return self._new_card(text=made.text, answer=None, family=made.category, steps=0)
        return self._new_card(
            text=made.text, answer=str(made.answer), family=made.family, steps=len(made.steps)
        )
