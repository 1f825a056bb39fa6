"""Routing: who is chosen, what the weights sum to, and the switch that turns it off."""

from __future__ import annotations

import pytest
import torch

from confu_demo.heads.expert_mixture import ExpertMixture


def mixture() -> ExpertMixture:
    torch.manual_seed(0)
    return ExpertMixture(6, 4, num_experts=5, top_k=2)


def test_the_two_likeliest_experts_are_blended_by_their_renormalised_weights() -> None:
    layer, x = mixture(), torch.randn(3, 7, 6)
    embedding, weights = layer(x)
    router = layer.router(x).softmax(-1)
    for row in range(3):
        for column in range(7):
            scores = router[row, column].tolist()
            first, second = sorted(range(5), key=lambda e: -scores[e])[:2]
            total = scores[first] + scores[second]
            expected = torch.zeros(5)
            expected[first], expected[second] = scores[first] / total, scores[second] / total
            torch.testing.assert_close(weights[row, column], expected)
            torch.testing.assert_close(embedding[row, column], expected @ layer.experts)


def test_uniform_weighs_every_expert_alike_and_ignores_the_input() -> None:
    layer = mixture()
    embedding, weights = layer(torch.randn(3, 6), uniform=True)
    torch.testing.assert_close(weights, torch.full((3, 5), 0.2))
    torch.testing.assert_close(embedding, layer.experts.mean(0).expand(3, 4))


def test_gradients_reach_the_router_and_the_chosen_experts_only() -> None:
    layer, x = mixture(), torch.randn(1, 6)
    embedding, weights = layer(x)
    embedding.square().sum().backward()
    assert layer.router.weight.grad is not None
    assert bool(layer.router.weight.grad.abs().sum() > 0)
    assert layer.experts.grad is not None
    used = layer.experts.grad.abs().sum(-1) > 0
    assert torch.equal(used, weights[0] > 0)
    assert int(used.sum()) == 2


@pytest.mark.parametrize("top_k", [0, 6])
def test_an_impossible_number_of_chosen_experts_is_refused(top_k: int) -> None:
    with pytest.raises(ValueError, match="top_k must be 1 to 5"):
        ExpertMixture(6, 4, num_experts=5, top_k=top_k)
