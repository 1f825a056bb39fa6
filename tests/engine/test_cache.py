"""Append, rollback and keep leave what a fresh prefill would have written."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.engine.kit import assert_exact, make_pair, random_ids
from tests.engine.test_packed_rows import DEPTHS, PREFIX, TREE, path_to, prefilled, tree_mask


def assert_same_contents(cache, fresh):
    assert cache.length == fresh.length
    for name in ("k", "v"):
        got, want = (getattr(it, name)[:, :, : fresh.length] for it in (cache, fresh))
        assert_exact(got, want)


@pytest.mark.parametrize("variant", ["llama", "qwen2_bias", "qwen3_qk_norm"])
@pytest.mark.parametrize("leaf", range(6))
def test_keeping_a_path_equals_a_fresh_prefill(variant, leaf):
    lean = make_pair(variant).lean
    path = path_to(leaf)
    cache = prefilled(lean)
    lean.forward(cache, token_ids=TREE, positions=DEPTHS + 11, mask=tree_mask(11))
    cache.keep(11, torch.tensor(path))
    ids = torch.cat((PREFIX, TREE[path]))
    fresh = lean.new_cache(40)
    lean.forward(fresh, token_ids=ids)
    assert_same_contents(cache, fresh)
    following = random_ids(2, seed=9)
    got, want = (lean.forward(it, token_ids=following).logits for it in (cache, fresh))
    assert_exact(got, want)


def test_keeping_a_path_beside_attached_side_keys_equals_a_fresh_prefill():
    lean = make_pair("llama").lean
    side = lean.side_key_values(torch.randn(3, lean.config.hidden_size, dtype=torch.float64))
    cache = prefilled(lean)
    rows = torch.tensor([False, False, False, True, True, True])
    place: dict[str, Any] = {"token_ids": TREE, "positions": DEPTHS + 11, "mask": tree_mask(11)}
    lean.forward(cache, **place, side=side, side_rows=rows)
    cache.keep(11, torch.tensor([0, 2]))
    fresh = lean.new_cache(40)
    lean.forward(fresh, token_ids=torch.cat((PREFIX, TREE[[0, 2]])))
    assert_same_contents(cache, fresh)


def test_rollback_forgets_what_came_after():
    lean = make_pair("llama").lean
    cache = prefilled(lean)
    lean.forward(cache, token_ids=random_ids(5, seed=1))
    cache.rollback(9)
    lean.forward(cache, token_ids=TREE)
    fresh = lean.new_cache(40)
    lean.forward(fresh, token_ids=torch.cat((PREFIX[:9], TREE)))
    assert_same_contents(cache, fresh)


def test_keeping_nothing_is_a_rollback():
    lean = make_pair("llama").lean
    cache = prefilled(lean)
    cache.keep(4, torch.tensor([], dtype=torch.long))
    assert cache.length == 4


def test_a_cache_outlives_changes_of_inference_mode():
    lean = make_pair("llama").lean
    with torch.inference_mode():
        cache = prefilled(lean)
    lean.forward(cache, token_ids=TREE)
    cache.keep(11, torch.tensor([0, 1]))
    assert cache.length == 13


def test_impossible_requests_are_refused():
    lean = make_pair("llama").lean
    cache = prefilled(lean)
    with pytest.raises(ValueError, match="cannot roll a cache of 11 tokens back to 12"):
        cache.rollback(12)
    with pytest.raises(ValueError, match="cannot roll"):
        cache.rollback(-1)
    with pytest.raises(ValueError, match="cannot keep 3 slots from 9 in a cache of 11 tokens"):
        cache.keep(9, torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="capacity must be 1 or more"):
        lean.new_cache(0)
    assert cache.length == 11
    assert (cache.k.shape, cache.capacity) == ((4, 2, 40, 8), 40)
