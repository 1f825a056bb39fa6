"""The target's rows in one packed sequence: what they see, and that packing changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from confu_demo.config import SamplingConfig
from confu_demo.decoding.branches import PackedRows
from confu_demo.decoding.steps import GrowingStep, StepBoundary
from confu_demo.engine.cache import KVCache
from confu_demo.engine.sampling import PositionNoise, sample
from confu_demo.engine.target import LeanModel
from tests.decoding.step_models import EOS_ID, PROMPT, TOKENIZER, PlainWriter, random_model

BOUNDARY = StepBoundary(TOKENIZER, frozenset({EOS_ID}), len(TOKENIZER))
DRAFTS = [[70, 71, 72, 73], [74, 75], [76, 77, 78]]


def prefilled(model: LeanModel, ids: list[int]) -> KVCache:
    cache = model.new_cache(200)
    if ids:
        model.forward(cache, token_ids=torch.tensor(ids))
    return cache


def packed_rows(
    model: LeanModel,
    cache: KVCache,
    limits: list[int],
    drafts: list[list[int]] = DRAFTS,
    sampling: SamplingConfig | None = None,
) -> PackedRows:
    noise = PositionNoise(7, model.config.vocab_size)
    config = sampling or SamplingConfig()
    return PackedRows(
        model,
        cache,
        root=PROMPT[-1],
        drafts=drafts,
        rows=[GrowingStep(BOUNDARY, limit) for limit in limits],
        sampler=lambda logits, positions: sample(logits, config, noise, positions),
    )


def drawn(mask: Tensor | None) -> str:
    assert mask is not None
    return " ".join("".join(".1"[int(seen)] for seen in row) for row in mask)


def test_the_masks_are_those_of_the_docstring(monkeypatch):
    model = random_model()
    calls: list[dict] = []
    forward = model.forward

    def recording(cache, **arguments):
        calls.append(arguments)
        return forward(cache, **arguments)

    monkeypatch.setattr(model, "forward", recording)
    scripts = {0: [80, 81, 1], 1: [82, 83, 1], 2: [84, 1]}  # x y, u v, z; then the end
    step = iter(range(3))

    def sampler(logits, positions):
        now = next(step)
        return torch.tensor([script[now] for script in scripts.values() if now < len(script)])

    rows = [GrowingStep(BOUNDARY, 9) for _ in scripts]
    packed = PackedRows(
        model, model.new_cache(50), root=5, drafts=[[70, 71], [72]], rows=rows, sampler=sampler
    )
    assert list(packed.write()) == [2, 0, 1]
    first, second, third = calls
    assert first["token_ids"].tolist() == [5, 70, 71, 72]
    assert first["mask"] is None
    assert first["logits_rows"].tolist() == [0, 2, 3]
    assert second["token_ids"].tolist() == [80, 82, 84]
    assert second["positions"].tolist() == [1, 3, 4]
    assert drawn(second["mask"]) == "1...1.. 111..1. 1111..1"
    assert third["token_ids"].tolist() == [81, 83]
    assert third["positions"].tolist() == [2, 4]
    assert drawn(third["mask"]) == "1...1..1. 111..1..1"
    assert (packed.num_forwards, packed.num_tokens) == (3, 4 + 3 + 2)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_packed_row_equals_the_row_decoded_alone(seed, temperature):
    model = random_model(seed)
    sampling = SamplingConfig(temperature=temperature)
    limits = [12, 5, 9, 7]
    packed = packed_rows(model, prefilled(model, PROMPT[:-1]), limits, sampling=sampling)
    order = list(packed.write())
    assert sorted(order) == [0, 1, 2, 3]
    writer = PlainWriter(model, sampling, 7)
    for i, (row, limit) in enumerate(zip(packed.rows, limits, strict=True)):
        prefix = [*PROMPT, *(token for draft in DRAFTS[:i] for token in draft)]
        assert (row.token_ids, row.complete) == writer.step(prefix, limit)
    lengths = [len(packed.rows[row].token_ids) for row in order]
    assert lengths == sorted(lengths)


def test_the_rows_above_end_at_different_times():
    seen = set()
    for seed in range(6):
        packed = packed_rows(model := random_model(seed), prefilled(model, PROMPT[:-1]), [12] * 4)
        list(packed.write())
        seen.add(tuple(len(row.token_ids) for row in packed.rows))
    assert any(len(set(lengths)) > 2 for lengths in seen)


@pytest.mark.parametrize("kept", [0, 1, 2, 3, None])
@pytest.mark.parametrize("seed", [0, 3])
def test_the_kept_cache_equals_a_fresh_prefill_of_the_committed_path(seed, kept):
    model = random_model(seed)
    cache = prefilled(model, PROMPT[:-1])
    packed = packed_rows(model, cache, [12, 5, 9, 7])
    list(packed.write())
    packed.keep(kept)
    drafts = DRAFTS if kept is None else DRAFTS[:kept]
    path = [*PROMPT, *(token for draft in drafts for token in draft)]
    if kept is not None:
        path += packed.rows[kept].token_ids[:-1]
    fresh = prefilled(model, path)
    assert cache.length == len(path)
    for kind in ("k", "v"):
        ours, theirs = getattr(cache, kind), getattr(fresh, kind)
        torch.testing.assert_close(
            ours[:, :, : len(path)], theirs[:, :, : len(path)], rtol=1e-10, atol=1e-10
        )


def test_a_single_row_is_plain_decoding_without_masks_or_gathers(monkeypatch):
    model = random_model(2)
    cache = prefilled(model, PROMPT[:-1])
    packed = packed_rows(model, cache, [10], drafts=[])
    masks = []
    forward = model.forward

    def recording(cache, **arguments):
        masks.append(arguments["mask"])
        return forward(cache, **arguments)

    monkeypatch.setattr(model, "forward", recording)
    monkeypatch.setattr(cache, "keep", lambda *_: pytest.fail("a gather"))
    list(packed.write())
    packed.keep(0)
    assert set(masks) == {None}
    assert cache.length == len(PROMPT) + len(packed.rows[0].token_ids) - 1


def test_rows_and_draft_steps_must_fit_together():
    model = random_model()
    with pytest.raises(ValueError, match="2 rows need 1 draft steps, not 3"):
        packed_rows(model, prefilled(model, []), [5, 5])
