"""Prompts by name: word problems for most suites, free text where a file says so."""

from __future__ import annotations

import pytest

from confu_demo.data.prompts import find_prompt, parse_prompt_name, split_sizes
from confu_demo.data.splits import SPLIT_SIZES, problem


def test_a_suite_without_a_file_of_prompts_has_the_word_problems() -> None:
    assert split_sizes("bundled") == SPLIT_SIZES
    found, same = find_prompt("bundled", "hard", 3), problem("hard", 3)
    assert (found.text, found.answer, found.category) == (same.text, same.answer, same.family)


def test_free_text_has_a_category_and_no_answer() -> None:
    assert set(split_sizes("smollm2-135m")) == {"heldout"}
    found = parse_prompt_name("smollm2-135m", "heldout:2")
    assert found.category == "summarising"
    assert found.answer is None
    assert found.text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("heldout:100000", "has problems 0 to"),
        ("hard:0", "unknown split 'hard': choose one of heldout"),
        ("7", "named like heldout:7"),
        ("heldout:-1", "named like heldout:7"),
    ],
)
def test_a_wrong_name_is_refused_with_what_to_do(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_prompt_name("smollm2-135m", name)


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_a_name_never_leads_out_of_the_prompts_folder(name: str) -> None:
    assert split_sizes(name) == SPLIT_SIZES
