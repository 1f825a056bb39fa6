"""``validate``: what every run promises, checked on its events; tests and the recorder use it.

Here: the frame of a run, its clock, its totals. Draft trees and their verification are checked
by :mod:`confu_demo.cycle_validation`, reasoning steps by :mod:`confu_demo.step_validation`. Only
what the events' docstrings promise is checked; a broken promise is a sentence, never an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from confu_demo.cycle_validation import CycleCheck
from confu_demo.findings import Findings
from confu_demo.step_validation import StepCheck
from confu_demo.trace import (
    READABLE_VERSIONS,
    DraftProposed,
    DraftVerified,
    Event,
    MeasuredCosts,
    RoundPlanned,
    RunFinished,
    RunStarted,
    StepDrafted,
    StepGated,
    StepJudged,
    StepResolved,
    TokensCommitted,
)

SUM_TOLERANCE_MS = 1.0


def validate(events: Iterable[Event]) -> tuple[str, ...]:
    """The broken invariants of a finished run, in order; empty if there are none."""
    events = tuple(events)
    if not events:
        return ("the run has no events",)
    findings = Findings()
    findings.expect(isinstance(events[0], RunStarted), "the run does not begin with RunStarted")
    findings.expect(isinstance(events[-1], RunFinished), "the run does not end with RunFinished")
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    check = _RunCheck(findings, dict(started.config) if started else {})
    for index, event in enumerate(events):
        findings.place = f"event {index} ({type(event).__name__}): "
        check.add(event)
    return tuple(findings.sentences)


class _RunCheck:
    """Walks the events once and hands those of cycles and steps on."""

    def __init__(self, findings: Findings, config: Mapping[str, str]) -> None:
        self._expect = findings.expect
        self._cycles = CycleCheck(findings, config)
        self._steps = StepCheck(findings, config)
        self._max_new_tokens = _whole(config.get("max_new_tokens"))
        self._started = self._finished = False
        self._num_tokens = 0
        self._target_tokens = 0
        self._t_ms = 0.0

    def add(self, event: Event) -> None:
        self._expect(not self._finished, "comes after RunFinished")
        self._check_times(event)
        if isinstance(event, RunStarted):
            self._check_start(event)
        elif isinstance(event, DraftProposed):
            self._cycles.propose(event)
        elif isinstance(event, DraftVerified):
            self._target_tokens += event.num_target_tokens
            self._cycles.verify(event)
        elif isinstance(event, RoundPlanned):
            self._steps.plan(event)
        elif isinstance(event, StepDrafted):
            self._steps.draft(event)
        elif isinstance(event, StepGated):
            self._steps.gate(event)
        elif isinstance(event, StepJudged):
            self._steps.judge(event)
        elif isinstance(event, StepResolved):
            self._steps.resolve(event)
        elif isinstance(event, TokensCommitted):
            self._check_commit(event)
        elif isinstance(event, RunFinished):
            self._check_finish(event)

    def _check_times(self, event: Event) -> None:
        ms = getattr(event, "ms", 0.0)
        self._expect(math.isfinite(ms) and ms >= 0, f"took {ms} ms")
        if not math.isfinite(event.t_ms):
            self._expect(False, f"happens at {event.t_ms} ms")
            return
        self._expect(
            event.t_ms >= self._t_ms,
            f"happens at {event.t_ms:.3f} ms, before {self._t_ms:.3f} ms on the same clock",
        )
        self._t_ms = max(self._t_ms, event.t_ms)

    def _check_start(self, event: RunStarted) -> None:
        self._expect(not self._started, "the run starts twice")
        self._expect(
            event.schema_version in READABLE_VERSIONS,
            f"schema version {event.schema_version} instead of one of {READABLE_VERSIONS}",
        )
        if event.costs is not None:
            self._check_costs(event.costs)
        self._started = True

    def _check_costs(self, costs: MeasuredCosts) -> None:
        for name, points in (("verify", costs.verify), ("level", costs.level)):
            rises = all(low[0] < high[0] and low[1] <= high[1] for low, high in pairwise(points))
            self._expect(bool(points) and rises, f"the measured {name} costs do not rise")
        numbers = [costs.draft_ms, *(ms for _, ms in (*costs.verify, *costs.level))]
        self._expect(
            all(math.isfinite(number) and number >= 0.0 for number in numbers),
            "a measured cost is negative or not finite",
        )

    def _check_commit(self, event: TokensCommitted) -> None:
        count = len(event.token_ids)
        self._expect(
            len(event.origins) == count and len(event.texts) == count,
            f"{count} tokens with {len(event.origins)} origins and {len(event.texts)} texts",
        )
        self._num_tokens += count
        limit = self._max_new_tokens
        self._expect(
            limit is None or self._num_tokens <= limit,
            f"{self._num_tokens} tokens are committed, the limit is {limit}",
        )
        if event.cycle is not None:
            self._cycles.commit(event)
        elif event.step is None:
            self._expect(
                all(origin == "target" for origin in event.origins),
                "without a cycle or a step every token is the target's",
            )
        if event.step is not None:
            self._steps.commit(event)
        self._cycles.note_tokens(event)

    def _check_finish(self, event: RunFinished) -> None:
        self._finished = True
        self._cycles.finish(event)
        self._steps.finish(event)
        self._expect(
            event.num_tokens == self._num_tokens,
            f"num_tokens is {event.num_tokens}, {self._num_tokens} tokens were committed",
        )
        counts = (event.target_forwards, event.target_tokens, event.draft_forwards)
        self._expect(min(counts) >= 0, "counts a negative number of forwards or tokens")
        self._expect(
            event.target_tokens >= event.target_forwards,
            f"{event.target_forwards} target forwards computed only {event.target_tokens} tokens",
        )
        self._expect(
            event.target_tokens >= self._target_tokens,
            f"target_tokens is {event.target_tokens}, the cycles alone verified "
            f"{self._target_tokens}",
        )
        self._check_totals(event)

    def _check_totals(self, event: RunFinished) -> None:
        parts = (event.prefill_ms, event.draft_ms, event.verify_ms, event.other_ms)
        self._expect(
            all(math.isfinite(part) and part >= -SUM_TOLERANCE_MS for part in parts),
            "a total of milliseconds is negative or not finite",
        )
        gap = sum(parts) - event.t_ms
        self._expect(
            abs(gap) <= SUM_TOLERANCE_MS,
            f"prefill, draft, verify and other time differ from t_ms by {gap:.3f} ms",
        )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
