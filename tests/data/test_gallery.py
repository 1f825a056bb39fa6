from __future__ import annotations

import pytest

from confu_demo.data.free_text import CATEGORIES
from confu_demo.data.gallery import another_prompt, free_prompts, word_problems

SUITE = "smollm2-135m"


def test_free_prompts_show_every_category_alike_and_one_after_the_other():
    prompts = free_prompts(SUITE, 12)
    shown = [prompt.category for prompt in prompts]
    assert list(dict.fromkeys(shown)) == sorted(set(shown), key=shown.index)
    assert {category: shown.count(category) for category in CATEGORIES} == dict.fromkeys(
        CATEGORIES, 2
    )
    assert len({prompt.text for prompt in prompts}) == 12
    assert all(prompt.answer is None for prompt in prompts)


def test_another_prompt_is_of_the_asked_category_and_depends_on_the_seed():
    found = {another_prompt(SUITE, seed, "code").text for seed in range(20)}
    assert len(found) > 3
    assert another_prompt(SUITE, 4, "code") == another_prompt(SUITE, 4, "code")
    assert another_prompt(SUITE, 4, "code").category == "code"
    assert another_prompt(SUITE, 4).text
    with pytest.raises(ValueError, match="no prompts of the kind 'poetry'"):
        another_prompt(SUITE, 1, "poetry")


def test_word_problems_show_every_family_first():
    families = [problem.family for problem in word_problems(12)]
    assert len(set(families)) >= 8
    assert len(set(families[: len(set(families))])) == len(set(families))
