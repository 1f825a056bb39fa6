"""Races over problems, and what is kept of each run.

Methods are interleaved within a problem by the race itself, so slow drifts of the machine meet
all of them alike. Of several repeats of a problem the run of median time counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from confu_demo.config import DecodeConfig
from confu_demo.data.prompts import Prompt, find_prompt
from confu_demo.data.steps import parse_answer
from confu_demo.decoding.base import DecodeRequest
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.metrics import RunMetrics, identical_text, median, speedup, summary, verdict_pairs
from confu_demo.race import race
from confu_demo.race_report import BASELINE
from confu_demo.step_metrics import VerdictPair
from confu_demo.trace import Event, RunFinished


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRun:
    """One run of one method. ``failure`` is empty unless it ended with an error."""

    metrics: RunMetrics
    verdicts: tuple[VerdictPair, ...]
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemResult:
    """One method on one problem. ``run`` is the repeat of median decode time; ``speedup`` the
    median over the repeats, each against the plain lane of the same race."""

    problem: int
    method: str
    run: LaneRun
    speedup: float | None
    identical: bool | None
    answer_correct: bool | None  # None: the prompt has no answer to check
    category: str = ""


def race_once(
    suite: LoadedSuite, methods: Sequence[str], request: DecodeRequest, config: DecodeConfig
) -> dict[str, LaneRun]:
    """One race; the events are reduced to numbers when it is over, off every clock."""
    events: dict[str, list[Event]] = {method: [] for method in methods}
    for method, event in race(suite.lanes(methods, request), config, new_clock=suite.new_clock):
        events[method].append(event)
    return {method: _lane_run(of_lane) for method, of_lane in events.items()}


def measure(
    suite: LoadedSuite,
    methods: Sequence[str],
    split: str,
    indices: Iterable[int],
    config: DecodeConfig,
    repeats: int,
    progress: Callable[[int], None] = lambda index: None,
) -> list[ProblemResult]:
    """Every method on every problem. ``progress`` is called after each problem."""
    results: list[ProblemResult] = []
    for index in indices:
        chosen = find_prompt(suite.suite.name, split, index)
        request = suite.request(chosen.text)
        fitting = suite.fit(config, request, methods, may_shorten=True)
        races = [race_once(suite, methods, request, fitting) for _ in range(repeats)]
        results.extend(
            _result(index, method, [run[method] for run in races], races, chosen)
            for method in methods
        )
        progress(index)
    return results


def _result(
    index: int,
    method: str,
    runs: Sequence[LaneRun],
    races: Sequence[dict[str, LaneRun]],
    prompt: Prompt,
) -> ProblemResult:
    by_time = sorted(runs, key=lambda run: run.metrics.decode_ms)
    chosen = by_time[(len(by_time) - 1) // 2]
    baselines = [run[BASELINE].metrics for run in races if BASELINE in run]
    ratios = [speedup(run.metrics, base) for run, base in zip(runs, baselines, strict=False)]
    compared = baselines and method != BASELINE
    return ProblemResult(
        problem=index,
        method=method,
        category=prompt.category,
        run=chosen,
        speedup=median([ratio for ratio in ratios if ratio is not None]),
        identical=identical_text(chosen.metrics, baselines[0]) if compared else None,
        answer_correct=(
            None if prompt.answer is None else parse_answer(chosen.metrics.text) == prompt.answer
        ),
    )


def _lane_run(events: Sequence[Event]) -> LaneRun:
    last = events[-1]
    failed = isinstance(last, RunFinished) and last.reason == "error"
    return LaneRun(
        metrics=summary(events),
        verdicts=verdict_pairs(events),
        failure=last.message if failed and isinstance(last, RunFinished) else "",
    )
