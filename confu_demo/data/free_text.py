"""Free-text prompts of our own in the six categories of Spec-Bench, made without any download.

Owns the templates and the three splits: a topic belongs to one split only, by a hash of its words,
so that held-out prompts are about other things than the training ones. Knows no model: where a
prompt needs a passage to summarise, the caller writes it (``Draft.passage_prompt``).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from confu_demo.data.splits import training_problem

Category = Literal["writing", "question answering", "summarising", "listing", "code", "reasoning"]
CATEGORIES: tuple[Category, ...] = (
    "writing", "question answering", "summarising", "listing", "code", "reasoning",
)  # fmt: skip
Split = Literal["train", "calibration", "heldout"]

_WORDS = Path(__file__).with_name("free_text_words.json")


@dataclass(frozen=True, slots=True)
class Draft:
    """A prompt to be. With ``passage_prompt``, ``text`` has a place ``{passage}`` for what the
    model answers to it."""

    category: Category
    text: str
    passage_prompt: str = ""


def split_of(phrase: str) -> Split:
    """Where a topic belongs, for good: a quarter is held out, an eighth is for calibration."""
    bucket = hashlib.sha256(phrase.encode()).digest()[0] % 8
    return "heldout" if bucket < 2 else "calibration" if bucket == 2 else "train"


def draw(split: Split, category: Category, rng: random.Random) -> Draft:
    """A random prompt of the split."""
    return _MAKERS[category](_Words(split), rng)


@cache
def _all_words() -> dict[str, list[Any]]:
    words: dict[str, list[Any]] = json.loads(_WORDS.read_text(encoding="utf-8"))
    return words


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of one split; forms, audiences and languages belong to all."""

    split: Split

    def pick(self, kind: str, rng: random.Random) -> Any:
        own = [word for word in _all_words()[kind] if split_of(json.dumps(word)) == self.split]
        return rng.choice(own)


def _shared(kind: str, rng: random.Random) -> str:
    return str(rng.choice(_all_words()[kind]))


def _writing(words: _Words, rng: random.Random) -> Draft:
    topic, form = words.pick("topics", rng), _shared("forms", rng)
    return Draft("writing", rng.choice((
        f"Write a short {form} about {topic}.",
        f"Please write a {form} about {topic} for {_shared('audiences', rng)}.",
        f"I need a {form} about {topic}. Keep it friendly and clear.",
        f"Imagine that you love {topic}. Write a {form} that shows why.",
        f"Write two paragraphs about {topic}.",
        f"Draft a {form} on {topic} that starts with a surprising fact.",
    )))  # fmt: skip


def _question(words: _Words, rng: random.Random) -> Draft:
    topic = words.pick("topics", rng)
    first, second = words.pick("pairs", rng)
    return Draft("question answering", rng.choice((
        f"What should I know about {topic}?",
        f"Explain {topic} to {_shared('audiences', rng)}.",
        f"Why does {topic} matter?",
        f"What is the history of {topic}?",
        f"What are common misunderstandings about {topic}?",
        f"How do {first} and {second} differ?",
        f"I am curious about {topic}. Where should I start?",
        f"Tell me something interesting about {topic}.",
    )))  # fmt: skip


def _summary(words: _Words, rng: random.Random) -> Draft:
    topic = words.pick("topics", rng)
    request = rng.choice((
        "Summarise this text in two sentences:",
        "Give me the main points of the following text:",
        "What is the text below about? Answer briefly.",
        "Rewrite the following text in simpler words:",
        "Write a title and a one-paragraph summary for this text:",
    ))  # fmt: skip
    wanted = rng.choice(("Write a paragraph of facts about", "Write a short article about"))
    return Draft("summarising", request + "\n\n{passage}", f"{wanted} {topic}.")


def _listing(words: _Words, rng: random.Random) -> Draft:
    things, count = words.pick("things", rng), rng.choice((3, 4, 5, 6, 7, 8, 10))
    return Draft("listing", rng.choice((
        f"List {count} {things}.",
        f"Give me {count} {things} with a short explanation of each.",
        f"Make a numbered list of {count} {things}.",
        f"What are {count} {things}? One line each, please.",
        f"Name {count} {things} and say which one is best.",
    )))  # fmt: skip


def _code(words: _Words, rng: random.Random) -> Draft:
    task, language = words.pick("tasks", rng), _shared("languages", rng)
    return Draft("code", rng.choice((
        f"Write a {language} function that {task}.",
        f"Write {language} code that {task}, with comments.",
        f"Show me a {language} example that {task} and explain it step by step.",
        f"How do I write a {language} function that {task}?",
        f"Write a {language} function that {task}, then show how to call it.",
    )))  # fmt: skip


def _reasoning(words: _Words, rng: random.Random) -> Draft:
    if rng.random() < 0.5:
        # A problem's numbers and names come from its own generator, seeded by the split.
        seed = f"{words.split}:{rng.random()}"
        question = training_problem(random.Random(seed), min_steps=2, max_steps=4).text
        asked = rng.choice(("Solve it step by step.", "Explain how you get the answer."))
        return Draft("reasoning", f"{question} {asked}")
    fact, topic = words.pick("facts", rng), words.pick("topics", rng)
    return Draft("reasoning", rng.choice((
        f"{fact}. What follows from this? Explain your reasoning.",
        f"{fact}. Think step by step and tell me what we can conclude.",
        f"What would happen if {topic} disappeared? Reason step by step.",
        f"Give two arguments for and two against the claim that {topic} is overrated.",
        f"My friend says that everyone should care about {topic}. Is that convincing? Why?",
    )))  # fmt: skip


_MAKERS: dict[Category, Callable[[_Words, random.Random], Draft]] = {
    "writing": _writing,
    "question answering": _question,
    "summarising": _summary,
    "listing": _listing,
    "code": _code,
    "reasoning": _reasoning,
}
