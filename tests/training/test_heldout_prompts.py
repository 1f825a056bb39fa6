"""The prompts that a suite ships are read back from the prompts of its held-out answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from confu_demo.__main__ import main
from confu_demo.engine.chat import ChatFormat
from confu_demo.training.chat_outputs import ChatDocument
from confu_demo.training.heldout_prompts import prompt_rows, write_prompts
from confu_demo.training.own_outputs import OwnOutput
from tests.training.test_chat_outputs import TEMPLATE
from tests.training.test_head_job import byte_tokenizer

ASKED = [
    ("question answering", "Why is the sky blue?"),
    ("code", "Add two numbers."),
    ("question answering", "Why is the sky blue?"),
    ("question answering", "  What does \u201cnoon\u201d mean?\n\nTell me."),
    ("code", "Sort a list."),
    ("question answering", "Who was first?"),
]


def documents_and_tokenizer() -> tuple[list[ChatDocument], object]:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = TEMPLATE
    chat = ChatFormat(tokenizer)
    documents = []
    for category, text in ASKED:
        prompt = chat.prompt(text)
        ids = np.array([*prompt, 5, 6, 7], dtype=np.int32)
        documents.append(ChatDocument(category, OwnOutput(ids, len(prompt), 0.0)))
    return documents, tokenizer


def test_different_prompts_come_back_word_for_word_with_the_categories_in_turn() -> None:
    documents, tokenizer = documents_and_tokenizer()
    assert prompt_rows(documents, tokenizer) == [
        {"id": "question-0", "category": "question answering", "text": "Why is the sky blue?"},
        {"id": "code-0", "category": "code", "text": "Add two numbers."},
        {"id": "question-1", "category": "question answering", "text": ASKED[3][1]},
        {"id": "code-1", "category": "code", "text": "Sort a list."},
        {"id": "question-2", "category": "question answering", "text": "Who was first?"},
    ]


def test_a_category_gives_no_more_prompts_than_asked_for() -> None:
    documents, tokenizer = documents_and_tokenizer()
    rows = prompt_rows(documents, tokenizer, per_category=1)
    assert [row["id"] for row in rows] == ["question-0", "code-0"]


def test_written_prompts_are_one_readable_object_a_line(tmp_path: Path) -> None:
    documents, tokenizer = documents_and_tokenizer()
    rows = prompt_rows(documents, tokenizer)
    write_prompts(rows, tmp_path / "suite" / "heldout.jsonl")
    text = (tmp_path / "suite" / "heldout.jsonl").read_text(encoding="utf-8")
    assert "\u201cnoon\u201d" in text
    assert [json.loads(line) for line in text.splitlines()] == rows


def test_word_problems_have_no_prompts_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "prompts"]) == 2
    assert "name an instruct model with --target" in capsys.readouterr().err
