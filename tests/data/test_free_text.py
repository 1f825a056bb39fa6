"""Free-text prompts: the splits share no topic and the drafts repeat for a seed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from confu_demo.data.free_text import CATEGORIES, Category, _all_words, draw, split_of

HELD_OUT = Path(__file__).parents[2] / "assets" / "prompts" / "smollm2-135m" / "heldout.jsonl"


@pytest.mark.parametrize("kind", ["topics", "things", "tasks", "pairs", "facts"])
def test_every_split_has_words_of_every_kind(kind: str) -> None:
    found = {split_of(json.dumps(word)) for word in _all_words()[kind]}
    assert found == {"train", "calibration", "heldout"}


def test_a_topic_of_a_held_out_prompt_is_in_no_training_prompt() -> None:
    topics = [word for word in _all_words()["topics"] if split_of(json.dumps(word)) == "heldout"]
    rng = random.Random(0)
    texts = [draw("train", "writing", rng).text for _ in range(300)]
    words = " ".join(texts)
    assert not [topic for topic in topics if f"about {topic}." in words]


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_prompt_comes_again_for_the_same_seed_and_others_differ(category: Category) -> None:
    first = [draw("train", category, random.Random(seed)) for seed in range(12)]
    assert [draw("train", category, random.Random(seed)) for seed in range(12)] == first
    assert {draft.category for draft in first} == {category}
    assert len({(draft.text, draft.passage_prompt) for draft in first}) > 6


def test_a_summary_has_a_place_for_its_passage() -> None:
    draft = draw("heldout", "summarising", random.Random(1))
    assert draft.text.endswith("{passage}")
    assert draft.passage_prompt


def test_the_shipped_held_out_prompts_cover_all_categories_without_repeats() -> None:
    lines = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    assert len(lines) >= 150
    assert {line["category"] for line in lines} == set(CATEGORIES)
    assert len({line["text"] for line in lines}) == len(lines)
    assert len({line["id"] for line in lines}) == len(lines)
