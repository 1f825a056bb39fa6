"""Trees grow, keep the best candidates, and never separate a child from its parent."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from confu_demo.decoding.draft_tree import CandidatePool, TokenTree, best, chain
from confu_demo.decoding.growth import Pool
from confu_demo.decoding.host_pool import HostPool

BOTH = pytest.mark.parametrize("kind", [CandidatePool, HostPool])


def grow(
    seed: int,
    *,
    top_k: int,
    depth: int,
    num_nodes: int,
    ties: bool = False,
    kind: type[Pool] = CandidatePool,
) -> TokenTree:
    """A tree over random log-probabilities; with ``ties`` most of them are equal."""
    pool = pool_of(seed, top_k=top_k, depth=depth, ties=ties, kind=kind)
    return pool.tree(num_nodes)


def pool_of(seed: int, *, top_k: int, depth: int, ties: bool, kind: type[Pool]) -> Pool:
    generator = torch.Generator().manual_seed(seed)
    pool = kind(torch.tensor([7]))
    num_rows = 1
    for _ in range(depth + 1):
        ids = torch.randint(0, 50, (num_rows, top_k), generator=generator)
        log_probs = -torch.rand(num_rows, top_k, generator=generator)
        if ties:
            log_probs = (log_probs * 2).round() / 2  # 0, -0.5 or -1: zero ties with the parent
        pool.expand(ids, log_probs)
        num_rows = top_k
    return pool


@BOTH
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("num_nodes", [1, 2, 5, 12, 30])
def test_pruning_keeps_parents_even_when_scores_tie(
    seed: int, num_nodes: int, ties: bool, kind: type[Pool]
) -> None:
    tree = grow(seed, top_k=3, depth=3, num_nodes=num_nodes, ties=ties, kind=kind)
    parents, scores = tree.parents.tolist(), tree.scores.tolist()
    assert len(parents) == num_nodes
    assert parents[0] == -1
    assert tree.token_ids[0] == 7
    for node in range(1, num_nodes):
        assert 0 <= parents[node] < node
        path_score = scores[parents[node]] + tree.log_probs[node].item()
        assert scores[node] == pytest.approx(path_score, abs=1e-6)
        assert tree.depths[node] == tree.depths[parents[node]] + 1
        assert tree.ancestors[node, parents[node]]


@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_the_tree_holds_the_best_of_all_candidates(seed: int, kind: type[Pool]) -> None:
    everything = grow(seed, top_k=3, depth=3, num_nodes=10_000, kind=kind)
    assert everything.num_nodes == 1 + 3 + 3 * 9  # root, its children, k^2 a level
    pruned = grow(seed, top_k=3, depth=3, num_nodes=9, kind=kind)
    ranked = sorted(everything.scores.tolist(), reverse=True)
    assert sorted(pruned.scores.tolist(), reverse=True) == ranked[:9]


@BOTH
def test_only_the_best_children_are_expanded(kind: type[Pool]) -> None:
    pool = kind(torch.tensor([0]))
    first = pool.expand(torch.tensor([[1, 2]]), torch.tensor([[-0.1, -2.0]]))
    assert first.token_ids.tolist() == [1, 2]
    second = pool.expand(torch.tensor([[3, 4], [5, 6]]), torch.tensor([[-0.1, -0.2], [-0.3, -9.0]]))
    assert second.token_ids.tolist() == [3, 4]  # -0.2 and -0.3; token 5 has -2.3
    assert second.rows.tolist() == [0, 0]
    third = pool.expand(torch.tensor([[7, 8], [9, 9]]), torch.tensor([[-5.0, -6.0], [-0.1, -7.0]]))
    assert third.token_ids.tolist() == [9, 7]
    assert third.rows.tolist() == [1, 0]
    tree = pool.tree(6)
    assert tree.token_ids.tolist() == [0, 1, 2, 3, 4, 9]
    assert tree.parents.tolist() == [-1, 0, 0, 1, 1, 4]


def test_equal_scores_are_taken_in_index_order() -> None:
    assert best(torch.tensor([-1.0, -0.5, -1.0, -0.5, -1.0]), 4).tolist() == [1, 3, 0, 2]
    many = torch.zeros(100)
    assert best(many, 100).tolist() == list(range(100))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("num_nodes", [2, 4, 8])
def test_a_settled_pool_would_not_change_if_it_grew(seed: int, num_nodes: int, ties: bool) -> None:
    full = grow(seed, top_k=3, depth=5, num_nodes=num_nodes, ties=ties)
    for depth in range(5):
        pool = pool_of(seed, top_k=3, depth=depth, ties=ties, kind=HostPool)
        assert isinstance(pool, HostPool)
        if pool.is_settled(num_nodes):
            assert same(pool.tree(num_nodes), full)


def test_a_pool_with_a_clear_winner_settles() -> None:
    pool = HostPool(torch.tensor([0]))
    pool.expand(torch.tensor([[1, 2]]), torch.tensor([[-0.1, -5.0]]))
    assert not pool.is_settled(3)
    pool.expand(torch.tensor([[3, 4], [5, 6]]), torch.full((2, 2), math.log(1e-9)))
    assert pool.is_settled(3)
    assert not pool.is_settled(6)  # a child of token 1 could still beat those of token 2


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_both_pools_grow_the_same_tree_from_the_same_proposals(seed: int, ties: bool) -> None:
    """Widths narrow on the way; log-probabilities are multiples of 1/64, so sums are exact."""
    generator = torch.Generator().manual_seed(seed)
    pools: list[Pool] = [
        kind(torch.tensor([7]), lambda log_probs: log_probs - 0.25)
        for kind in (CandidatePool, HostPool)
    ]
    num_rows = 1
    for width in (3, 2, 3, 1):
        ids = torch.randint(0, 50, (num_rows, 3), generator=generator)
        steps = torch.randint(0, 2 if ties else 200, (num_rows, 3), generator=generator)
        one, other = (pool.narrow(pool.expand(ids, -steps.float() / 64), width) for pool in pools)
        assert torch.equal(one.token_ids, other.token_ids)
        assert torch.equal(one.rows, other.rows)
        num_rows = width
    for num_nodes in (1, 2, 7, 100):
        trees = [pool.tree(num_nodes) for pool in pools]
        for field in dataclasses.fields(TokenTree):
            ours, theirs = (getattr(tree, field.name) for tree in trees)
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs), field.name


def test_what_a_pool_shows_is_sorted_and_leads_with_the_root() -> None:
    pool = HostPool(torch.tensor([0]))
    pool.expand(torch.tensor([[1, 2]]), torch.tensor([[-2.0, -0.5]]))
    assert pool.frontier_scores == [-0.5, -2.0]
    assert pool.ranked_scores == [0.0, -0.5, -2.0]


def test_a_chain_is_a_tree() -> None:
    tree = chain([4, 5, 6], torch.device("cpu"))
    assert tree.parents.tolist() == [-1, 0, 1]
    assert tree.depths.tolist() == [0, 1, 2]
    assert tree.ancestors.tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def same(left: TokenTree, right: TokenTree) -> bool:
    def parts(tree: TokenTree) -> tuple[Tensor, Tensor, Tensor]:
        return tree.token_ids, tree.parents, tree.scores

    return all(torch.equal(a, b) for a, b in zip(parts(left), parts(right), strict=True))
