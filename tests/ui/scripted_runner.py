"""A runner for the page that plays scripted lanes: the lane furthest behind goes first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from confu_demo.trace import Event, RunFinished
from confu_demo.ui.runner import METHODS, ProblemCard, RaceRequest
from tests.ui.scripted_lanes import OTHER_WORDS, STEPS, scripted_lanes

UNAVAILABLE = "prompt_lookup"


class ScriptedRunner:
    """``seconds_per_event`` makes a race last; ``report`` hears how each race ended."""

    def __init__(
        self,
        steps: Sequence[str] = STEPS,
        others: Sequence[str] = OTHER_WORDS,
        *,
        seconds_per_event: float = 0.0,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._steps, self._others = steps, others
        self._pause, self._report = seconds_per_event, report
        self.num_closed = 0

    def methods(self) -> Sequence[tuple[str, bool, str]]:
        reasons = {UNAVAILABLE: "switched off in this script"}
        return tuple((m, m not in reasons, reasons.get(m, "")) for m in METHODS)

    def check(self, request: RaceRequest) -> None:
        if "too long" in request.text:
            raise ValueError("the prompt has 900 tokens; this target reads at most 512")

    def race(self, request: RaceRequest, stop: Callable[[], bool]) -> Iterator[tuple[str, Event]]:
        lanes = scripted_lanes(request.text, self._steps, self._others, request.methods)
        rest = {lane: list(events) for lane, events in lanes.items()}
        now = dict.fromkeys(rest, 0.0)
        num_events = after_stop = 0
        try:
            while rest:
                if stop():
                    for lane in rest:
                        yield lane, cancelled(now[lane])
                    return
                lane = min(rest, key=lambda name: rest[name][0].t_ms)
                event = rest[lane].pop(0)
                now[lane] = event.t_ms
                if not rest[lane]:
                    del rest[lane]
                time.sleep(self._pause)
                num_events += 1
                after_stop += stop()
                yield lane, event
        finally:
            self.num_closed += 1
            self._report(f"race closed after {num_events} events, {after_stop} after the stop")

    def new_problem(self, seed: int, family: str | None) -> ProblemCard:
        if family not in (None, "shopping"):
            raise ValueError(f"unknown family {family!r}")
        return ProblemCard(
            text=f"Mia has {seed} lamps. She buys 4. How many lamps does Mia have?",
            answer=str(seed + 4),
            family="shopping",
            steps=1,
        )


def cancelled(t_ms: float) -> RunFinished:
    return RunFinished(
        t_ms=t_ms,
        reason="cancelled",
        message="",
        num_tokens=0,
        target_forwards=0,
        target_tokens=0,
        draft_forwards=0,
        prefill_ms=0.0,
        draft_ms=0.0,
        verify_ms=0.0,
        other_ms=t_ms,
    )
