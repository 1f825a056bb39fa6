"""Two suites for the page: scripted word problems, and free text that has to be fetched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from confu_demo.ui.runner import ProblemCard, RaceRunner
from confu_demo.ui.suites import SuiteEntry
from tests.ui.scripted_lanes import PROBLEM
from tests.ui.scripted_runner import ScriptedRunner

PROMPTS = tuple(
    ProblemCard(text=f"Tell me about {topic}.", answer=None, family=category, steps=0)
    for topic, category in (("tea", "writing"), ("<b>rain</b>", "listing"), ("loops", "code"))
)
STAGES = ("download", "check", "unpack", "convert")


class FreeTextRunner(ScriptedRunner):
    """Its new prompts come from :data:`PROMPTS`."""

    def new_problem(self, seed: int, family: str | None) -> ProblemCard:
        return PROMPTS[seed % len(PROMPTS)]


@dataclass(frozen=True)
class Moment:
    stage: str
    percent: int
    detail: str = "tiny.gguf"


class ScriptedFetcher:
    """``error`` comes in the second stage, once; ``seconds`` is how long a moment lasts."""

    megabytes = 93

    def __init__(
        self,
        error: str = "",
        seconds: float = 0.0,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.error, self.is_here, self.num_closed = error, False, 0
        self._seconds, self._report = seconds, report

    def needed(self) -> bool:
        return not self.is_here

    def fetch(self) -> Iterator[Moment]:
        try:
            for stage in STAGES:
                for percent in (0, 50, 100):
                    time.sleep(self._seconds)
                    yield Moment(stage, percent)
                    if self.error and stage == STAGES[1]:
                        error, self.error = self.error, ""
                        raise ValueError(error)
            self.is_here = True
        finally:
            self.num_closed += 1
            self._report("fetch closed")


def scripted_suites(
    runner: RaceRunner | None = None, fetcher: ScriptedFetcher | None = None
) -> tuple[SuiteEntry, SuiteEntry]:
    return (
        SuiteEntry(name="bundled", runner=runner or ScriptedRunner(), gallery=(PROBLEM,)),
        SuiteEntry(
            name="smollm2-135m",
            runner=FreeTextRunner(),
            gallery=PROMPTS,
            style="chat",
            new_tokens=128,
            fetcher=fetcher or ScriptedFetcher(),
        ),
    )
