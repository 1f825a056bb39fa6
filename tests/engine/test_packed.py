"""Packed matrices: the same products, only where they pay, and never a wrong forward."""

from __future__ import annotations

import pytest
import torch

from confu_demo.engine import packed as packing
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.packed import MAX_PACKED_PARAMETERS, MIN_PACKED_PARAMETERS, packed, pays
from confu_demo.engine.target import LeanModel
from confu_demo.engine.weights import random_weights
from tests.engine.kit import VARIANTS, make_pair, random_ids

BUILD_HAS_IT = packing._works()


@pytest.mark.skipif(not BUILD_HAS_IT, reason="this build of PyTorch has no packed products")
@pytest.mark.parametrize("rows", [2, 3, 8, 33])
def test_a_packed_product_equals_the_usual_one(rows: int) -> None:
    torch.manual_seed(rows)
    weight, bias, x = torch.randn(48, 32), torch.randn(48), torch.randn(rows, 32)
    matrix = packed(weight, bias)
    assert matrix is not None
    torch.testing.assert_close(matrix(x), x @ weight.t() + bias)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_only_float32_is_packed(dtype: torch.dtype) -> None:
    assert packed(torch.ones(4, 4, dtype=dtype)) is None


def test_neither_small_nor_very_large_models_are_packed() -> None:
    sizes = (MIN_PACKED_PARAMETERS - 1, MIN_PACKED_PARAMETERS, MAX_PACKED_PARAMETERS + 1)
    assert [pays(size) for size in sizes] == [False, True, False]


@pytest.mark.skipif(not BUILD_HAS_IT, reason="this build of PyTorch has no packed products")
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_packed_model_says_what_it_says_unpacked(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ModelConfig.from_hf(make_pair(variant).reference.config)
    weights = random_weights(config, seed=1)
    usual = LeanModel(config, weights)
    monkeypatch.setattr("confu_demo.engine.target.pays", lambda count: True)
    model = LeanModel(config, weights)
    ids = random_ids(7)
    outputs = []
    for each in (usual, model):
        cache = each.new_cache(16)
        first = each.forward(cache, token_ids=ids[:5], feature_layers=(1,))
        second = each.forward(cache, token_ids=ids[5:])
        outputs.append((first.logits, first.features, second.logits))
    for theirs, mine in zip(*outputs, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
