"""Curves: one method with one setting at several values, on the same problems as plain decoding.

What a contemplate token is worth (acceptance length against the budget) and what it costs
(milliseconds a token) are measured side by side, so that a choice can be read off. Every value
decodes every problem alone, one after the other, so that slow drifts of the machine meet all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from confu_demo.bench.acceptance import acceptance_report
from confu_demo.bench.measure import LaneRun, ProblemResult, race_once
from confu_demo.bench.report import method_report
from confu_demo.config import DecodeConfig, TreeConfig
from confu_demo.data.prompts import Prompt, find_prompt
from confu_demo.data.steps import parse_answer
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.metrics import identical_text, speedup
from confu_demo.race_report import BASELINE, number
from confu_demo.step_metrics import ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One row of a curve."""

    name: str
    method: str
    config: DecodeConfig


def budget_points(config: DecodeConfig, budgets: Sequence[tuple[str, int]]) -> list[Point]:
    """ConFu at every budget (its name and its value), all else as it is. Raises ``ValueError``
    for a budget that the settings do not allow."""
    return [
        Point(
            name=f"confu, budget {name}",
            method="confu",
            config=replace(config, confu=replace(config.confu, contemplate_budget=value)),
        )
        for name, value in budgets
    ]


def tree_points(
    config: DecodeConfig, trees: Sequence[tuple[str, TreeConfig, int]], methods: Sequence[str]
) -> list[Point]:
    """Every method with every tree: its name, its shape, and the contemplate budget with it."""
    return [
        Point(
            name=f"{method}, nodes {name}",
            method=method,
            config=replace(
                config, tree=tree, confu=replace(config.confu, contemplate_budget=budget)
            ),
        )
        for method in methods
        for name, tree, budget in trees
    ]


def gamma_points(
    config: DecodeConfig, gammas: Sequence[float], methods: Sequence[str]
) -> list[Point]:
    """Every step method at every threshold of the gate. Raises ``ValueError`` for a threshold
    that makes no sense."""
    return [
        Point(
            name=f"{method}, gamma {gamma:g}",
            method=method,
            config=replace(config, confspec=replace(config.confspec, threshold=gamma)),
        )
        for method in methods
        for gamma in gammas
    ]


def steps_points(
    config: DecodeConfig, counts: Sequence[tuple[str, int]], methods: Sequence[str]
) -> list[Point]:
    """Every step method with every number of draft steps: its name and its value."""
    return [
        Point(
            name=f"{method}, k {name}",
            method=method,
            config=replace(config, confspec=replace(config.confspec, draft_steps=count)),
        )
        for method in methods
        for name, count in counts
    ]


def sweep(
    suite: LoadedSuite,
    points: Sequence[Point],
    split: str,
    indices: Iterable[int],
    progress: Callable[[int], None] = lambda index: None,
) -> dict[str, list[ProblemResult]]:
    """The results of every point by name, and of the plain loop."""
    plain = Point(name=BASELINE, method=BASELINE, config=points[0].config)
    results: dict[str, list[ProblemResult]] = {point.name: [] for point in (plain, *points)}
    for index in indices:
        chosen = find_prompt(suite.suite.name, split, index)
        request = suite.request(chosen.text)
        baseline = None
        for point in (plain, *points):
            config = suite.fit(point.config, request, [point.method], may_shorten=True)
            run = race_once(suite, [point.method], request, config)[point.method]
            baseline = baseline or run
            results[point.name].append(_result(point, index, run, baseline, chosen))
        progress(index)
    return results


def rows_of(results: dict[str, list[ProblemResult]]) -> dict[str, dict[str, Any]]:
    """The numbers of every point, as the benchmark defines them."""
    return {name: _row(found) for name, found in results.items()}


NEARLY_EQUAL = 0.1
"""Verified tokens a cycle that differ by this share or less count as equal."""


def equal_work(
    points: Sequence[Point],
    rows: dict[str, dict[str, Any]],
    results: dict[str, list[ProblemResult]],
) -> list[dict[str, Any]]:
    """ConFu against EAGLE-3 at equal tree nodes and at equal verified tokens ([con] included):
    acceptance lengths, their ratio and its interval over prompts. Empty without such a pair."""
    found = []
    eagle3 = [point for point in points if point.method == "eagle3"]
    for own in (point for point in points if point.method == "confu"):
        for base in eagle3:
            mine, theirs = (verified_per_cycle(rows[point.name]) for point in (own, base))
            kinds = {
                "equal nodes": own.config.tree == base.config.tree,
                "equal verified tokens": abs(mine - theirs) <= NEARLY_EQUAL * max(mine, theirs),
            }
            pair = [*results[base.name], *results[own.name]]
            report = acceptance_report([base.name, own.name], pair)
            if report is not None:
                found += [
                    {"kind": kind, "point": own.name, "against": base.name, **report["rows"][1]}
                    for kind, holds in kinds.items()
                    if holds
                ]
    return found


def verified_per_cycle(row: dict[str, Any]) -> float:
    """Tree nodes and contemplate tokens of a cycle, on average; 0 without cycles."""
    return float((row["nodes_per_cycle"] or 0.0) + (row["contemplate_tokens_per_cycle"] or 0.0))


def equal_work_lines(found: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"{row['kind']}: {row['point']} against {row['against']}: {row['ratio']:.3f} "
        f"({row['ratio_interval'][0]:.3f}-{row['ratio_interval'][1]:.3f})"
        for row in found
    ]


def _result(
    point: Point, index: int, run: LaneRun, baseline: LaneRun, prompt: Prompt
) -> ProblemResult:
    right = parse_answer(run.metrics.text) == prompt.answer
    return ProblemResult(
        problem=index,
        method=point.name,
        category=prompt.category,
        run=run,
        speedup=speedup(run.metrics, baseline.metrics),
        identical=identical_text(run.metrics, baseline.metrics),
        answer_correct=None if prompt.answer is None else right,
    )


def _row(results: Sequence[ProblemResult]) -> dict[str, Any]:
    """The benchmark's numbers of a method, and what a cycle verified on average."""
    runs = [result.run.metrics for result in results if not result.run.failure]
    cycles = sum(run.num_cycles for run in runs)
    con = sum(run.num_contemplate_tokens for run in runs)
    verified = sum((run.verified_per_committed or 0.0) * _in_cycles(run) for run in runs)
    report = method_report(results)
    parts = report["ms_per_token"]
    return report | {
        "total_ms_per_token": sum(parts.values()) if parts["verify"] is not None else None,
        "nodes_per_cycle": ratio(verified - con, cycles),
        "contemplate_tokens_per_cycle": ratio(con, cycles),
        "failure": next((result.run.failure for result in results if result.run.failure), ""),
    }


def _in_cycles(run: Any) -> float:
    """Tokens that the cycles of a run committed."""
    return float((run.acceptance_length or 0.0) * run.num_cycles)


TABLE_HEADER = (
    "setting", "accepted", "ms/token", "draft", "verify", "other", "nodes", "[con]",
    "speedup", "same text",
)  # fmt: skip


def table_rows(rows: dict[str, dict[str, Any]]) -> list[Sequence[str]]:
    return [
        (
            name,
            number(row["acceptance_length"], 2),
            number(row["total_ms_per_token"], 2),
            number(row["ms_per_token"]["draft"], 2),
            number(row["ms_per_token"]["verify"], 2),
            number(row["ms_per_token"]["other"], 2),
            number(row["nodes_per_cycle"], 1),
            number(row["contemplate_tokens_per_cycle"], 1),
            number(row["speedup"], 2, "x"),
            number(row["identical_share"], 2),
        )
        for name, row in rows.items()
    ]


STEP_HEADER = (
    "setting", "speedup", "answers right", "steps kept", "escalated", "tokens", "draft", "verify",
)  # fmt: skip


def step_rows(rows: dict[str, dict[str, Any]]) -> list[Sequence[str]]:
    """What the step methods' settings did; empty without one."""
    if not any("step_acceptance" in row for row in rows.values()):
        return []
    return [
        (
            name,
            number(row["speedup"], 2, "x"),
            number(row["accuracy"], 3),
            number(row.get("step_acceptance"), 3),
            number(row.get("escalation_rate"), 3),
            number(row["num_tokens_mean"], 1),
            number(row["ms_per_token"]["draft"], 2),
            number(row["ms_per_token"]["verify"], 2),
        )
        for name, row in rows.items()
    ]
