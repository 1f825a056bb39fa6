"""Numbers recomputed by hand from a few made-up runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from confu_demo.bench.measure import LaneRun, ProblemResult
from confu_demo.bench.report import (
    cut_lines,
    method_report,
    methods_report,
    step_lines,
    table_rows,
)
from confu_demo.cli.tables import format_table
from confu_demo.metrics import summary, verdict_pairs
from confu_demo.trace import FinishReason
from tests.traces import step_run, token_run


def result(problem: int, speedup: float, correct: bool, decode_ms: float) -> ProblemResult:
    """The hand-made ConFu run with another decode time."""
    metrics = replace(summary(token_run()), decode_ms=decode_ms)
    return ProblemResult(
        problem=problem,
        method="confu",
        run=LaneRun(metrics=metrics, verdicts=(), failure=""),
        speedup=speedup,
        identical=problem != 2,
        answer_correct=correct,
    )


RESULTS = [result(0, 1.0, True, 100.0), result(1, 2.0, True, 200.0), result(2, 3.0, False, 300.0)]
FAILED = replace(RESULTS[0], problem=3, run=replace(RESULTS[0].run, failure="out of memory"))


def test_a_methods_numbers_are_pooled_over_its_problems():
    run = RESULTS[0].run.metrics
    report = method_report(RESULTS)
    assert report["speedup"] == 2.0
    assert report["speedup_quartiles"] == [1.5, 2.5]
    assert report["accuracy"] == pytest.approx(2 / 3)
    assert report["accuracy_interval"] == pytest.approx([0.2077, 0.9385], abs=1e-3)
    assert report["identical_share"] == pytest.approx(2 / 3)
    assert report["tokens_per_s"] == pytest.approx(1000 * 3 * run.num_tokens / 600)
    assert report["num_tokens_mean"] == run.num_tokens
    assert report["acceptance_length"] == run.acceptance_length
    assert run.target_forwards is not None
    forwards = run.target_forwards / run.num_tokens
    assert report["target_forwards_per_token"] == pytest.approx(forwards)


def test_failed_runs_are_counted_and_left_out():
    report = method_report([*RESULTS, FAILED])
    assert (report["problems"], report["failures"]) == (3, 1)
    assert report == {**method_report(RESULTS), "failures": 1}


def test_a_method_that_failed_everywhere_has_no_numbers():
    report = method_report([FAILED])
    kept = {key: value for key, value in report.items() if value is not None}
    assert kept == {
        "problems": 0,
        "cut_at_limit": 0,
        "failures": 1,
        "ms_per_token": {"draft": None, "verify": None, "other": None},
    }
    assert format_table(("h",) * 13, table_rows({"confu": report})).count("-") >= 10


def test_step_numbers_are_pooled_over_steps():
    events = step_run()
    run = LaneRun(metrics=summary(events), verdicts=verdict_pairs(events), failure="")
    other = ProblemResult(
        problem=0, method="confspec", run=run, speedup=1.2, identical=False, answer_correct=True
    )
    report = methods_report(["confspec"], [other, other])["confspec"]
    steps = run.metrics.steps
    assert steps is not None
    assert report["step_acceptance"] == pytest.approx(steps.step_acceptance)
    assert report["escalation_rate"] == pytest.approx(steps.escalation_rate)
    assert report["exact_match_rate"] == pytest.approx(steps.exact_match_rate)
    assert report["bonus_steps"] == 2 * steps.bonus_steps
    (line,) = step_lines({"confspec": report})
    assert line.startswith("confspec: step acceptance 0.")
    assert step_lines({"confu": method_report(RESULTS)}) == []


def test_prompts_without_an_answer_count_neither_as_right_nor_as_wrong():
    free = [replace(result, answer_correct=None) for result in RESULTS]
    assert method_report(free)["accuracy"] is None
    assert method_report([*free, RESULTS[0]])["accuracy"] == 1.0


def test_runs_that_the_limit_cut_are_named_where_an_answer_was_to_be_found():
    def ended(problem: int, reason: FinishReason, correct: bool | None) -> ProblemResult:
        whole = result(problem, 1.0, False, 100.0)
        metrics = replace(whole.run.metrics, finish_reason=reason)
        return replace(whole, run=replace(whole.run, metrics=metrics), answer_correct=correct)

    runs = [ended(0, "length", False), ended(1, "eos", False), ended(2, "length", None)]
    report = method_report(runs)
    assert report["cut_at_limit"] == 1
    (line,) = cut_lines({"eagle3": report, "confu": method_report(RESULTS)})
    assert "counted as not right: 1 of eagle3 (" in line
    assert cut_lines({"confu": method_report(RESULTS)}) == []
