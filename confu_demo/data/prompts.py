"""The prompts of a suite by name: ``heldout:7``, whatever kind of prompt the suite has.

A suite with a file ``assets/prompts/<suite>/<split>.jsonl`` has free-text prompts, one JSON object
a line (``id``, ``category``, ``text``), whose answers cannot be checked. Every other suite has the
word problems of :mod:`confu_demo.data.splits`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from confu_demo.data.splits import SPLIT_SIZES, problem

PROMPTS = Path(__file__).resolve().parents[2] / "assets" / "prompts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """``category``: the kind of task, or a word problem's family; ``answer``: what a right text
    ends with, None where nothing can be checked."""

    text: str
    category: str
    answer: int | None


def split_sizes(suite: str) -> dict[str, int]:
    """How many prompts each split of a suite has."""
    files = sorted((PROMPTS / suite).glob("*.jsonl")) if _is_plain(suite) else []
    if not files:
        return dict(SPLIT_SIZES)
    return {file.stem: len(_free_text(suite, file.stem)) for file in files}


def find_prompt(suite: str, split: str, index: int) -> Prompt:
    """Prompt ``index`` of a split; ValueError with one sentence outside of it."""
    sizes = split_sizes(suite)
    if split not in sizes:
        raise ValueError(f"unknown split {split!r}: choose one of {', '.join(sizes)}")
    if not 0 <= index < sizes[split]:
        raise ValueError(f"{split} has problems 0 to {sizes[split] - 1}, not {index}")
    if _is_plain(suite) and (PROMPTS / suite / f"{split}.jsonl").is_file():
        return _free_text(suite, split)[index]
    found = problem(split, index)
    return Prompt(text=found.text, category=found.family, answer=found.answer)


def parse_prompt_name(suite: str, name: str) -> Prompt:
    """``heldout:7`` -> the prompt; ValueError with one sentence for anything else."""
    split, separator, number = name.partition(":")
    if not separator or not number.isdecimal():
        raise ValueError(f"a problem is named like heldout:7, not {name!r}")
    return find_prompt(suite, split, int(number))


@cache
def _free_text(suite: str, split: str) -> tuple[Prompt, ...]:
    lines = (PROMPTS / suite / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return tuple(Prompt(text=row["text"], category=row["category"], answer=None) for row in rows)


def _is_plain(suite: str) -> bool:
    """A name, not a path into some other folder."""
    return Path(suite).name == suite and suite not in ("", ".", "..")
