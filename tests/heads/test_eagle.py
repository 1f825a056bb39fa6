"""The EAGLE-3 head's maths, by hand, and its reduced vocabulary."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from confu_demo.heads.eagle import EagleHead
from tests.heads.kit import CONFIG, eagle


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + CONFIG.rms_norm_eps).sqrt() * weight


def turn(x: Tensor, position: int) -> Tensor:
    """Rotary embedding of one head [4], pair by pair."""
    out = x.clone()
    for pair in range(2):
        angle = position * CONFIG.rope_theta ** (-2 * pair / 4)
        low, high = x[pair], x[pair + 2]
        out[pair] = low * math.cos(angle) - high * math.sin(angle)
        out[pair + 2] = high * math.cos(angle) + low * math.sin(angle)
    return out


def by_hand(
    weights: dict[str, Tensor], embeddings: Tensor, features: Tensor, *, normed_first: bool = False
) -> Tensor:
    """Logits [S, V_draft] of S rows with a causal mask, from the arrays of a checkpoint.
    ``normed_first``: the first residual is the normed feature."""
    fused = features @ weights["fc.weight"].T
    left = rms(embeddings, weights["midlayer.input_layernorm.weight"])
    rows = torch.cat((left, rms(fused, weights["midlayer.hidden_norm.weight"])), dim=1)
    q, k, v = (rows @ weights[f"midlayer.self_attn.{name}_proj.weight"].T for name in "qkv")
    attended = torch.zeros(len(rows), 16, dtype=rows.dtype)
    for row in range(len(rows)):
        for head in range(4):
            query = turn(q[row].view(4, 4)[head], row)
            keys = torch.stack([turn(k[i].view(2, 4)[head // 2], i) for i in range(row + 1)])
            values = v[: row + 1].view(-1, 2, 4)[:, head // 2]
            weight = (keys @ query / 2.0).softmax(0)
            attended[row, head * 4 : head * 4 + 4] = weight @ values
    residual = rms(fused, weights["midlayer.hidden_norm.weight"]) if normed_first else fused
    hidden = residual + attended @ weights["midlayer.self_attn.o_proj.weight"].T
    normed = rms(hidden, weights["midlayer.post_attention_layernorm.weight"])
    gate = normed @ weights["midlayer.mlp.gate_proj.weight"].T
    up = normed @ weights["midlayer.mlp.up_proj.weight"].T
    hidden = hidden + (gate * gate.sigmoid() * up) @ weights["midlayer.mlp.down_proj.weight"].T
    return rms(hidden, weights["norm.weight"]) @ weights["lm_head.weight"].T


def by_head(head: EagleHead, embeddings: Tensor, features: Tensor) -> Tensor:
    """The same through the head's own methods."""
    fused = head.fuse(features)
    num = len(fused)
    q, k, v = head.project(embeddings, fused, torch.arange(num))
    k, v = k.repeat_interleave(2, dim=0), v.repeat_interleave(2, dim=0)
    scores = (q @ k.transpose(1, 2) / 2.0).masked_fill(torch.ones(num, num).triu(1) > 0, -math.inf)
    attended = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
    return head.logits(head.finish(fused, attended))


def test_logits_equal_those_computed_by_hand() -> None:
    head = eagle().double()
    embeddings = torch.randn(6, 16, dtype=torch.float64)
    features = torch.randn(6, 48, dtype=torch.float64)
    with torch.no_grad():
        expected = by_hand(dict(head.state_dict()), embeddings, features)
        torch.testing.assert_close(
            by_head(head, embeddings, features), expected, atol=1e-6, rtol=1e-6
        )


def test_the_normed_feature_can_be_the_first_residual() -> None:
    plain = eagle().double()
    head = EagleHead(replace(CONFIG, norm_before_residual=True)).double()
    head.load_state_dict(plain.state_dict())
    embeddings = torch.randn(6, 16, dtype=torch.float64)
    features = torch.randn(6, 48, dtype=torch.float64)
    with torch.no_grad():
        expected = by_hand(dict(head.state_dict()), embeddings, features, normed_first=True)
        got = by_head(head, embeddings, features)
        assert not torch.allclose(got, by_head(plain, embeddings, features), atol=1e-2)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)


def test_rows_can_be_batched_and_share_positions() -> None:
    head = eagle()
    embeddings, features = torch.randn(2, 3, 5, 16), torch.randn(2, 3, 5, 16)
    q, k, v = head.project(embeddings, features, torch.arange(5))
    assert (q.shape, k.shape, v.shape) == ((2, 3, 4, 5, 4), (2, 3, 2, 5, 4), (2, 3, 2, 5, 4))
    positions = torch.arange(5).expand(2, 3, 5)
    again = head.project(embeddings, features, positions)
    torch.testing.assert_close(again, (q, k, v))
    one = head.project(embeddings[1, 2], features[1, 2], torch.arange(5))
    torch.testing.assert_close(one[0], q[1, 2])
    hidden = head.finish(features, torch.randn(2, 3, 5, 16))
    assert head.logits(hidden).shape == (2, 3, 5, 12)


def test_draft_ids_and_target_ids_translate_both_ways() -> None:
    head = eagle()
    draft = torch.arange(12)
    target = head.draft_to_target(draft)
    assert target.tolist() == head.t2d.nonzero().flatten().tolist()
    assert torch.equal(head.d2t, target - draft)
    assert torch.equal(head.target_to_draft(target), draft)
    missing = (~head.t2d).nonzero().flatten()
    assert len(missing) == 18
    assert bool((head.target_to_draft(missing) == -1).all())
    assert head.target_to_draft(target.view(3, 4)).shape == (3, 4)


def test_an_initial_head_drafts_the_most_frequent_tokens() -> None:
    counts = torch.zeros(30, dtype=torch.long)
    counts[[29, 3, 17, 5]] = torch.tensor([9, 8, 7, 6])
    lm_head = torch.randn(30, 16)
    head = EagleHead.initial(replace(CONFIG, draft_vocab_size=6), lm_head, counts)
    chosen = [0, 1, 3, 5, 17, 29]  # ids 0 and 1 win the tie of tokens that never came up
    assert head.draft_to_target(torch.arange(6)).tolist() == chosen
    assert torch.equal(head.lm_head.weight, lm_head[chosen])


def test_a_draft_vocabulary_must_be_sorted() -> None:
    head = eagle()
    with pytest.raises(ValueError, match="sorted"):
        head.set_draft_vocabulary(torch.arange(12).flip(0))
    with pytest.raises(ValueError, match="without repeats"):
        head.set_draft_vocabulary(torch.zeros(12, dtype=torch.long))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hidden_size": 8}, "hidden size 8 must be the target's 16"),
        ({"draft_vocab_size": 31}, "draft vocabulary 31 must be 1 to 30"),
        ({"num_kv_heads": 3}, "num_heads must divide by num_kv_heads"),
        ({"feature_layers": (3, 1)}, "feature layers must increase"),
        ({"feature_layers": ()}, "feature layers must increase"),
    ],
)
def test_impossible_sizes_are_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        replace(CONFIG, **change)  # type: ignore[arg-type]
