"""Batched answers and their records say what the model itself would say and think."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from confu_demo.training.head_batches import collate, read_target
from confu_demo.training.language_model import LanguageModel, causal_mask
from confu_demo.training.own_outputs import OwnOutput
from confu_demo.training.records import DocumentRecord, save_records
from confu_demo.training.row_decoder import RowDecoder
from tests.training.head_kit import LAYERS, VOCAB_SIZE, document, tiny_target

PROMPTS = [[1, 5, 2], [7, 3, 3, 9, 4]]


def whole_pass(target: LanguageModel, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and features of every token, one ordinary forward."""
    with torch.no_grad():
        output = target(
            target.embed(torch.tensor([ids])),
            torch.arange(len(ids))[None],
            causal_mask(len(ids)),
            feature_layers=LAYERS,
        )
    return target.lm_head_logits(output.hidden[0]), output.features[0]


def test_every_row_answers_as_if_it_were_alone() -> None:
    target = tiny_target(dtype=torch.float64)
    decoder = RowDecoder(target, rows=2, capacity=16, feature_layers=LAYERS)
    logits = torch.stack([decoder.start(row, prompt) for row, prompt in enumerate(PROMPTS)])
    texts = [list(prompt) for prompt in PROMPTS]
    for _ in range(5):
        tokens = logits.argmax(-1)
        for text, token, row in zip(texts, tokens.tolist(), logits, strict=True):
            torch.testing.assert_close(row, whole_pass(target, text)[0][-1])
            text.append(token)
        logits = decoder.step(tokens)


def test_a_row_that_is_started_anew_forgets_what_it_held() -> None:
    target = tiny_target(dtype=torch.float64)
    decoder = RowDecoder(target, rows=2, capacity=16, feature_layers=LAYERS)
    for row, prompt in enumerate(PROMPTS):
        decoder.start(row, prompt)
    decoder.step(torch.tensor([2, 6]))
    decoder.start(1, [4, 8])
    logits = decoder.step(torch.tensor([3, 5]))
    torch.testing.assert_close(logits[0], whole_pass(target, [*PROMPTS[0], 2, 3])[0][-1])
    torch.testing.assert_close(logits[1], whole_pass(target, [4, 8, 5])[0][-1])


def test_a_record_read_back_equals_the_targets_own_pass(tmp_path: Path) -> None:
    target = tiny_target(dtype=torch.float32)
    documents = [document(12, 4, 1), document(9, 3, 2)]
    decoder = RowDecoder(target, rows=2, capacity=16, feature_layers=LAYERS)
    for row, output in enumerate(documents):
        ids = output.token_ids.tolist()
        decoder.start(row, ids[:-1])
    path = tmp_path / "shard.safetensors"
    save_records([decoder.record(row) for row in range(2)], path)
    recorded = [
        OwnOutput(
            output.token_ids, output.num_prompt, 0.7,
            DocumentRecord(path, place, len(output.token_ids) - 1),
        )
        for place, output in enumerate(documents)
    ]  # fmt: skip
    t2d = torch.arange(VOCAB_SIZE) % 2 == 0
    device = torch.device("cpu")
    plain = read_target(target, collate(documents, device), LAYERS, t2d)
    read = read_target(target, collate(recorded, device), LAYERS, t2d)
    close = partial(torch.testing.assert_close, atol=2e-3, rtol=2e-3)  # float16 on disk
    for row, output in enumerate(documents):
        num = len(output.token_ids) - 1
        close(read.features[row, :num], plain.features[row, :num])
        close(read.probs[row, :num], plain.probs[row, :num])
        said = slice(output.num_prompt - 1, num)
        assert torch.equal(read.argmax[row, said], plain.argmax[row, said])
        for mine, theirs in zip(read.keys_values, plain.keys_values, strict=True):
            close(mine[0][row, :, :num], theirs[0][row, :, :num])
            close(mine[1][row, :, :num], theirs[1][row, :, :num])
    # A greedy answer goes on with what the target would say, so nobody has to ask it.
    greedy = [replace(output, temperature=0.0) for output in recorded]
    for output in greedy:
        assert output.record is not None
        output.record.argmax = None  # as before anybody read it
    read = read_target(target, collate(greedy, device), LAYERS, t2d)
    for row, output in enumerate(documents):
        said = slice(output.num_prompt, len(output.token_ids))
        argmax = read.argmax[row, output.num_prompt - 1 : len(output.token_ids) - 1]
        assert argmax.tolist() == output.token_ids[said].tolist()
