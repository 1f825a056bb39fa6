"""From runs to the numbers of the benchmark's JSON and table. Pure; every number once, here.

Shares, lengths and rates are pooled over all problems (a long problem weighs more than a short
one); ``speedup`` is the median over problems of the speedup per committed token, with quartiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confu_demo.bench.measure import ProblemResult
from confu_demo.metrics import confident_agreement, quartiles, wilson_interval
from confu_demo.race_report import BASELINE, number
from confu_demo.step_metrics import StepMetrics, ratio


def method_report(results: Sequence[ProblemResult]) -> dict[str, Any]:
    """The numbers of one method. Failed runs are counted in ``failures`` and nowhere else."""
    good = [result for result in results if not result.run.failure]
    runs = [result.run.metrics for result in good]
    spread = quartiles([r.speedup for r in good if r.speedup is not None])
    checked = [result.answer_correct for result in good if result.answer_correct is not None]
    right = sum(checked)
    same = [result.identical for result in good if result.identical is not None]
    tokens = sum(run.num_tokens for run in runs)
    decode_ms = sum(run.decode_ms for run in runs)
    cycles = sum(run.num_cycles for run in runs)
    in_cycles = sum((run.acceptance_length or 0.0) * run.num_cycles for run in runs)
    report: dict[str, Any] = {
        "problems": len(good),
        "failures": len(results) - len(good),
        "speedup": spread[1] if spread else None,
        "speedup_quartiles": [spread[0], spread[2]] if spread else None,
        "acceptance_length": ratio(in_cycles, cycles),
        "accuracy": ratio(right, len(checked)),
        "cut_at_limit": sum(
            result.answer_correct is not None and result.run.metrics.finish_reason == "length"
            for result in good
        ),
        "accuracy_interval": _listed(wilson_interval(right, len(checked))),
        "tokens_per_s": ratio(1000.0 * tokens, decode_ms),
        "num_tokens_mean": ratio(tokens, len(good)),
        "identical_share": ratio(sum(same), len(same)),
        "target_forwards_per_token": ratio(sum(run.target_forwards or 0 for run in runs), tokens),
        "target_tokens_per_token": ratio(sum(run.target_tokens or 0 for run in runs), tokens),
        "ms_per_token": {
            "draft": ratio(sum(run.draft_ms for run in runs), tokens),
            "verify": ratio(sum(run.verify_ms for run in runs), tokens),
            "other": ratio(sum(run.other_ms for run in runs), tokens),
        },
    }
    steps = [run.steps for run in runs if run.steps is not None]
    return report | (_step_report(steps, good) if steps else {})


def _step_report(steps: Sequence[StepMetrics], results: Sequence[ProblemResult]) -> dict[str, Any]:
    """ConfSpec's own numbers. In finished runs every gated step is either kept or dropped."""

    def total(name: str) -> int:
        return sum(getattr(step, name) for step in steps)

    report: dict[str, Any] = {
        "step_acceptance": ratio(total("num_accepted"), total("num_gated")),
        "escalation_rate": ratio(total("num_escalated"), total("num_judged")),
        "exact_match_rate": ratio(total("num_exact_matches"), total("num_gated")),
        "steps_by_draft": total("steps_by_draft"),
        "steps_by_target": total("steps_by_target"),
        "bonus_steps": total("bonus_steps"),
        "lost_share": ratio(
            sum(step.lost_ms for step in steps),
            sum(result.run.metrics.decode_ms for result in results),
        ),
    }
    verdicts = [pair for result in results for pair in result.run.verdicts]
    if any(pair.audit for pair in verdicts):
        agreed = confident_agreement(verdicts, verdicts[0].threshold)
        report["audit"] = {"agreed": agreed.agreed, "checked": agreed.checked, "rate": agreed.rate}
    return report


def methods_report(
    methods: Sequence[str], results: Sequence[ProblemResult]
) -> dict[str, dict[str, Any]]:
    return {m: method_report([result for result in results if result.method == m]) for m in methods}


TABLE_HEADER = (
    "method", "speedup", "quartiles", "accepted", "accuracy", "95 % interval", "tokens/s",
    "tokens", "same text", "fwd/token", "draft", "verify", "other ms/token",
)  # fmt: skip


def table_rows(methods: dict[str, dict[str, Any]]) -> list[Sequence[str]]:
    return [_row(method, values) for method, values in methods.items()]


def cut_lines(methods: dict[str, dict[str, Any]]) -> list[str]:
    """A hint where runs had an answer to find and ended before it."""
    cut = {method: values["cut_at_limit"] for method, values in methods.items()}
    named = ", ".join(f"{count} of {method}" for method, count in cut.items() if count)
    if not named:
        return []
    return [
        f"cut at the limit, and so counted as not right: {named} (--max-new-tokens allows more)"
    ]


def step_lines(methods: dict[str, dict[str, Any]]) -> list[str]:
    """One line for every method that works in steps."""
    return [
        f"{method}: step acceptance {number(values['step_acceptance'], 3)}, escalation rate "
        f"{number(values['escalation_rate'], 3)}, exact matches "
        f"{number(values['exact_match_rate'], 3)}, time in steps that came to nothing "
        f"{number(values['lost_share'], 3)}" + _audit_words(values)
        for method, values in methods.items()
        if "step_acceptance" in values
    ]


def _row(method: str, values: dict[str, Any]) -> Sequence[str]:
    parts = values["ms_per_token"]
    is_plain = method == BASELINE
    return (
        method,
        number(values["speedup"], 2, "x"),
        _range(values["speedup_quartiles"], 2),
        number(values["acceptance_length"], 2),
        number(values["accuracy"], 3),
        _range(values["accuracy_interval"], 2),
        number(values["tokens_per_s"], 0),
        number(values["num_tokens_mean"], 1),
        number(values["identical_share"], 2),
        number(values["target_forwards_per_token"], 2),
        "-" if is_plain else number(parts["draft"], 2),
        number(parts["verify"], 2),
        number(parts["other"], 2),
    )


def _audit_words(values: dict[str, Any]) -> str:
    if "audit" not in values:
        return ""
    audit = values["audit"]
    return f", confident verdicts as the target's: {audit['agreed']} of {audit['checked']}"


def _range(pair: Sequence[float] | None, digits: int) -> str:
    return "-" if pair is None else f"{pair[0]:.{digits}f}-{pair[1]:.{digits}f}"


def _listed(pair: tuple[float, float] | None) -> list[float] | None:
    return None if pair is None else list(pair)
