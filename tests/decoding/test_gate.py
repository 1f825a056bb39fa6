"""The gate's decisions and the walk over a round."""

from __future__ import annotations

import pytest

from confu_demo.config import ConfspecConfig
from confu_demo.decoding.gate import (
    EXACT_MATCH,
    UNFINISHED,
    Comparison,
    Gate,
    judged_gate,
    num_accepted,
    unjudged_gates,
    until_reject,
)
from confu_demo.decoding.judge import Opinion

ACCEPT = Gate(verdict="same", confidence=0.95, mass=1.0, decision="accept")
REJECT = Gate(verdict="different", confidence=0.95, mass=1.0, decision="reject")
ESCALATE = Gate(verdict="same", confidence=0.6, mass=1.0, decision="escalate")


@pytest.mark.parametrize(
    ("threshold", "verdict", "confidence", "mass", "decision"),
    [
        (0.9, "same", 0.95, 0.9, "accept"),
        (0.9, "different", 0.95, 0.9, "reject"),
        (0.9, "same", 0.9, 0.5, "accept"),  # both limits belong to the confident side
        (0.9, "same", 0.89, 0.9, "escalate"),
        (0.9, "different", 0.89, 0.9, "escalate"),
        (0.9, "same", 0.99, 0.49, "escalate"),  # low mass: a vague judge
        (0.5, "same", 0.51, 0.01, "accept"),  # draft judge only, whatever its mass
        (0.0, "different", 0.5, 0.0, "reject"),
        (1.01, "same", 1.0, 1.0, "escalate"),  # target judge only
    ],
)
def test_the_gate_decides_by_confidence_and_mass(threshold, verdict, confidence, mass, decision):
    config = ConfspecConfig(threshold=threshold, min_verdict_mass=0.5)
    gate = judged_gate(Opinion(verdict=verdict, confidence=confidence, mass=mass), config)
    assert (gate.decision, gate.verdict, gate.confidence) == (decision, verdict, confidence)
    assert gate.mass == mass


def test_equal_texts_skip_the_judge_and_unfinished_steps_end_the_list():
    def pair(draft, target, finished=True):
        return Comparison(pair=(draft, target), finished=finished)

    assert unjudged_gates([pair("A  b\nc", "a B c"), pair("a", "b"), pair("", "")]) == [
        EXACT_MATCH,
        None,
        EXACT_MATCH,
    ]
    # even if the texts so far are equal
    assert unjudged_gates([pair("a", "b"), pair("c", "c", False), pair("d", "d")]) == [
        None,
        UNFINISHED,
    ]


def test_nothing_is_looked_at_behind_the_first_confident_reject():
    assert until_reject([ACCEPT, ESCALATE, REJECT, ESCALATE]) == [ACCEPT, ESCALATE, REJECT]
    assert until_reject([ESCALATE, ACCEPT]) == [ESCALATE, ACCEPT]


def test_steps_are_kept_up_to_the_first_rejection_by_whoever_decides():
    assert num_accepted([ACCEPT, ACCEPT], {}) == 2
    assert num_accepted([ACCEPT, REJECT], {}) == 1
    assert num_accepted([ESCALATE, ACCEPT, REJECT], {0: "different"}) == 0
    assert num_accepted([ESCALATE, ACCEPT, REJECT], {0: "same"}) == 2
    assert num_accepted([ACCEPT, ESCALATE, ESCALATE], {1: "same", 2: "different"}) == 2
    assert num_accepted([], {}) == 0
