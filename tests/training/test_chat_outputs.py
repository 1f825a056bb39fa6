"""An instruct model's own answers: what is kept is what it said and thought, once and for all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from confu_demo.training import chat_outputs
from confu_demo.training.chat_outputs import (
    ChatOutputs,
    ChatSettings,
    jobs_of,
    load_chat_outputs,
)
from confu_demo.training.head_batches import collate, read_target
from confu_demo.training.language_model import LanguageModel, causal_mask
from tests.training.head_kit import LAYERS, tiny_config
from tests.training.test_head_job import byte_tokenizer

SETTINGS = ChatSettings(
    num_documents=6, max_prompt_tokens=120, max_new_tokens=12, rows=4, own_turn_share=0.4, seed=3
)
TEMPLATE = (
    "{% for message in messages %}<|bos|>{{ message['content'] }}<|eos|>{% endfor %}"
    "{% if add_generation_prompt %}<|bos|>{% endif %}"
)


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_outputs, "SHARD_DOCUMENTS", 6)
    monkeypatch.setattr(chat_outputs, "MIN_ANSWER_TOKENS", 1)


def speaker() -> tuple[LanguageModel, Any]:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(5)
    config = replace(tiny_config(), vocab_size=len(tokenizer), max_positions=512)
    return LanguageModel(config).eval().requires_grad_(False), tokenizer


def make(folder: Path, settings: ChatSettings = SETTINGS) -> list[str]:
    model, tokenizer = speaker()
    lines: list[str] = []
    ChatOutputs(model, tokenizer, folder, settings, LAYERS, lines.append).run()
    return lines


def greedy_continuation(model: LanguageModel, prompt: list[int], num: int) -> list[int]:
    """Token by token, each with a forward of its own over everything before."""
    ids = list(prompt)
    for _ in range(num):
        mask, places = causal_mask(len(ids)), torch.arange(len(ids))[None]
        hidden = model(model.embed(torch.tensor([ids])), places, mask).hidden
        ids.append(int(model.lm_head_logits(hidden[0, -1]).argmax()))
    return ids[len(prompt) :]


@torch.no_grad()
def test_greedy_answers_are_what_the_model_says_alone(tmp_path: Path) -> None:
    make(tmp_path)
    model, _ = speaker()
    greedy = [d.output for d in load_chat_outputs(tmp_path, SETTINGS) if not d.output.temperature]
    assert greedy
    for output in greedy:
        prompt = output.token_ids[: output.num_prompt].tolist()
        answer = output.token_ids[output.num_prompt :].tolist()
        assert answer == greedy_continuation(model, prompt, len(answer))


def test_prompts_and_categories_are_those_of_the_plan(tmp_path: Path) -> None:
    make(tmp_path)
    _, tokenizer = speaker()
    planned = {job.place: job for job in jobs_of(0, SETTINGS)}
    documents = load_chat_outputs(tmp_path, SETTINGS)
    assert [document.category for document in documents] == [
        planned[place].category for place in range(6)
    ]
    for place, document in enumerate(documents):
        draft = planned[place].draft
        ids = document.output.token_ids[: document.output.num_prompt]
        assert len(ids) <= SETTINGS.max_prompt_tokens
        text = tokenizer.decode(ids)
        assert text.startswith("<|bos|>")
        assert text.endswith("<|eos|><|bos|>"), "a long prompt keeps its template"
        if draft is not None and not draft.passage_prompt:
            assert draft.text[:60] in text


def test_the_records_are_the_models_own_pass_over_the_answers(tmp_path: Path) -> None:
    make(tmp_path)
    model, _ = speaker()
    outputs = [document.output for document in load_chat_outputs(tmp_path, SETTINGS)]
    t2d = torch.ones(model.config.vocab_size, dtype=torch.bool)
    device = torch.device("cpu")
    kept = read_target(model, collate(outputs, device), LAYERS, t2d)
    bare = [replace(output, record=None) for output in outputs]
    anew = read_target(model, collate(bare, device), LAYERS, t2d)
    for row, output in enumerate(outputs):
        read = slice(len(output.token_ids) - 1)
        torch.testing.assert_close(
            kept.features[row, read], anew.features[row, read], atol=2e-3, rtol=2e-3
        )


def test_a_finished_shard_is_never_made_again(tmp_path: Path) -> None:
    assert len(make(tmp_path)) == 1
    before = (tmp_path / "shard-00000.npz").read_bytes()
    assert make(tmp_path) == []
    assert len(make(tmp_path, replace(SETTINGS, num_documents=12))) == 1, "only the second one"
    assert (tmp_path / "shard-00000.npz").read_bytes() == before


def test_a_folder_of_other_settings_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ValueError, match="made with another greedy_share"):
        make(tmp_path, replace(SETTINGS, greedy_share=1.0))


def test_a_folder_without_answers_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no own answers"):
        load_chat_outputs(tmp_path, SETTINGS)
