"""Problems and the splits they belong to."""

from __future__ import annotations

import random

import pytest

from confu_demo.data.problems import FAMILIES, make_problem
from confu_demo.data.splits import (
    SPLIT_SIZES,
    parse_problem_name,
    problem,
    reserved_texts,
    training_problem,
)


def test_a_problem_is_the_same_every_time_and_everywhere():
    # The literal text pins the split: a changed generator would silently move the held-out set.
    assert problem("heldout", 3) == problem("heldout", 3)
    assert problem("heldout", 0).text == (
        "A tram starts with 28 passengers. Later 11 get on. At the next stop 38 get off. "
        "Then 16 get on. Then 15 get on. How many passengers are on the tram then?"
    )
    assert problem("heldout", 0).answer == 32


def test_splits_share_no_problem():
    texts = {
        name: {problem(name, i).text for i in range(size)} for name, size in SPLIT_SIZES.items()
    }
    names = list(texts)
    for position, first in enumerate(names):
        for second in names[position + 1 :]:
            assert not texts[first] & texts[second]


def test_training_skips_reserved_problems(monkeypatch):
    fresh = make_problem(random.Random(9), min_steps=2, max_steps=3)
    assert fresh.text not in reserved_texts()
    candidates = iter([problem("heldout", 5), problem("hard", 1), fresh])
    monkeypatch.setattr(
        "confu_demo.data.splits.make_problem", lambda *args, **kwargs: next(candidates)
    )
    assert training_problem(random.Random(0), min_steps=2, max_steps=3) == fresh


def test_every_family_occurs_in_the_held_out_split():
    families = {problem("heldout", index).family for index in range(200)}
    assert families == set(FAMILIES)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("heldout", "named like heldout:7"),
        ("heldout:x", "named like heldout:7"),
        ("heldout:-1", "named like heldout:7"),
        ("heldout:1000", "0 to 999"),
        ("nowhere:1", "unknown split"),
    ],
)
def test_a_wrong_problem_name_is_refused_with_the_reason(name, reason):
    with pytest.raises(ValueError, match=reason):
        parse_problem_name(name)


def test_an_unknown_family_is_refused_by_name():
    with pytest.raises(ValueError, match="unknown family 'chess'"):
        make_problem(random.Random(0), min_steps=2, max_steps=3, family="chess")
