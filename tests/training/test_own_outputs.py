"""Own outputs: whose they are, that a broken run goes on, and what is held out."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from confu_demo.data.splits import problem, reserved_texts
from confu_demo.heads.eagle import EagleHead
from confu_demo.training import own_outputs
from confu_demo.training.generation import generate_batch
from confu_demo.training.head_batches import (
    HeadBatchSource,
    group_by_length,
    token_counts,
)
from confu_demo.training.own_outputs import (
    OwnOutputSettings,
    held_out_settings,
    load_own_outputs,
    make_own_outputs,
    weights_sha256,
)
from tests.training.head_kit import CPU, VOCAB_SIZE, document, eagle_config, tiny_target

SETTINGS = OwnOutputSettings(
    num_documents=7, batch_size=3, max_new_tokens=5, sampled_share=0.4, min_steps=2, max_steps=2
)
"""Three shards of three; the last is sampled."""


class WordTokenizer:
    """Every word is one of a few tokens; just enough of a tokenizer for prompts."""

    bos_token_id, eos_token_id = 0, 1

    def __call__(self, texts: list[str], add_special_tokens: bool) -> dict[str, Any]:
        assert not add_special_tokens
        return {"input_ids": [[2 + len(word) % 20 for word in text.split()] for text in texts]}


def make(folder: Path, settings: OwnOutputSettings = SETTINGS, seed: int = 0) -> list[Any]:
    tokenizer: Any = WordTokenizer()
    lines: list[str] = []
    documents = make_own_outputs(tiny_target(seed), tokenizer, folder, settings, lines.append)
    return [documents, lines]


@pytest.fixture(autouse=True)
def _short_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems are slow to make and long to read."""

    def questions(self: OwnOutputSettings, shard: int) -> list[str]:
        rng = random.Random(f"{self.seed}:{shard}")
        return [" ".join("x" * rng.randint(1, 9) for _ in range(4)) for _ in range(self.batch_size)]

    monkeypatch.setattr(own_outputs.OwnOutputSettings, "questions", questions)


def test_a_broken_run_goes_on_and_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    whole, _ = make(tmp_path / "whole")
    make(tmp_path / "broken", replace(SETTINGS, num_documents=3))
    first = tmp_path / "broken" / "shard-00000.npz"
    written = first.stat().st_mtime_ns
    resumed, lines = make(tmp_path / "broken")
    assert first.stat().st_mtime_ns == written
    assert len(lines) == 2
    assert [d.token_ids.tolist() for d in resumed] == [d.token_ids.tolist() for d in whole]
    assert len(whole) == 9
    again, lines = make(tmp_path / "broken")
    assert lines == []
    assert len(again) == 9


def test_greedy_documents_are_the_targets_own_argmax_and_sampled_ones_are_marked(
    tmp_path: Path,
) -> None:
    documents, _ = make(tmp_path)
    assert [d.temperature > 0 for d in documents] == [False] * 6 + [True] * 3
    assert 0.7 <= documents[-1].temperature <= 1.0
    for made in documents[:6]:
        prompt = made.token_ids[: made.num_prompt].tolist()
        assert prompt[0] == WordTokenizer.bos_token_id
        (own,) = generate_batch(tiny_target(), [prompt], max_new_tokens=5, eos_id=1)
        assert made.token_ids[made.num_prompt :].tolist() == own
        assert 1 not in made.token_ids[made.num_prompt : -1]


def test_outputs_of_another_target_or_of_other_settings_are_refused(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ValueError, match="another target_sha256"):
        make(tmp_path, seed=1)
    with pytest.raises(ValueError, match="another max_new_tokens, seed"):
        make(tmp_path, replace(SETTINGS, seed=4, max_new_tokens=6))
    assert len(load_own_outputs(tmp_path)) == 9


def test_a_time_limit_keeps_at_least_one_shard(tmp_path: Path) -> None:
    tokenizer: Any = WordTokenizer()
    documents = make_own_outputs(
        tiny_target(), tokenizer, tmp_path, SETTINGS, lambda line: None, max_seconds=0.0
    )
    assert len(documents) == 3
    with pytest.raises(FileNotFoundError, match="no own outputs"):
        load_own_outputs(tmp_path / "elsewhere")


def test_the_hash_of_a_target_changes_with_any_weight() -> None:
    model = tiny_target()
    before = weights_sha256(model)
    assert before == weights_sha256(tiny_target())
    with torch.no_grad():
        model.model.norm.weight[3] += 1e-3
    assert weights_sha256(model) != before


@pytest.mark.parametrize(
    "change", [{"num_documents": 0}, {"sampled_share": 1.5}, {"min_temperature": 0.0}]
)
def test_senseless_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"own outputs|sampled share|temperatures"):
        replace(SETTINGS, **change)


def test_batches_cover_every_document_once_an_epoch_and_continue_from_their_count() -> None:
    documents = [document(length, 2, seed=length) for length in range(5, 25)]
    source = HeadBatchSource(documents, batch_tokens=60, seed=3)
    num_batches = len(group_by_length(documents, 60))
    epoch = [source.next(CPU) for _ in range(num_batches)]
    lengths = [length for batch in epoch for length in batch.lengths.tolist()]
    assert sorted(lengths) == list(range(5, 25))
    assert all(batch.token_ids.numel() <= 60 for batch in epoch)
    later = [source.next(CPU) for _ in range(3)]
    resumed = HeadBatchSource(documents, batch_tokens=60, seed=3, drawn=num_batches + 1)
    assert torch.equal(resumed.next(CPU).token_ids, later[1].token_ids)
    assert torch.equal(resumed.next(CPU).token_ids, later[2].token_ids)


def test_the_draft_vocabulary_is_made_of_the_most_frequent_completion_tokens() -> None:
    one, other = document(9, 4), document(9, 4)
    one.token_ids[:] = [22, 22, 22, 22, 5, 5, 9, 9, 9]
    other.token_ids[:] = [21, 21, 21, 21, 9, 5, 17, 3, 3]
    counts = token_counts([one, other], VOCAB_SIZE)
    assert {i: n for i, n in enumerate(counts.tolist()) if n} == {3: 2, 5: 3, 9: 4, 17: 1}
    head = EagleHead.initial(eagle_config(4), torch.randn(VOCAB_SIZE, 32), counts)
    assert head.t2d.nonzero().flatten().tolist() == [3, 5, 9, 17]
    assert head.d2t.tolist() == [3, 4, 7, 14]
    assert head.draft_to_target(torch.arange(4)).tolist() == [3, 5, 9, 17]
    assert head.target_to_draft(torch.tensor([9, 22])).tolist() == [2, -1]


class TestRealQuestions:
    """With the questions that training really uses."""

    @pytest.fixture(autouse=True)
    def _short_questions(self) -> None:
        """Switches the short ones off."""

    def test_training_never_reads_a_held_out_question(self) -> None:
        questions = OwnOutputSettings(batch_size=20).questions(0)
        assert len(set(questions)) == 20
        assert not set(questions) & reserved_texts()
        assert questions == OwnOutputSettings(batch_size=20).questions(0)
        assert questions != OwnOutputSettings(batch_size=20).questions(1)

    def test_held_out_shards_are_the_splits_first_problems(self) -> None:
        settings = held_out_settings("calibration", 20)
        assert settings.num_shards == 2
        assert settings.temperature(1) == 0.0
        assert settings.questions(1)[2] == problem("calibration", 18).text
        assert np.all([settings.temperature(shard) == 0.0 for shard in range(50)])
