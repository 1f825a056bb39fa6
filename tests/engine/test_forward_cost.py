"""Cost curves: straight between points, never falling; and the work that they are made of."""

from __future__ import annotations

import math
import time

import pytest
import torch

from confu_demo.engine.cache import KVCache
from confu_demo.engine.forward_cost import PAST, CostCurve, forward_jobs
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.target import ForwardOutput, LeanModel
from confu_demo.engine.timing import usual_ms
from confu_demo.engine.weights import random_weights

CURVE = CostCurve(((2, 10.0), (4, 14.0), (8, 14.0), (12, 30.0)))


@pytest.mark.parametrize(
    ("rows", "ms"),
    [(0, 10), (1, 10), (2, 10), (3, 12), (4, 14), (6, 14), (8, 14), (9, 18), (12, 30), (14, 38)],
)
def test_a_curve_is_straight_between_its_points_and_goes_on_with_its_last_slope(rows, ms):
    assert CURVE.ms(rows) == pytest.approx(ms)


def test_a_curve_of_one_point_is_level():
    curve = CostCurve(((1, 3.0),))
    assert [curve.ms(rows) for rows in (1, 2, 50)] == [3.0, 3.0, 3.0]


def test_a_table_costs_nothing_for_no_rows():
    assert CURVE.table(5) == [0.0, 10.0, 10.0, 12.0, 14.0, 14.0]


@pytest.mark.parametrize(
    "points",
    [
        (),
        ((1, 2.0), (1, 3.0)),
        ((2, 2.0), (1, 3.0)),
        ((1, 3.0), (2, 2.0)),
        ((1, -1.0),),
        ((1, math.nan),),
    ],
)
def test_a_curve_that_falls_or_goes_back_is_refused(points):
    with pytest.raises(ValueError, match="never-falling"):
        CostCurve(points)


def test_times_that_fall_are_averaged_and_the_others_stay():
    rows = (1, 2, 4, 8, 12)
    assert CostCurve.monotone(rows, (1, 2, 3, 4, 5)).points == (
        (1, 1),
        (2, 2),
        (4, 3),
        (8, 4),
        (12, 5),
    )
    one_slow_moment = CostCurve.monotone(rows, (1.0, 2.0, 9.0, 4.0, 10.0))
    assert one_slow_moment.points == ((1, 1.0), (2, 2.0), (4, 6.5), (8, 6.5), (12, 10.0))
    falling = CostCurve.monotone(rows, (5.0, 4.0, 3.0, 2.0, 1.0))
    assert falling.points == tuple((row, 3.0) for row in rows)


def tiny(max_positions: int = 512) -> LeanModel:
    config = ModelConfig.from_hf(
        {
            "model_type": "llama",
            "vocab_size": 11,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": max_positions,
        }
    )
    return LeanModel(config, random_weights(config, seed=0))


def test_every_job_is_a_masked_forward_of_its_rows_after_the_same_past():
    seen: list[tuple[int, int, int]] = []

    def after(cache: KVCache, out: ForwardOutput) -> None:
        assert out.features is not None
        assert torch.isfinite(out.logits).all()
        seen.append((out.logits.shape[0], cache.length, out.features.shape[1]))

    jobs = forward_jobs(tiny(), (0, 2), (1, 3, 8), after)
    for job in [*jobs, *reversed(jobs)]:
        job()
    once = [(rows, PAST + rows, 2 * 16) for rows in (1, 3, 8)]
    assert seen == [*once, *reversed(once)]


def test_a_short_context_gets_a_shorter_past_or_is_refused():
    lengths: list[int] = []
    for job in forward_jobs(
        tiny(20), (0,), (1, 8), lambda cache, out: lengths.append(cache.length)
    ):
        job()
    assert lengths == [13, 20]
    with pytest.raises(ValueError, match="context of 20 tokens"):
        forward_jobs(tiny(20), (0,), (1, 64))


def test_the_first_pass_and_the_slow_ones_do_not_count(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    takes = iter([9.0, 0.1, 0.002, 0.1, 0.5, 0.1, 0.003, 0.1, 0.004, 0.1])

    def work() -> None:
        now[0] += next(takes)

    first, second = usual_ms([work, work], passes=4, max_seconds=60.0)
    assert first == pytest.approx(2.0)  # of 2, 500, 3 and 4; not the first pass's 9000
    assert second == pytest.approx(100.0)


def test_work_that_takes_too_long_ends_with_what_is_known(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def work(seconds: float):
        def run() -> None:
            now[0] += seconds

        return run

    jobs = [work(1.0), work(2.0), work(4.0), work(8.0)]
    assert usual_ms(jobs, max_seconds=2.5) == [1000.0, 2000.0]
    assert usual_ms(jobs, max_seconds=0.1, least=3) == [1000.0, 2000.0, 4000.0]
    assert len(usual_ms(jobs, max_seconds=1000.0)) == 4
