"""Writes the free-text prompts of a suite: ``python -m confu_demo train prompts --target FOLDER``.

They are the prompts of the held-out answers that the heads are scored on, so that what the page
and the benchmark decode is what the training never saw. Passages to summarise were written by the
target itself, which is why the file needs the target's answers and is kept in the repository.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from confu_demo.engine.chat import ChatFormat
from confu_demo.training.chat_outputs import ChatDocument
from confu_demo.training.head_job import HeadJob, chat_answers
from confu_demo.training.model_files import load_language_model

PER_CATEGORY = 30


def prompt_rows(
    documents: Iterable[ChatDocument], tokenizer: Any, per_category: int = PER_CATEGORY
) -> list[dict[str, str]]:
    """The first ``per_category`` different prompts of every category, the categories in turn:
    rows with ``id`` (``writing-0``), ``category`` and ``text``."""
    chat = ChatFormat(tokenizer)
    texts: dict[str, list[str]] = defaultdict(list)
    for document in documents:
        output = document.output
        ids = output.token_ids[: output.num_prompt].tolist()
        text = tokenizer.decode(ids[len(chat.before) : len(ids) - len(chat.after)])
        known = texts[document.category]
        if len(known) < per_category and text not in known:
            known.append(text)
    rounds = zip_longest(*(enumerate(known) for known in texts.values()))
    return [
        {"id": f"{category.split()[0]}-{numbered[0]}", "category": category, "text": numbered[1]}
        for one_round in rounds
        for category, numbered in zip(texts, one_round, strict=True)
        if numbered is not None
    ]


def write_prompts(rows: Iterable[dict[str, str]], path: Path) -> None:
    """One JSON object a line; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")


def make_prompts(job: HeadJob, path: Path, say: Callable[[str], None] = print) -> None:
    """Makes the held-out answers that ``job.outputs`` lacks and writes their prompts.

    Raises ValueError for a job without free-text answers, and the loaders' errors.
    """
    target = load_language_model(job.target).eval().requires_grad_(False)
    tokenizer = AutoTokenizer.from_pretrained(job.target, local_files_only=True)
    rows = prompt_rows(chat_answers(job, "heldout", 0, target, tokenizer, say), tokenizer)
    write_prompts(rows, path)
    say(f"{len(rows)} prompts in {path}")
