"""Temperature, reliability and the gate's figures, against sums by hand."""

from __future__ import annotations

import math
import random

import pytest

from confu_demo.calibration_statistics import (
    Verdicts,
    accuracy,
    at_temperature,
    expected_calibration_error,
    fit_temperature,
    gate_figures,
    reliability,
)


def drawn(true_temperature: float, count: int = 4000) -> list[tuple[float, bool]]:
    """Verdicts that would be calibrated at ``true_temperature``."""
    rng = random.Random(3)
    known = []
    for _ in range(count):
        p = rng.betavariate(0.4, 0.4)
        known.append((p, rng.random() < at_temperature(p, true_temperature)))
    return known


def test_a_temperature_changes_how_sure_a_verdict_is_and_never_the_verdict():
    assert at_temperature(0.9, 1.0) == pytest.approx(0.9)
    assert at_temperature(0.9, 2.0) == pytest.approx(0.75)  # odds 9 become 3
    assert at_temperature(0.2, 0.5) == pytest.approx(1 / 17)
    assert at_temperature(0.5, 7.0) == pytest.approx(0.5)
    assert 0.0 < at_temperature(0.0, 1.0) < at_temperature(1.0, 1.0) < 1.0
    for p in (0.0, 0.1, 0.49, 0.51, 0.99, 1.0):
        assert (at_temperature(p, 3.0) > 0.5) == (p > 0.5)


@pytest.mark.parametrize("true_temperature", [0.5, 1.0, 2.5])
def test_the_temperature_that_calibrates_is_found(true_temperature):
    known = drawn(true_temperature)
    found = fit_temperature(known)
    assert found == pytest.approx(true_temperature, rel=0.12)
    scaled = [(at_temperature(p, found), same) for p, same in known]
    error = expected_calibration_error(reliability(scaled))
    assert error is not None
    assert error < 0.02
    if true_temperature != 1.0:
        before = expected_calibration_error(reliability(known))
        assert before is not None
        assert before > 0.05


def test_no_verdicts_leave_the_temperature_at_one():
    assert fit_temperature([]) == 1.0
    assert expected_calibration_error(reliability([])) is None
    assert accuracy([]) is None


def test_a_judge_that_is_never_wrong_gets_as_cold_as_allowed():
    assert fit_temperature([(0.8, True), (0.3, False)]) == pytest.approx(0.05, rel=1e-3)


def test_bins_count_confidence_and_accuracy_by_hand():
    known = [(0.52, True), (0.97, True), (0.99, False), (0.02, False), (1.0, True)]
    bins = reliability(known)
    assert [each.count for each in bins] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 4]
    last = bins[-1]
    assert (last.low, last.high) == (0.95, 1.0)
    assert last.confidence == pytest.approx((0.97 + 0.99 + 0.98 + 1.0) / 4)
    assert last.accuracy == 0.75
    error = expected_calibration_error(bins)
    assert error == pytest.approx(0.2 * 0.48 + 0.8 * abs(0.985 - 0.75))
    assert accuracy(known) == 0.8


PAIRS = (
    Verdicts(is_same=True, draft_p_same=0.95, target_p_same=0.2),  # sure and right
    Verdicts(is_same=False, draft_p_same=0.92, target_p_same=0.1),  # sure and harmful
    Verdicts(is_same=True, draft_p_same=0.6, target_p_same=0.9),  # the target saves it
    Verdicts(is_same=False, draft_p_same=0.55, target_p_same=0.8),  # the target lets it through
    Verdicts(is_same=True, draft_p_same=0.03, target_p_same=0.9),  # sure and wasted
    Verdicts(is_same=False, draft_p_same=0.99, target_p_same=0.3, mass=0.2),  # too little mass
)


def test_the_gate_is_counted_pair_by_pair():
    gate = gate_figures(PAIRS, 0.9, min_mass=0.5)
    assert (gate.pairs, gate.num_confident, gate.confident_right, gate.target_right) == (6, 3, 1, 2)
    assert (gate.accepted, gate.harmful, gate.wasted) == (4, 2, 1)
    assert gate.coverage == 0.5
    assert gate.confident_accuracy == pytest.approx(1 / 3)
    assert gate.interval is not None
    assert gate.interval[0] < 1 / 3 < gate.interval[1]


def test_the_ends_of_the_gate_are_one_judge_alone():
    alone = gate_figures(PAIRS, 0.5, min_mass=0.5)
    assert (alone.coverage, alone.accepted) == (1.0, 5)
    target = gate_figures(PAIRS, 2.0)
    assert (target.num_confident, target.accepted, target.harmful) == (0, 3, 1)
    assert target.confident_accuracy is None
    assert target.interval is None


def test_a_higher_threshold_never_covers_more():
    covered = [gate_figures(PAIRS, gamma).num_confident for gamma in (0.5, 0.6, 0.9, 0.95, 0.99)]
    assert covered == sorted(covered, reverse=True)
    assert not math.isnan(sum(covered))
