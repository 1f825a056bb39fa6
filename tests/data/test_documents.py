"""Judge pairs, and the tokenizer's promises to the decoders."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from confu_demo.data.documents import (
    VERDICT_WORDS,
    judge_document,
    judge_pair,
    prompt_text,
    solution_text,
)
from confu_demo.data.meaning import same_meaning
from confu_demo.data.problems import make_problem
from confu_demo.data.splits import problem
from confu_demo.data.steps import parse_answer, parse_step
from confu_demo.data.vocabulary import make_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"), num_problems=300)


def test_labels_of_judge_pairs_agree_with_the_machine_readable_meaning():
    rng = random.Random(2)
    kinds: Counter[str] = Counter()
    for _ in range(1500):
        pair = judge_pair(make_problem(rng, min_steps=2, max_steps=8), rng)
        kinds[pair.kind] += 1
        assert same_meaning(pair.first, pair.second) == pair.same, pair
    assert set(kinds) == {
        "paraphrase", "value", "operand", "operation", "quantity", "swapped",
        "another step", "truncated", "answer",
    }  # fmt: skip
    assert 0.45 < kinds["paraphrase"] / 1500 < 0.55


def test_a_solution_has_one_block_a_step_and_ends_with_the_answer():
    reference = problem("heldout", 4)
    blocks = solution_text(reference, random.Random(0)).split("\n\n")
    assert len(blocks) == len(reference.steps) + 1
    for block, step in zip(blocks, reference.steps, strict=False):
        read = parse_step(block)
        assert read is not None
        assert read.means_the_same(step)
    assert parse_answer(blocks[-1]) == reference.answer


def test_blank_line_verdicts_and_digits_are_single_tokens(tokenizer):
    for text in ("\n\n", *VERDICT_WORDS, *"0123456789", " 7"):
        assert len(tokenizer(text, add_special_tokens=False)["input_ids"]) == 1, text
    assert len(tokenizer("123", add_special_tokens=False)["input_ids"]) == 3


@pytest.mark.parametrize(
    "text", ["안녕 😀", "${1+1} `x` \\frac{a}{b}", "a  b\n\n\nc\t", "<|bos|>?"]
)
def test_any_text_survives_encoding(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text


def test_a_judge_document_ends_with_one_verdict_token(tokenizer):
    pair = judge_pair(problem("calibration", 1), random.Random(0))
    ids = tokenizer(judge_document(pair), add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids[-1:]) == VERDICT_WORDS[0 if pair.same else 1]


def test_the_prompt_strips_the_question_and_ends_before_the_first_step():
    assert prompt_text("  How many? \n") == "Question: How many?\n\nSolution:\n\n"
