"""The suites that a page offers: each with its own runner, prompts, style and, perhaps, weights
that have to be fetched first. What the application injects; nothing here computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from confu_demo.ui.runner import ProblemCard, RaceRunner
from confu_demo.ui.wording import dictionary, say

Style = Literal["problems", "chat"]
"""Word problems with answers to check; free text in a chat template without."""


class FetchMoment(Protocol):
    """How far a fetch is: ``stage`` has its own sentence in the wording (``fetch.STAGE``)."""

    @property
    def stage(self) -> str: ...

    @property
    def percent(self) -> int: ...

    @property
    def detail(self) -> str: ...


class Fetcher(Protocol):
    """Weights that are fetched once, and without which no lane of the suite runs."""

    @property
    def megabytes(self) -> int: ...

    def needed(self) -> bool: ...

    def fetch(self) -> Iterator[FetchMoment]:
        """Until the weights are there; closing it stops. ``ValueError`` with one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEntry:
    """``new_tokens`` is what a race of this suite is limited to unless a visitor says otherwise."""

    name: str
    runner: RaceRunner
    gallery: tuple[ProblemCard, ...] = ()
    style: Style = "problems"
    new_tokens: int | None = None
    fetcher: Fetcher | None = None

    @property
    def must_fetch(self) -> bool:
        return self.fetcher is not None and self.fetcher.needed()


def find_entry(suites: Sequence[SuiteEntry], name: str | None) -> SuiteEntry:
    """The suite of that name; the first one for anything else."""
    return next((entry for entry in suites if entry.name == name), suites[0])


def suite_choices(suites: Sequence[SuiteEntry], language: str) -> list[tuple[str, str]]:
    return [(phrase(f"suite.{e.name}", language, e.name), e.name) for e in suites]


def say_for(entry: SuiteEntry, language: str, key: str) -> str:
    """The phrase for ``key``, in the suite's own wording where it has one (``key.STYLE``)."""
    own = f"{key}.{entry.style}"
    return say(language, own if own in dictionary() else key)


def fetch_label(entry: SuiteEntry, language: str) -> str:
    megabytes = entry.fetcher.megabytes if entry.fetcher is not None else 0
    return say(language, "page.fetch", megabytes=megabytes)


def card_label(card: ProblemCard, language: str) -> str:
    """A word problem by its steps and family, a free prompt by its category and first words."""
    if card.answer is not None:
        return say(language, "page.shown", steps=card.steps, family=card.family)
    category = phrase(f"category.{card.family}", language, card.family)
    words = " ".join(card.text.split())
    short = words if len(words) <= 48 else f"{words[:47].rstrip()}…"
    return say(language, "page.shown_text", category=category, text=short)


def phrase(key: str, language: str, otherwise: str) -> str:
    """What the wording has for ``key``; ``otherwise`` where it has nothing."""
    return say(language, key) if key in dictionary() else otherwise
