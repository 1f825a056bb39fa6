"""Draft trees: how candidates grow and which of them are verified.

EAGLE-3's dynamic tree [E]: a frontier of top_k nodes is expanded level by level, every child is a
candidate, and the best candidates by cumulative log-probability form the tree. Pure tensor work
without a copy to the host; knows no model.

A child scores at most its parent and comes later, so with stable ties (score, then earlier index)
a chosen child always has a chosen parent.

Shape letters: N tree nodes, F frontier nodes, K children of each, C candidates so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.decoding.masks import ancestor_mask


@dataclass(frozen=True, slots=True)
class TokenTree:
    """A draft tree on the device; node 0 is the root, parents precede children.

    ``token_ids``, ``parents``, ``depths`` Long[N] (parent of the root -1, its depth 0);
    ``log_probs`` float[N] of each node given its parent (root 0); ``scores`` float[N], their sum
    along the path, weighed where the tree was grown so; ``ancestors`` Bool[N, N].
    """

    token_ids: Tensor
    parents: Tensor
    depths: Tensor
    log_probs: Tensor
    scores: Tensor
    ancestors: Tensor

    @property
    def num_nodes(self) -> int:
        return self.token_ids.shape[0]

    @property
    def last_accepted(self) -> Tensor:
        """float[N]: the chance of every node to be the last accepted one, by its score: to be
        accepted, and none of its children in the tree."""
        chances = self.scores.exp()
        return chances.index_add(0, self.parents[1:], -chances[1:])


def best(scores: Tensor, num: int) -> Tensor:
    """Indices Long[<= num] of the best scores, best first; equal scores in index order."""
    return torch.sort(scores, descending=True, stable=True).indices[:num]


def make_tree(
    token_ids: Tensor, parents: Tensor, log_probs: Tensor, scores: Tensor, max_depth: int
) -> TokenTree:
    """A tree from its nodes; ``max_depth`` bounds the depth of the deepest one."""
    ancestors = ancestor_mask(parents, max_depth)
    depths = ancestors.sum(dim=1) - 1
    return TokenTree(token_ids, parents, depths, log_probs, scores, ancestors)


def chain(token_ids: Sequence[int], device: torch.device) -> TokenTree:
    """The chain root -> ... over ``token_ids`` (root first), drafted with certainty."""
    num_nodes = len(token_ids)
    steps = torch.arange(num_nodes, device=device)
    certain = torch.zeros(num_nodes, device=device)
    ancestors = steps[:, None] >= steps[None, :]
    ids = torch.tensor(token_ids, device=device)
    return TokenTree(ids, steps - 1, steps, certain, certain, ancestors)


@dataclass(frozen=True, slots=True)
class Frontier:
    """The nodes to expand next: ``token_ids`` Long[F], and ``rows`` Long[F], the row of the
    previous frontier that each of them is a child of."""

    token_ids: Tensor
    rows: Tensor


class CandidatePool:
    """Candidates of a growing tree. Index 0 is the root with score 0, so it is always best.
    :class:`confu_demo.decoding.host_pool.HostPool` does the same where looking is free."""

    def __init__(self, root_id: Tensor, weigh: Callable[[Tensor], Tensor] | None = None) -> None:
        """``root_id`` Long[1], on the device. ``weigh`` turns the drafter's log-probabilities
        into what is added along a path instead of them; it must return nothing above 0."""
        self._weigh = weigh
        zero = torch.zeros(1, device=root_id.device)
        self._ids, self._log_probs, self._scores = [root_id], [zero], [zero]
        self._parents = [root_id.new_full((1,), -1)]
        self._frontier_scores = zero
        self._frontier = root_id.new_zeros(1)  # pool index of every frontier node
        self._count = 1
        self._levels = 0

    def expand(self, token_ids: Tensor, log_probs: Tensor) -> Frontier:
        """Adds the children Long/float[F, K] of the frontier; returns the next frontier, the
        best K of them."""
        num_children = token_ids.shape[1]
        weights = log_probs if self._weigh is None else self._weigh(log_probs)
        scores = (self._frontier_scores[:, None] + weights).flatten()
        ids = token_ids.flatten()
        self._ids.append(ids)
        self._log_probs.append(log_probs.flatten())
        self._scores.append(scores)
        self._parents.append(self._frontier[:, None].expand(-1, num_children).reshape(-1))
        chosen = best(scores, num_children)
        self._frontier_scores = scores.index_select(0, chosen)  # much cheaper than indexing
        self._frontier = chosen + self._count
        self._count += scores.shape[0]
        self._levels += 1
        return Frontier(ids.index_select(0, chosen), chosen // num_children)

    def narrow(self, frontier: Frontier, width: int) -> Frontier:
        """Gives up all but the best ``width`` nodes of the frontier (they stay candidates)."""
        self._frontier = self._frontier[:width]
        self._frontier_scores = self._frontier_scores[:width]
        return Frontier(frontier.token_ids[:width], frontier.rows[:width])

    def tree(self, num_nodes: int) -> TokenTree:
        """The best ``num_nodes`` candidates (all, if there are fewer), root included."""
        scores = torch.cat(self._scores)
        chosen = best(scores, num_nodes).sort().values
        ids, parents, log_probs = (
            torch.cat(parts).index_select(0, chosen)
            for parts in (self._ids, self._parents, self._log_probs)
        )
        ranks = torch.searchsorted(chosen, parents)  # pool index -> node index
        ranks[0] = -1
        return make_tree(
            ids,
            ranks,
            log_probs,
            scores.index_select(0, chosen),
            max_depth=min(self._levels, chosen.shape[0] - 1),
        )
