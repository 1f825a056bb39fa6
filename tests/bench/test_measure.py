from __future__ import annotations

import pickle

import pytest

from confu_demo.bench.generate_baseline import generate_line, measure_generate
from confu_demo.bench.measure import LaneRun, ProblemResult, measure, race_once
from confu_demo.bench.race_check import check_line, check_race
from confu_demo.config import DecodeConfig
from confu_demo.data.splits import problem
from tests.tiny_suite import loaded

METHODS = ("autoregressive", "eagle3", "confspec")
CONFIG = DecodeConfig(max_new_tokens=8)


def test_every_method_is_measured_on_every_problem():
    seen: list[int] = []
    results = measure(loaded(), METHODS, "heldout", [5, 9], CONFIG, 1, seen.append)
    assert [(r.problem, r.method) for r in results] == [(i, m) for i in (5, 9) for m in METHODS]
    assert seen == [5, 9]
    for result in results:
        assert result.run.failure == ""
        assert result.run.metrics.num_tokens == 8
        assert result.speedup is not None
        assert result.speedup > 0
    plain, eagle3, _ = results[:3]
    assert (plain.speedup, plain.identical) == (1.0, None)
    assert eagle3.identical is True


def test_without_the_plain_lane_there_is_no_speedup():
    (result,) = measure(loaded(), ["eagle3"], "heldout", [0], CONFIG, 1)
    assert result.speedup is None
    assert result.identical is None


def test_of_several_repeats_the_median_run_counts(monkeypatch: pytest.MonkeyPatch):
    suite = loaded()
    times = iter([30.0, 10.0, 20.0])

    def fake(*args: object) -> dict[str, LaneRun]:
        runs = race_once(*args)  # type: ignore[arg-type]
        return {m: _with_time(run, t) for (m, run), t in zip(runs.items(), times, strict=False)}

    monkeypatch.setattr("confu_demo.bench.measure.race_once", fake)
    (result,) = measure(suite, ["autoregressive"], "heldout", [0], CONFIG, 3)
    assert result.run.metrics.decode_ms == 20.0


def _with_time(run: LaneRun, decode_ms: float) -> LaneRun:
    from dataclasses import replace

    return replace(run, metrics=replace(run.metrics, decode_ms=decode_ms))


def test_results_can_travel_between_processes():
    results = measure(loaded(), ["autoregressive", "confspec"], "heldout", [1], CONFIG, 1)
    back: list[ProblemResult] = pickle.loads(pickle.dumps(results))
    assert back == results


def test_a_lane_that_fails_is_kept_as_a_failure(monkeypatch: pytest.MonkeyPatch):
    suite = loaded()

    def fails(*args: object) -> object:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(suite.decoder("eagle3"), "decode", fails)
    plain, eagle3 = measure(suite, ["autoregressive", "eagle3"], "heldout", [0], CONFIG, 1)
    assert plain.run.failure == ""
    assert eagle3.run.failure == "RuntimeError: out of memory"


def test_the_plain_loop_says_the_same_as_transformers_generate():
    found = measure_generate(loaded(), "heldout", [0, 1], CONFIG)
    assert found["problems"] == found["same_tokens"] == 2
    assert found["ratio"] > 0
    low, high = found["ratio_quartiles"]
    assert low <= found["ratio"] <= high
    assert found["generate_prompt_lookup_ms_per_token"] > 0
    assert "same tokens on 2 of 2 problems" in generate_line(found)


def test_the_race_is_compared_with_running_alone():
    found = check_race(loaded(), METHODS, "heldout", [0], CONFIG)
    assert list(found["ratios"]) == list(METHODS)
    assert all(value > 0 for value in found["ratios"].values())
    far = {**found, "ratios": {"eagle3": 1.2}, "within": False}
    assert "eagle3 1.200; NOT within 5%" in check_line(far)


def test_answers_are_compared_with_the_problems(monkeypatch: pytest.MonkeyPatch):
    answer = problem("heldout", 0).answer
    suite = loaded()

    def fake(*args: object) -> dict[str, LaneRun]:
        from dataclasses import replace

        runs = race_once(*args)  # type: ignore[arg-type]
        run = runs["autoregressive"]
        text = f"So it is.\n\nAnswer: {answer}"
        return {"autoregressive": replace(run, metrics=replace(run.metrics, text=text))}

    monkeypatch.setattr("confu_demo.bench.measure.race_once", fake)
    right, wrong = measure(suite, ["autoregressive"], "heldout", [0, 1], CONFIG, 1)
    assert right.answer_correct
    assert wrong.answer_correct == (problem("heldout", 1).answer == answer)
