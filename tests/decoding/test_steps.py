"""Where steps end, whatever the tokenizer makes of a blank line."""

from __future__ import annotations

import pytest

from confu_demo.decoding.steps import GrowingStep, StepBoundary, row_limits
from tests.decoding.step_models import BLANK, EOS_ID, TOKENIZER, toy_tokenizer

BOUNDARY = StepBoundary(TOKENIZER, frozenset({EOS_ID}), len(TOKENIZER))


def written(text: str, tokenizer=TOKENIZER, *, limit: int = 50) -> tuple[str, bool, bool]:
    """The text of the first step, whether it ended, and whether it is complete."""
    boundary = StepBoundary(tokenizer, frozenset({EOS_ID}), len(tokenizer))
    step = GrowingStep(boundary, limit)
    ended = False
    for token in tokenizer.encode(text, add_special_tokens=False):
        ended = step.append(token)
        if ended:
            break
    return tokenizer.decode(step.token_ids), ended, step.complete


@pytest.mark.parametrize("words", [("\n\n",), ("\n\n", ".\n\n"), ()])
def test_a_step_ends_at_a_blank_line_however_it_is_tokenised(words):
    tokenizer = toy_tokenizer(words)
    assert written("a\nb.\n\nc", tokenizer) == ("a\nb.\n\n", True, True)
    assert written("\n\nc", tokenizer) == ("\n\n", True, True)
    assert written("a\nb\nc", tokenizer) == ("a\nb\nc", False, False)


def test_a_blank_line_is_one_two_or_a_merged_token_in_the_toy_tokenizers():
    assert len(TOKENIZER.encode("\n\n", add_special_tokens=False)) == 1
    assert len(TOKENIZER.encode(".\n\n", add_special_tokens=False)) == 1
    assert len(toy_tokenizer(()).encode("\n\n", add_special_tokens=False)) == 2


def test_a_newline_behind_the_boundary_of_the_step_before_is_no_blank_line():
    newline = TOKENIZER.encode("\n", add_special_tokens=False)[0]
    step = GrowingStep(BOUNDARY, 5)
    assert not step.append(newline)
    assert step.append(newline)
    assert step.complete


def test_end_of_sequence_completes_a_step_and_the_output():
    step = GrowingStep(BOUNDARY, 5)
    assert not step.append(BLANK - 1)
    assert step.append(EOS_ID)
    assert step.complete
    assert step.ends_output
    assert not step.can_be_continued


def test_a_step_at_its_limit_ends_unfinished_unless_the_boundary_is_its_last_token():
    assert written("abc\n\n", limit=3) == ("abc", True, False)
    assert written("abc\n\n", limit=4) == ("abc\n\n", True, True)


def draft(text: str) -> GrowingStep:
    step = GrowingStep(BOUNDARY, 50)
    for token in TOKENIZER.encode(text, add_special_tokens=False):
        step.append(token)
    return step


def test_rows_get_the_cap_or_what_the_budget_leaves():
    drafts = [draft("abc\n\n"), draft("d\n\n")]  # 4 and 2 tokens
    assert row_limits(drafts, cap=10, remaining=100) == [10, 10, 10]
    assert row_limits(drafts, cap=10, remaining=12) == [10, 8, 6]
    assert row_limits([], cap=10, remaining=3) == [3]


def test_there_is_no_row_without_room_nor_behind_an_unfinished_or_last_step():
    first = draft("abc\n\n")
    assert row_limits([first, draft("d\n\n")], cap=10, remaining=6) == [6, 2]
    assert row_limits([first, draft("dd")], cap=10, remaining=50) == [10, 10]
    assert row_limits([first, draft("d" + "<eos>")], cap=10, remaining=50) == [10, 10]
    assert row_limits([draft("a")], cap=10, remaining=50) == [10]
