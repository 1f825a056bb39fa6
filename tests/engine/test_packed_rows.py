"""Draft trees, branches and soft prompts in one packed forward equal what they would be alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from confu_demo.engine.attention import causal_mask, mask_to_bias, visibility
from confu_demo.engine.target import LeanModel
from tests.engine.kit import assert_exact, make_pair, random_ids

PREFIX = random_ids(11, seed=5)
TREE = random_ids(6, seed=6)
PARENTS = (-1, 0, 0, 1, 1, 2)  # node 0 is the root
#      0
#     / \
#    1   2
#   / \   \
#  3   4   5
ANCESTORS = torch.tensor(
    [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [1, 0, 1, 0, 0, 1],
    ],
    dtype=torch.bool,
)
DEPTHS = torch.tensor([0, 1, 1, 2, 2, 2])


def tree_mask(past: int) -> torch.Tensor:
    return torch.cat((torch.ones(6, past, dtype=torch.bool), ANCESTORS), dim=1)


def path_to(node: int) -> list[int]:
    path = [node]
    while PARENTS[path[0]] >= 0:
        path.insert(0, PARENTS[path[0]])
    return path


def prefilled(lean: LeanModel, capacity: int = 40):
    cache = lean.new_cache(capacity)
    lean.forward(cache, token_ids=PREFIX, logits_rows=slice(0, 0))
    return cache


def alone(lean: LeanModel, path: list[int]) -> torch.Tensor:
    """Logits after the prefix and a path of the tree, in an ordinary forward."""
    ids = torch.cat((PREFIX, TREE[path]))
    return lean.forward(lean.new_cache(len(ids)), token_ids=ids).logits[-1]


@pytest.mark.parametrize(
    "variant", ["llama", "llama_tied_ungrouped", "qwen2_bias", "qwen3_qk_norm"]
)
def test_tree_rows_equal_rows_decoded_alone(variant):
    lean = make_pair(variant).lean
    output = lean.forward(
        prefilled(lean), token_ids=TREE, positions=DEPTHS + len(PREFIX), mask=tree_mask(len(PREFIX))
    )
    for node in range(6):
        assert_exact(output.logits[node], alone(lean, path_to(node)))


def test_a_literal_causal_mask_is_what_no_mask_means():
    want = [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    mask = causal_mask(3, 2, torch.device("cpu"))
    assert mask.int().tolist() == want
    lean = make_pair("llama").lean
    free, masked = prefilled(lean), prefilled(lean)
    ids = random_ids(3)
    explicit = lean.forward(masked, token_ids=ids, mask=causal_mask(3, 11, torch.device("cpu")))
    implicit = lean.forward(free, token_ids=ids)
    assert_exact(implicit.logits, explicit.logits)


def test_a_single_masked_row_does_not_see_hidden_keys():
    lean = make_pair("llama").lean
    ids = random_ids(1)
    mask = torch.ones(1, len(PREFIX) + 1, dtype=torch.bool)
    mask[0, 5:11] = False
    cache = prefilled(lean)
    position = torch.tensor([5])
    output = lean.forward(cache, token_ids=ids, positions=position, mask=mask)
    short = torch.cat((PREFIX[:5], ids))
    want = lean.forward(lean.new_cache(6), token_ids=short).logits[-1]
    assert_exact(output.logits[0], want)


def test_a_row_that_sees_nothing_stays_finite():
    bias = mask_to_bias(torch.tensor([[True, False], [False, False]]), torch.empty(0))
    assert bias[0].tolist() == [0.0, torch.finfo(torch.float32).min]
    lean = make_pair("llama").lean
    mask = torch.zeros(2, 2, dtype=torch.bool)
    output = lean.forward(lean.new_cache(2), token_ids=random_ids(2), mask=mask)
    assert output.logits.isfinite().all()


def test_the_cheapest_form_of_visibility_is_chosen():
    like = torch.empty(0)
    one = visibility(1, 7, None, None, None, like)
    assert (one.bias, one.is_causal) == (None, False)
    prompt = visibility(4, 0, None, None, None, like)
    assert (prompt.bias, prompt.is_causal) == (None, True)
    later = visibility(4, 7, None, None, None, like)
    assert later.bias is not None
    assert not later.is_causal


@pytest.mark.parametrize("variant", ["llama", "qwen2_bias", "qwen3_qk_norm"])
def test_side_keys_are_what_a_soft_prompt_in_front_would_be(variant):
    lean = make_pair(variant).lean
    soft = torch.randn(5, lean.config.hidden_size, dtype=torch.float64)
    ids = random_ids(4)
    cache = lean.new_cache(4)
    output = lean.forward(
        cache,
        token_ids=ids,
        positions=torch.arange(5, 9),
        side=lean.side_key_values(soft),
        side_rows=torch.ones(4, dtype=torch.bool),
    )
    whole = torch.cat((soft, lean.embed(ids)))
    want = lean.forward(lean.new_cache(9), embeddings=whole).logits[5:]
    assert_exact(output.logits, want)
    assert cache.length == 4


def test_side_keys_are_invisible_to_rows_that_do_not_ask():
    lean = make_pair("llama").lean
    side = lean.side_key_values(torch.randn(3, lean.config.hidden_size, dtype=torch.float64))
    rows = torch.tensor([False, False, True, False, True, False])
    place: dict[str, Any] = {"token_ids": TREE, "positions": DEPTHS + 11, "mask": tree_mask(11)}
    without = lean.forward(prefilled(lean), **place).logits
    cache = prefilled(lean)
    with_side = lean.forward(cache, **place, side=side, side_rows=rows).logits
    for node in (0, 1, 3):
        assert_exact(with_side[node], without[node])
    for node in (2, 4):
        assert (with_side[node] - without[node]).abs().max() > 1e-3


def test_forwards_without_side_keys_do_not_notice_attached_ones():
    lean = make_pair("llama").lean
    side = lean.side_key_values(torch.randn(3, lean.config.hidden_size, dtype=torch.float64))
    plain, mixed = prefilled(lean), prefilled(lean)
    seen_once = lean.forward(
        mixed, token_ids=TREE[:2], side=side, side_rows=torch.zeros(2, dtype=torch.bool)
    )
    assert_exact(seen_once.logits, lean.forward(plain, token_ids=TREE[:2]).logits)
    for ids in (TREE[2:3], TREE[3:]):
        want = lean.forward(plain, token_ids=ids).logits
        assert_exact(lean.forward(mixed, token_ids=ids).logits, want)
    assert_exact(mixed.k[:, :, :17], plain.k[:, :, :17])
    assert_exact(mixed.v[:, :, :17], plain.v[:, :, :17])


def test_another_soft_prompt_replaces_the_attached_one():
    lean = make_pair("llama").lean
    first, second = (
        lean.side_key_values(torch.randn(size, lean.config.hidden_size, dtype=torch.float64))
        for size in (3, 5)
    )
    rows = torch.ones(2, dtype=torch.bool)
    ids = random_ids(2)
    cache = prefilled(lean)
    lean.forward(cache, token_ids=ids, side=first, side_rows=rows)
    cache.rollback(11)
    again = lean.forward(cache, token_ids=ids, side=second, side_rows=rows)
    want = lean.forward(prefilled(lean), token_ids=ids, side=second, side_rows=rows)
    assert_exact(again.logits, want.logits)
