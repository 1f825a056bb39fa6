"""The one place that says which problem belongs to which split.

``problem(split, index)`` is a pure function, so ``heldout:7`` is the same problem everywhere.
``heldout`` is what every report is about, ``calibration`` fits temperatures and thresholds,
``hard`` has longer problems than any in training. Training draws from ``train`` and drops every
problem whose text stands in another split.
"""

from __future__ import annotations

import random
from functools import cache

from confu_demo.data.problems import Problem, make_problem

SPLIT_SIZES = {"heldout": 1000, "calibration": 1000, "hard": 500}
STEP_RANGES = {"heldout": (4, 8), "calibration": (4, 8), "hard": (9, 12)}


def problem(split: str, index: int) -> Problem:
    """Problem ``index`` of ``heldout``, ``calibration`` or ``hard``; ValueError outside of them."""
    if split not in SPLIT_SIZES:
        raise ValueError(f"unknown split {split!r}: choose one of {', '.join(SPLIT_SIZES)}")
    if not 0 <= index < SPLIT_SIZES[split]:
        raise ValueError(f"{split} has problems 0 to {SPLIT_SIZES[split] - 1}, not {index}")
    low, high = STEP_RANGES[split]
    return make_problem(random.Random(f"{split}:{index}"), min_steps=low, max_steps=high)


def parse_problem_name(name: str) -> Problem:
    """``heldout:7`` -> the problem; ValueError with one sentence for anything else."""
    split, separator, number = name.partition(":")
    if not separator or not number.isdecimal():
        raise ValueError(f"a problem is named like heldout:7, not {name!r}")
    return problem(split, int(number))


@cache
def reserved_texts() -> frozenset[str]:
    """The texts that training must never see."""
    return frozenset(
        problem(split, index).text for split, size in SPLIT_SIZES.items() for index in range(size)
    )


def training_problem(rng: random.Random, *, min_steps: int, max_steps: int) -> Problem:
    while True:
        candidate = make_problem(rng, min_steps=min_steps, max_steps=max_steps)
        if candidate.text not in reserved_texts():
            return candidate
