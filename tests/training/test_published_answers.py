"""Published answers: whoever trains a head reads them instead of writing them anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from confu_demo.training import chat_outputs
from confu_demo.training.chat_outputs import ChatOutputs, ChatSettings, load_chat_outputs
from confu_demo.training.head_batches import collate, read_target
from confu_demo.training.own_outputs import OwnOutput, save_shard
from confu_demo.training.published_answers import ANSWERS, publish_answers, published_shards
from tests.training.head_kit import LAYERS
from tests.training.test_chat_outputs import SETTINGS, make, speaker


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_outputs, "SHARD_DOCUMENTS", 6)
    monkeypatch.setattr(chat_outputs, "MIN_ANSWER_TOKENS", 1)


def read(folder: Path, published: Path, settings: ChatSettings = SETTINGS) -> list[str]:
    model, tokenizer = speaker()
    lines: list[str] = []
    ChatOutputs(model, tokenizer, folder, settings, LAYERS, lines.append, published).run()
    return lines


def test_published_answers_are_read_back_with_what_the_target_thinks_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "first", replace(SETTINGS, num_documents=12))
    path = tmp_path / "answers.npz"
    made = [
        d.output for d in load_chat_outputs(tmp_path / "first", replace(SETTINGS, num_documents=12))
    ]
    assert publish_answers(tmp_path / "first", path) == (12, sum(len(d.token_ids) for d in made))
    monkeypatch.setattr(chat_outputs, "next_tokens", None)  # nobody writes
    assert len(read(tmp_path / "second", path)) == 1, "one shard was asked for"
    again = [d.output for d in load_chat_outputs(tmp_path / "second", SETTINGS)]
    assert len(again) == 6
    model, _ = speaker()
    t2d = torch.ones(model.config.vocab_size, dtype=torch.bool)
    for known, found in zip(made, again, strict=False):
        assert np.array_equal(known.token_ids, found.token_ids)
        assert (known.num_prompt, known.temperature) == (found.num_prompt, found.temperature)
        first, second = (
            read_target(model, collate([output], torch.device("cpu")), LAYERS, t2d)
            for output in (known, found)
        )
        torch.testing.assert_close(first.features, second.features, atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(first.probs, second.probs, atol=2e-3, rtol=2e-3)
        for one, other in zip(first.keys_values, second.keys_values, strict=True):
            torch.testing.assert_close(one, other, atol=2e-3, rtol=2e-3)


def test_answers_of_another_target_or_plan_are_not_taken(tmp_path: Path) -> None:
    make(tmp_path / "first")
    path = tmp_path / "answers.npz"
    publish_answers(tmp_path / "first", path)
    other = replace(SETTINGS, seed=4)
    read(tmp_path / "second", path, other)
    make(tmp_path / "third", other)
    for mine, theirs in zip(
        load_chat_outputs(tmp_path / "second", other),
        load_chat_outputs(tmp_path / "third", other),
        strict=True,
    ):
        assert np.array_equal(mine.output.token_ids, theirs.output.token_ids)
    assert list(published_shards(tmp_path / "nowhere.npz", {})) == []


def test_what_cannot_be_published_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no own answers"):
        publish_answers(tmp_path, tmp_path / "answers.npz")
    save_shard(
        [OwnOutput(np.array([1, 70_000], dtype=np.int32), 1, 0.0)], tmp_path / "shard-00000.npz"
    )
    with pytest.raises(ValueError, match="16 bits"):
        publish_answers(tmp_path, tmp_path / "answers.npz")


def test_every_published_file_is_small_and_whole() -> None:
    files = sorted(ANSWERS.glob("*/*.npz"))
    assert files
    for file in files:
        assert file.stat().st_size < 10_000_000
        with np.load(file) as data:
            assert len(data["token_ids"]) == data["lengths"].sum()
            assert len(data["lengths"]) == len(data["num_prompt"]) == data["sizes"].sum()
            assert (data["num_prompt"] < data["lengths"]).all()
