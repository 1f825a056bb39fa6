"""Comparing heads: the same prompts, paired intervals, and the arithmetic by hand."""

from __future__ import annotations

import pytest

from confu_demo.comparison import compare, comparison_table, mean_length

BASE = [(20, 10), (30, 10), (12, 6), (50, 20)]
BETTER = [(22, 10), (33, 10), (15, 6), (60, 20)]
CATEGORIES = ["code", "code", "writing", "writing"]


def test_the_length_is_tokens_over_cycles_of_all_prompts() -> None:
    assert mean_length(BASE) == pytest.approx(112 / 46)


def test_a_head_that_is_better_on_every_prompt_has_its_interval_above_one() -> None:
    rows = {row.name: row for row in compare({"a": BASE, "b": BETTER}, "a", CATEGORIES)}
    assert rows["b"].ratio == pytest.approx((130 / 46) / (112 / 46))
    assert rows["b"].ratio_interval[0] > 1.0
    assert rows["b"].by_category["writing"] == pytest.approx(75 / 26)


def test_the_baseline_against_itself_is_one_without_width() -> None:
    row = compare({"a": BASE}, "a", CATEGORIES)[0]
    assert row.ratio == 1.0
    assert row.ratio_interval == (1.0, 1.0)
    assert row.length_interval[0] < row.length < row.length_interval[1]


def test_heads_that_saw_other_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="same prompts"):
        compare({"a": BASE, "b": BETTER[:3]}, "a", CATEGORIES)


def test_the_table_has_a_line_for_every_head_and_a_column_for_every_category() -> None:
    table = comparison_table(compare({"a": BASE, "b": BETTER}, "a", CATEGORIES), "a")
    lines = table.splitlines()
    assert len(lines) == 4
    assert lines[0].count("|") == lines[2].count("|") == 6
    assert "code" in lines[0]
