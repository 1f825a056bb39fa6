"""The future column: what it is made of, and that it starts switched off."""

from __future__ import annotations

import math

import pytest
import torch

from confu_demo.heads.confu import ConfuHead, ConfuHeadConfig
from confu_demo.heads.soft_prompt import SoftPrompt
from tests.heads.kit import CONFIG, confu, eagle


def test_the_column_is_a_drafter_row_of_the_future_token_and_f() -> None:
    head = confu()
    con, fused, positions = torch.randn(2, 3, 48), torch.randn(2, 3, 16), torch.tensor([[4, 5, 9]])
    k, v = head.future_column(con, fused, positions.expand(2, 3))
    assert k.shape == v.shape == (2, 3, 2, 1, 4)
    embedding, _ = head.future_mixture(fused[1, 2])
    future = head.eagle.fuse(con[1, 2])
    _, one_k, one_v = head.eagle.project(embedding[None], future[None], torch.tensor([9]))
    torch.testing.assert_close(k[1, 2], one_k)
    torch.testing.assert_close(v[1, 2], one_v)


def test_zero_features_give_a_zero_f() -> None:
    head = confu()
    fused, position = torch.randn(16), torch.tensor(3)
    k, v = head.future_column(torch.zeros(48), fused, position)
    embedding, _ = head.future_mixture(fused)
    expected = head.column(torch.zeros(16), embedding, position)
    torch.testing.assert_close((k, v), expected)


def test_uniform_takes_the_mean_future_expert() -> None:
    head = confu()
    con, position = torch.randn(48), torch.tensor(3)
    one = head.future_column(con, torch.randn(16), position, uniform=True)
    other = head.future_column(con, torch.randn(16), position, uniform=True)
    torch.testing.assert_close(one, other)


def test_a_new_head_is_the_eagle_head_with_f_switched_off_in_effect() -> None:
    base = eagle(3)
    head = ConfuHead.from_eagle(base, ConfuHeadConfig(eagle=CONFIG))
    for name, tensor in base.state_dict().items():
        assert torch.equal(head.eagle.state_dict()[name], tensor)
    assert math.exp(float(head.future_bias.detach())) < 0.003
    head.eagle.fc.weight.data.zero_()
    assert bool(base.fc.weight.abs().sum() > 0)  # a copy, not a view


def test_gradients_reach_every_part_that_makes_the_column() -> None:
    head = confu()
    k, v = head.future_column(torch.randn(48), torch.randn(16), torch.tensor(2))
    scores = torch.cat((k.sum((-1, -2)) + head.future_bias, torch.ones(2)))
    (scores.softmax(0)[:2] @ v[:, 0]).sum().backward()
    for part in (head.future_bias, head.future_mixture.experts, head.eagle.fc.weight):
        assert part.grad is not None
        assert bool(part.grad.abs().sum() > 0)
    assert head.soft_prompt.embeddings.grad is None


def test_a_soft_prompt_can_start_from_token_embeddings() -> None:
    prompt = SoftPrompt(2, 4)
    prompt.initialise_from(torch.arange(8.0).view(2, 4))
    assert prompt.embeddings.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"num_soft_prompts": -1}, "num_soft_prompts must be 0 or more"),
        ({"experts_per_token": 9}, "experts_per_token must be 1 to 8"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ConfuHeadConfig(eagle=CONFIG, **change)
