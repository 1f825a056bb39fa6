"""The prompts that a page offers: a few held-out ones of every kind, and another of the same kind.

Word problems are made anew at will; free-text prompts are those of the suite's file.
"""

from __future__ import annotations

import random

from confu_demo.data.problems import Problem, make_problem
from confu_demo.data.prompts import Prompt, find_prompt, split_sizes
from confu_demo.data.splits import STEP_RANGES, problem

_SPLIT = "heldout"


def word_problems(count: int) -> tuple[Problem, ...]:
    """Held-out problems: the first of every family, then the next ones in order."""
    found: list[Problem] = []
    later: list[Problem] = []
    for index in range(8 * count):
        candidate = problem(_SPLIT, index)
        is_new = all(candidate.family != other.family for other in found)
        (found if is_new else later).append(candidate)
    return tuple([*found, *later][:count])


def new_word_problem(seed: int, family: str | None = None) -> Problem:
    """As long as the held-out ones. ValueError for an unknown family."""
    low, high = STEP_RANGES[_SPLIT]
    return make_problem(random.Random(seed), min_steps=low, max_steps=high, family=family)


def free_prompts(suite: str, count: int) -> tuple[Prompt, ...]:
    """The first held-out prompts of every category, category by category."""
    by_category: dict[str, list[Prompt]] = {}
    for prompt in _held_out(suite):
        by_category.setdefault(prompt.category, []).append(prompt)
    of_each = -(-count // len(by_category))
    return tuple(p for prompts in by_category.values() for p in prompts[:of_each])[:count]


def another_prompt(suite: str, seed: int, category: str | None = None) -> Prompt:
    """A held-out prompt of that category, or of any. ValueError for an unknown category."""
    prompts = [p for p in _held_out(suite) if category in (None, p.category)]
    if not prompts:
        raise ValueError(f"there are no prompts of the kind {category!r}")
    return random.Random(seed).choice(prompts)


def _held_out(suite: str) -> list[Prompt]:
    return [find_prompt(suite, _SPLIT, index) for index in range(split_sizes(suite)[_SPLIT])]
