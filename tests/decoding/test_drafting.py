"""The packed, cached drafter against the head's own maths, row by row and without a cache."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from confu_demo.config import TreeConfig
from confu_demo.decoding.draft_tree import TokenTree
from confu_demo.decoding.drafting import Drafter, FutureInput
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.engine.model_config import RopeScaling
from confu_demo.engine.target import LeanModel
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from tests.decoding.kit import confu_head, eagle_head, tiny_model

TEXT = torch.tensor([1, 3, 2, 4, 0, 3, 7, 5, 6])  # x_0 .. x_8; the root is x_8
TREE = TreeConfig(num_nodes=14, depth=3, top_k=3)


def double(seed: int = 0) -> tuple[LeanModel, EagleHead, Tensor]:
    """A target, a head, and target features of x_0 .. x_7 [8, 3 * D]."""
    model = tiny_model(dtype=torch.float64)
    features = torch.randn(8, 96, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    return model, eagle_head(model, seed).double(), features


def naive_outputs(
    head: EagleHead, rows: Tensor, embeddings: Tensor, future: tuple[Tensor, Tensor, Tensor] | None
) -> Tensor:
    """The layer over all rows [S, D] with a causal mask; ``future`` adds (k, v, score bias)."""
    num = rows.shape[0]
    q, k, v = head.project(embeddings, rows, torch.arange(num))
    bias = torch.zeros(num, num, dtype=rows.dtype).masked_fill_(
        torch.ones(num, num).triu(1) > 0, -math.inf
    )
    if future is not None:
        k, v = torch.cat((future[0], k), dim=1), torch.cat((future[1], v), dim=1)
        bias = torch.cat((future[2].expand(num, 1), bias), dim=1)
    group = head.config.num_heads // head.config.num_kv_heads
    k, v = k.repeat_interleave(group, dim=0), v.repeat_interleave(group, dim=0)
    weights = (q @ k.transpose(1, 2) / math.sqrt(head.config.head_dim) + bias).softmax(-1)
    attended = (weights @ v).transpose(0, 1).flatten(1)
    return head.finish(rows, attended)


def check_tree(
    model: LeanModel,
    head: EagleHead,
    features: Tensor,
    tree: TokenTree,
    future: tuple[Tensor, Tensor, Tensor] | None,
) -> None:
    """Every node's log-probability, recomputed along its own path from nothing."""
    parents, ids = tree.parents.tolist(), tree.token_ids.tolist()
    for node in range(1, tree.num_nodes):
        path: list[int] = []
        above = parents[node]
        while above > 0:
            path.insert(0, above)
            above = parents[above]
        embeddings = model.embed(torch.cat((TEXT[1:], torch.tensor([ids[n] for n in path]).long())))
        rows = head.fuse(features)
        for _ in path:  # each output is the next row's feature
            last = naive_outputs(head, rows, embeddings[: rows.shape[0]], future)[-1:]
            rows = torch.cat((rows, last))
        hidden = naive_outputs(head, rows, embeddings, future)[-1]
        log_probs = head.logits(hidden).float().log_softmax(-1)
        draft_id = head.target_to_draft(torch.tensor(ids[node]))
        assert draft_id >= 0
        assert tree.log_probs[node].item() == pytest.approx(log_probs[draft_id].item(), abs=1e-5)
    top = head.logits(naive_outputs(head, head.fuse(features), model.embed(TEXT[1:]), future)[-1])
    likeliest = head.draft_to_target(top.topk(2).indices)
    assert set(likeliest.tolist()) <= {ids[n] for n in range(1, tree.num_nodes) if parents[n] == 0}


@pytest.mark.parametrize("first_rows", [0, 1, 5, 7])
def test_the_cached_drafter_equals_the_heads_own_maths(first_rows: int) -> None:
    model, head, features = double()
    drafter = Drafter(PackedHead(head, model), capacity=12, tree=TREE)
    drafter.absorb(TEXT[1 : 1 + first_rows], features[:first_rows])
    new = features[first_rows:]
    tree = drafter.propose(TEXT[1 + first_rows :], drafter.fuse(new), max_depth=9)
    assert tree.num_nodes == TREE.num_nodes
    assert int(tree.depths.max()) > 2
    with torch.no_grad():
        check_tree(model, head, features, tree, None)


def test_a_normed_first_residual_and_a_scaled_rotation_draft_as_the_head_computes() -> None:
    model, plain, features = double()
    scaling = RopeScaling(
        factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=16
    )
    config = replace(plain.config, norm_before_residual=True, rope_scaling=scaling)
    head = EagleHead(config).double()
    head.load_state_dict(plain.state_dict())
    with torch.no_grad():
        head.midlayer.hidden_norm.weight.copy_(torch.linspace(0.3, 2.0, 32))
        drafter = Drafter(PackedHead(head, model), capacity=12, tree=TREE)
        tree = drafter.propose(TEXT[1:], drafter.fuse(features), max_depth=9)
        check_tree(model, head, features, tree, None)


def test_rows_of_a_tree_leave_no_trace_in_the_next_draft() -> None:
    model, head, features = double()
    packed = PackedHead(head, model)
    again = Drafter(packed, capacity=12, tree=TREE)
    again.absorb(TEXT[1:4], features[:3])
    again.propose(TEXT[4:6], again.fuse(features[3:5]), max_depth=9)
    second = again.propose(TEXT[6:], again.fuse(features[5:]), max_depth=9)
    fresh = Drafter(packed, capacity=12, tree=TREE)
    first = fresh.propose(TEXT[1:], fresh.fuse(features), max_depth=9)
    assert second.token_ids.tolist() == first.token_ids.tolist()
    torch.testing.assert_close(second.log_probs, first.log_probs)
    assert again.num_rows == fresh.num_rows == 8


def test_the_future_column_is_seen_by_every_row() -> None:
    model, _, features = double()
    head: ConfuHead = confu_head(model).double()
    con = torch.randn(1, 96, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        head.future_bias.fill_(0.7)
        fused = head.eagle.fuse(features)
        k, v = head.future_column(con[0], fused[-1], torch.tensor(8))
        embedding, _ = head.future_mixture(fused[-1:])
        drafter = Drafter(PackedHead(head.eagle, model), 12, TREE, float(head.future_bias))
        drafter.absorb(TEXT[1:5], features[:4])
        future = FutureInput(drafter.fuse(con), embedding, 8)
        tree = drafter.propose(TEXT[5:], drafter.fuse(features[4:]), 9, future)
        check_tree(model, head.eagle, features, tree, (k, v, head.future_bias.detach()))
        without = Drafter(PackedHead(head.eagle, model), 12, TREE)
        other = without.propose(TEXT[1:], without.fuse(features), 9)
    assert not torch.allclose(tree.log_probs[1:4], other.log_probs[1:4], atol=1e-3)


def test_a_strongly_negative_bias_switches_the_future_off() -> None:
    model, head, features = double()
    packed = PackedHead(head, model)
    plain = Drafter(packed, 12, TREE)
    with_future = Drafter(packed, 12, TREE, future_bias=-1e4)
    expected = plain.propose(TEXT[1:], plain.fuse(features), 9)
    noise = torch.randn(1, 32, dtype=torch.float64)
    future = FutureInput(noise, noise, 8)
    tree = with_future.propose(TEXT[1:], with_future.fuse(features), 9, future)
    assert tree.token_ids.tolist() == expected.token_ids.tolist()
    torch.testing.assert_close(tree.log_probs, expected.log_probs)


@pytest.mark.parametrize(("max_depth", "deepest"), [(0, 0), (1, 1), (2, 2), (9, 4)])
def test_a_draft_is_never_deeper_than_it_may_be(max_depth: int, deepest: int) -> None:
    model, head, features = double()
    tree_config = TreeConfig(num_nodes=200, depth=3, top_k=3)
    drafter = Drafter(PackedHead(head, model), 12, tree_config)
    tree = drafter.propose(TEXT[1:], drafter.fuse(features), max_depth)
    assert int(tree.depths.max()) == deepest
    assert drafter.num_forwards == deepest


def test_looking_early_saves_forwards_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, head, features = double()
    with torch.no_grad():
        head.lm_head.weight.mul_(8.0)  # a sure drafter leaves most branches hopeless
    config = TreeConfig(num_nodes=4, depth=6, top_k=3)
    looking = Drafter(PackedHead(head, model), 12, config)
    tree = looking.propose(TEXT[1:], looking.fuse(features), 9)
    monkeypatch.setattr("confu_demo.decoding.host_pool.HostPool.is_settled", lambda *_: False)
    blind = Drafter(PackedHead(head, model), 12, config)
    expected = blind.propose(TEXT[1:], blind.fuse(features), 9)
    assert tree.token_ids.tolist() == expected.token_ids.tolist()
    assert tree.parents.tolist() == expected.parents.tolist()
    assert blind.num_forwards == 7
    assert looking.num_forwards <= 7


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_drafts_with_float32_log_probabilities(dtype: torch.dtype) -> None:
    model = tiny_model(dtype=dtype)
    drafter = Drafter(PackedHead(eagle_head(model), model), 12, TREE)
    features = torch.randn(8, 96, generator=torch.Generator().manual_seed(9)).to(dtype)
    tree = drafter.propose(TEXT[1:], drafter.fuse(features), 9)
    assert tree.log_probs.dtype == torch.float32
    assert bool((tree.log_probs <= 0).all())


def test_packed_matrices_draft_the_same_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(dtype=torch.float32)
    head = eagle_head(model, 3)
    features = torch.randn(8, 96, generator=torch.Generator().manual_seed(9))
    trees = []
    for pays in (False, True):
        monkeypatch.setattr("confu_demo.decoding.packed_head.pays", lambda count, pays=pays: pays)
        drafter = Drafter(PackedHead(head, model), capacity=12, tree=TREE)
        drafter.absorb(TEXT[1:8], features[:7])
        trees.append(drafter.propose(TEXT[8:], drafter.fuse(features[7:]), max_depth=4))
    assert torch.equal(trees[0].token_ids, trees[1].token_ids)
    assert torch.equal(trees[0].parents, trees[1].parents)
    torch.testing.assert_close(trees[0].scores, trees[1].scores, rtol=1e-4, atol=1e-5)
