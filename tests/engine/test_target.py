"""The lean forward against transformers' own models, in float64."""

from __future__ import annotations

import pytest
import torch

from confu_demo.engine import fused, layers, target
from confu_demo.engine.errors import ContextFull, CorruptModel
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.target import LeanModel
from confu_demo.engine.weights import random_weights
from tests.engine.kit import NUM_LAYERS, VARIANTS, VOCAB_SIZE, assert_exact, make_pair, random_ids


@pytest.mark.parametrize("variant", VARIANTS)
def test_prefill_equals_transformers(variant):
    pair = make_pair(variant)
    ids = random_ids(40)
    output = pair.lean.forward(pair.lean.new_cache(40), token_ids=ids)
    assert output.logits.dtype == torch.float64
    assert_exact(output.logits, pair.reference_logits(ids))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("chunks", [[1] * 24, [9, 1, 1, 5, 8], [1, 23]])
def test_incremental_forwards_equal_transformers(variant, chunks):
    pair = make_pair(variant, seed=1)
    ids = random_ids(24, seed=1)
    cache = pair.lean.new_cache(24)
    outputs = [pair.lean.forward(cache, token_ids=part) for part in ids.split(chunks)]
    logits = torch.cat([output.logits for output in outputs])
    assert cache.length == 24
    assert_exact(logits, pair.reference_logits(ids))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_path_of_other_devices_equals_transformers_too(variant, monkeypatch):
    for module in (fused, layers, target):
        monkeypatch.setattr(module, "folds_scales", lambda device, dtype: False)
    pair = make_pair(variant, seed=2)
    ids = random_ids(12, seed=2)
    cache = pair.lean.new_cache(12)
    first = pair.lean.forward(cache, token_ids=ids[:11])
    last = pair.lean.forward(cache, token_ids=ids[11:])
    logits = torch.cat((first.logits, last.logits))
    assert_exact(logits, pair.reference_logits(ids))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("variant", VARIANTS)
def test_half_precision_is_as_near_to_float64_as_transformers_is(variant, dtype):
    exact, half = make_pair(variant), make_pair(variant, dtype)
    ids = random_ids(32)
    cache = half.lean.new_cache(32)
    parts = [half.lean.forward(cache, token_ids=part).logits for part in ids.split([31, 1])]
    assert parts[0].dtype == torch.float32
    want = exact.reference_logits(ids)
    ours = (torch.cat(parts) - want).square().mean().sqrt()
    theirs = (half.reference_logits(ids) - want).square().mean().sqrt()
    assert ours < 1.25 * theirs


@pytest.mark.parametrize("variant", ["llama", "qwen3_qk_norm"])
def test_features_and_hidden_equal_transformers_hidden_states(variant):
    pair = make_pair(variant)
    ids = random_ids(10)
    chosen = (0, 2, 3)
    cache = pair.lean.new_cache(10)
    parts = [
        pair.lean.forward(cache, token_ids=part, feature_layers=chosen)
        for part in ids.split([9, 1])
    ]
    with torch.no_grad():
        states = pair.reference(ids[None], output_hidden_states=True).hidden_states
    features = torch.cat([part.features for part in parts if part.features is not None])
    want = torch.cat([states[layer][0] for layer in chosen], dim=-1)
    assert_exact(features, want)
    hidden = torch.cat([part.hidden for part in parts])
    assert_exact(pair.lean.final_norm(hidden), states[NUM_LAYERS][0])


def test_features_come_in_the_order_asked_for():
    lean = make_pair("llama").lean
    ids = random_ids(5)
    down = lean.forward(lean.new_cache(5), token_ids=ids, feature_layers=(3, 1)).features
    up = lean.forward(lean.new_cache(5), token_ids=ids, feature_layers=(1, 3)).features
    assert down is not None
    assert up is not None
    assert torch.equal(down, up.roll(lean.config.hidden_size, dims=1))


def test_lm_head_of_the_final_norm_gives_the_logits():
    lean = make_pair("llama").lean
    output = lean.forward(lean.new_cache(6), token_ids=random_ids(6))
    assert torch.equal(lean.lm_head(lean.final_norm(output.hidden)), output.logits)
    one = lean.lm_head(lean.final_norm(output.hidden[2]))
    assert_exact(one, output.logits[2])


def test_embeddings_are_as_good_as_token_ids_and_stay_unchanged():
    lean = make_pair("qwen2_bias").lean
    ids = random_ids(7)
    embeddings = lean.embed(ids)
    before = embeddings.clone()
    from_ids = lean.forward(lean.new_cache(7), token_ids=ids).logits
    from_embeddings = lean.forward(lean.new_cache(7), embeddings=embeddings).logits
    assert torch.equal(from_ids, from_embeddings)
    assert torch.equal(embeddings, before)


def test_positions_move_rows_as_in_transformers():
    pair = make_pair("llama")
    ids, positions = random_ids(6), torch.tensor([3, 4, 5, 9, 10, 40])
    lean = pair.lean.forward(pair.lean.new_cache(6), token_ids=ids, positions=positions)
    # With a mask, transformers does not take jumps for borders between packed sequences.
    place = {"position_ids": positions[None], "attention_mask": torch.ones(1, 6)}
    with torch.no_grad():
        want = pair.reference(ids[None], **place, use_cache=False).logits[0]
    assert_exact(lean.logits, want)


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        (None, [0, 1, 2, 3, 4]),
        (slice(0, 0), []),
        (slice(-1, None), [4]),
        (torch.tensor([3, 1]), [3, 1]),
    ],
)
def test_logits_come_for_the_rows_asked_for(rows, want):
    lean = make_pair("llama").lean
    ids = random_ids(5)
    every = lean.forward(lean.new_cache(5), token_ids=ids).logits
    some = lean.forward(lean.new_cache(5), token_ids=ids, logits_rows=rows).logits
    assert some.shape == (len(want), VOCAB_SIZE)
    assert_exact(some, every[want])


def test_greedy_decoding_equals_transformers_generate():
    pair = make_pair("llama", torch.float32)
    prompt = random_ids(8)
    with torch.no_grad():
        want = pair.reference.generate(
            prompt[None],
            attention_mask=torch.ones(1, 8),
            max_new_tokens=20,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    cache = pair.lean.new_cache(40)
    output = pair.lean.forward(cache, token_ids=prompt, logits_rows=slice(-1, None))
    tokens = [output.logits.argmax(-1)]
    while len(tokens) < 20:
        tokens.append(pair.lean.forward(cache, token_ids=tokens[-1]).logits.argmax(-1))
    assert torch.cat(tokens).tolist() == want[0, 8:].tolist()


def test_a_full_context_is_refused_before_anything_is_written():
    lean = make_pair("llama").lean
    cache = lean.new_cache(8)
    lean.forward(cache, token_ids=random_ids(6))
    before = cache.storage.clone()
    with pytest.raises(ContextFull, match="6 tokens and 3 more do not fit a context of 8"):
        lean.forward(cache, token_ids=random_ids(3))
    assert cache.length == 6
    assert torch.equal(cache.storage, before)
    lean.forward(cache, token_ids=random_ids(2))
    assert cache.length == 8


def test_contradictory_inputs_are_refused():
    lean = make_pair("llama").lean
    cache = lean.new_cache(8)
    ids = random_ids(2)
    with pytest.raises(ValueError, match="token_ids or embeddings"):
        lean.forward(cache)
    with pytest.raises(ValueError, match="token_ids or embeddings"):
        lean.forward(cache, token_ids=ids, embeddings=lean.embed(ids))
    with pytest.raises(ValueError, match="at least one row"):
        lean.forward(cache, token_ids=ids[:0])
    with pytest.raises(ValueError, match=r"mask is \[2, 3\], should be \[2, 2\]"):
        lean.forward(cache, token_ids=ids, mask=torch.ones(2, 3, dtype=torch.bool))
    side = lean.side_key_values(lean.embed(ids))
    with pytest.raises(ValueError, match="side_rows with 2 entries"):
        lean.forward(cache, token_ids=ids, side=side)
    assert cache.length == 0


def test_missing_and_misshapen_weights_are_named():
    pair = make_pair("qwen2_bias")
    config = pair.lean.config
    weights = random_weights(config)
    missing = {name: value for name, value in weights.items() if "layers.1.self_attn.k" not in name}
    with pytest.raises(CorruptModel, match=r"layers\.1\.self_attn\.k_proj\.weight is missing"):
        LeanModel(config, missing)
    weights["model.norm.weight"] = torch.ones(31)
    with pytest.raises(CorruptModel, match=r"norm\.weight has shape \[31\] .* \[32\]"):
        LeanModel(config, weights)


def test_random_weights_load_into_every_family():
    for variant in VARIANTS:
        config = ModelConfig.from_hf(make_pair(variant).reference.config)
        lean = LeanModel(config, random_weights(config, seed=3))
        logits = lean.forward(lean.new_cache(9), token_ids=random_ids(9)).logits
        assert logits.isfinite().all()
        assert logits.std() > 0.05


def test_threads_of_a_model_hold_during_its_forwards():
    lean = make_pair("llama", torch.float32).lean
    before = torch.get_num_threads()
    try:
        lean.threads = before + 1
        lean.forward(lean.new_cache(2), token_ids=random_ids(2))
        assert torch.get_num_threads() == before + 1
        lean.single_threads = before + 2
        lean.forward(lean.new_cache(2), token_ids=random_ids(2))
        assert torch.get_num_threads() == before + 1
        lean.forward(lean.new_cache(2), token_ids=random_ids(1))
        assert torch.get_num_threads() == before + 2, "a single row has its own count"
    finally:
        torch.set_num_threads(before)
