"""Acceptance by kind of prompt: paired with EAGLE-3, and only where every drafter ran."""

from __future__ import annotations

from dataclasses import replace

from confu_demo.bench.acceptance import acceptance_report
from confu_demo.bench.measure import LaneRun, ProblemResult
from confu_demo.metrics import summary
from tests.traces import token_run

METHODS = ("autoregressive", "eagle3", "confu")


def result(method: str, problem: int, length: float | None, category: str) -> ProblemResult:
    metrics = replace(summary(token_run()), acceptance_length=length, num_cycles=4)
    return ProblemResult(
        problem=problem,
        method=method,
        run=LaneRun(metrics=metrics, verdicts=(), failure=""),
        speedup=1.0,
        identical=None,
        answer_correct=None,
        category=category,
    )


def race(problem: int, eagle: float, confu: float, category: str) -> list[ProblemResult]:
    lengths = {"autoregressive": None, "eagle3": eagle, "confu": confu}
    return [result(method, problem, length, category) for method, length in lengths.items()]


def test_every_drafter_is_compared_with_eagle3_on_the_same_prompts() -> None:
    results = race(0, 2.0, 3.0, "code") + race(1, 4.0, 5.0, "writing")
    report = acceptance_report(METHODS, results)
    assert report is not None
    assert (report["baseline"], report["prompts"]) == ("eagle3", 2)
    rows = {row["name"]: row for row in report["rows"]}
    assert rows["confu"]["length"] == 4.0
    assert rows["confu"]["ratio"] == 4.0 / 3.0
    assert rows["confu"]["by_category"] == {"code": 3.0, "writing": 5.0}


def test_a_prompt_on_which_one_drafter_failed_is_left_out_for_all() -> None:
    results = race(0, 2.0, 3.0, "code") + race(1, 4.0, 5.0, "code")
    broken = results[5]
    results[5] = replace(broken, run=replace(broken.run, failure="out of memory"))
    report = acceptance_report(METHODS, results)
    assert report is not None
    assert report["prompts"] == 1
    assert report["rows"][0]["length"] == 2.0


def test_methods_that_draft_no_tokens_have_no_such_report() -> None:
    assert acceptance_report(("autoregressive",), race(0, 2.0, 3.0, "code")) is None
