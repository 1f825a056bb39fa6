"""Wordings and their meaning."""

from __future__ import annotations

import random

import pytest

from confu_demo.data.problems import FAMILIES, make_problem
from confu_demo.data.steps import (
    CONNECTORS,
    QUANTITIES,
    WORDINGS,
    Quantity,
    Step,
    compute,
    parse_answer,
    parse_step,
    word_step,
)

ANNS_SHELLS = Quantity("owned", "Ann", "shells")


def test_every_wording_of_every_operation_is_read_back_with_its_meaning():
    rng = random.Random(0)
    for operation, templates in WORDINGS.items():
        assert len(templates) >= 8
        for template in templates:
            for kind in QUANTITIES:
                quantity = Quantity(
                    kind,
                    "Monday" if kind == "distance" else "Ann" if kind == "owned" else "",
                    "shells" if kind in ("owned", "count", "cost", "needed") else "",
                )
                for variant in (0, 1):
                    text = template.format(q=quantity.phrase(variant), a=12, b=4, c=3)
                    connector = rng.choice(CONNECTORS)
                    text = connector + text if connector else text[0].upper() + text[1:]
                    assert parse_step(text) == Step(quantity, operation, (12, 4), 3), text


def test_random_steps_of_every_family_are_read_back_and_are_right():
    rng = random.Random(1)
    for family in FAMILIES:
        for _ in range(40):
            problem = make_problem(rng, min_steps=3, max_steps=9, family=family)
            assert problem.family == family
            for step in problem.steps:
                read = parse_step(word_step(step, rng))
                assert read is not None
                assert read.means_the_same(step)
                assert step.is_right
                assert 0 <= step.value <= 999


def test_order_of_operands_matters_only_where_it_changes_the_result():
    added = Step(ANNS_SHELLS, "add", (3, 9), 12)
    assert added.means_the_same(Step(ANNS_SHELLS, "add", (9, 3), 12))
    taken = Step(ANNS_SHELLS, "subtract", (9, 3), 6)
    assert not taken.means_the_same(Step(ANNS_SHELLS, "subtract", (3, 9), 6))


@pytest.mark.parametrize(
    "other",
    [
        Step(ANNS_SHELLS, "add", (3, 9), 13),
        Step(ANNS_SHELLS, "add", (4, 9), 12),
        Step(ANNS_SHELLS, "subtract", (3, 9), 12),
        Step(Quantity("owned", "Tom", "shells"), "add", (3, 9), 12),
        Step(Quantity("owned", "Ann", "pens"), "add", (3, 9), 12),
    ],
)
def test_a_step_with_another_value_operand_operation_or_quantity_means_something_else(other):
    assert not Step(ANNS_SHELLS, "add", (3, 9), 12).means_the_same(other)


@pytest.mark.parametrize(
    "text", ["", "Answer: 12", "Ann's shells must be 3 + 9", "3 + 9 = 12", "Nothing at all."]
)
def test_text_in_none_of_our_wordings_has_no_meaning(text):
    assert parse_step(text) is None


def test_division_with_a_remainder_has_no_result():
    assert compute("divide", 7, 2) is None
    assert compute("divide", 7, 0) is None
    assert compute("divide", 8, 2) == 4


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer: 12", 12),
        ("So 3 + 9 = 12.\n\nAnswer: 12\n", 12),
        ("Answer: twelve", None),
        ("Answer: 12 apples", None),
        ("", None),
    ],
)
def test_the_answer_is_the_number_of_the_last_line(text, answer):
    assert parse_answer(text) == answer
