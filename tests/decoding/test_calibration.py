"""What a run learns of its drafter: acceptance by depth, drawn towards what was known before."""

from __future__ import annotations

import math

import pytest

from confu_demo.decoding.calibration import PRIOR_SIBLINGS, Calibration, expected_tokens

PARENTS = (-1, 0, 0, 1, 1, 2)
PROBS = (1.0, 0.5, 0.25, 0.5, 0.4, 0.9)
LOG_PROBS = tuple(math.log(prob) for prob in PROBS)


def learned(*paths: tuple[int, ...]) -> Calibration:
    calibration = Calibration(max_depth=4, num_siblings=3)
    for path in paths:
        calibration.add(PARENTS, LOG_PROBS, path)
    return calibration


def test_before_any_evidence_the_drafter_is_believed():
    fresh = learned()
    assert fresh.factors() == [1.0] * 4
    assert fresh.hit_rates() == pytest.approx([PRIOR_SIBLINGS[0]] * 4)
    assert fresh.acceptance() == [pytest.approx(PRIOR_SIBLINGS[:3])] * 4


def test_only_children_of_accepted_nodes_are_evidence():
    """Path 0 -> 2: at depth 1 the second child hit, at depth 2 node 5 was refused; the children
    of node 1 were never judged."""
    found = learned((2,))
    overall = (8 + 1) / (8 + 0.75 + 0.9)
    assert found.factors()[0] == pytest.approx((8 * overall + 1) / (8 + 0.75))
    assert found.factors()[1] == pytest.approx((8 * overall + 0) / (8 + 0.9))
    assert found.factors()[2:] == pytest.approx([overall] * 2)
    hit = (8 * 0.7 + 1) / (8 + 2)
    expected = [(8 * hit + 1) / 9, (8 * hit + 0) / 9, hit, hit]
    assert found.hit_rates() == pytest.approx(expected)


def test_hits_are_counted_by_the_rank_among_siblings():
    second = learned(*[(2,)] * 50).acceptance()
    assert second[0][1] > 0.8
    assert second[0][0] < 0.2
    first = learned(*[(1, 3)] * 50).acceptance()
    assert first[0][0] > 0.9
    assert first[1][0] > 0.9
    assert first[2] == pytest.approx([first[3][rank] for rank in range(3)])


def test_much_evidence_outweighs_the_prior():
    never = learned(*[()] * 200)
    assert never.factors()[0] < 0.1
    assert never.hit_rates()[0] < 0.05
    always = learned(*[(1, 3)] * 200)
    assert always.factors()[0] == pytest.approx(1 / 0.75, rel=0.05)
    assert always.factors()[1] == pytest.approx(1 / 0.9, rel=0.05)


def test_deeper_paths_than_were_reckoned_with_change_nothing():
    chain = tuple(range(-1, 9))
    calibration = Calibration(max_depth=2, num_siblings=1)
    calibration.add(chain, [0.0] * 10, tuple(range(1, 10)))
    assert len(calibration.factors()) == 2


def test_the_expected_tokens_are_the_chances_of_all_nodes():
    plain = 1.0 + 0.5 + 0.25 + 0.25 + 0.2 + 0.225
    assert expected_tokens(PARENTS, LOG_PROBS, [1.0]) == pytest.approx(plain)
    halved = 1.0 + 0.25 + 0.125 + 0.125 + 0.1 + 0.1125
    assert expected_tokens(PARENTS, LOG_PROBS, [0.5, 1.0]) == pytest.approx(halved)
    certain = expected_tokens(PARENTS, LOG_PROBS, [100.0])
    assert certain == pytest.approx(6.0)  # no chance is above 1
    assert expected_tokens((-1,), (0.0,), [1.0]) == 1.0
