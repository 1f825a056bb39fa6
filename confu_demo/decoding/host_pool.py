"""The candidates of a growing draft tree as Python numbers, where looking at scores is free.

The same trees as :class:`~confu_demo.decoding.draft_tree.CandidatePool` makes, for devices whose
tensors Python reads without waiting: a tree has a few dozen candidates, and loops over so few take
half the time of tensor operations on them [O].
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from confu_demo.decoding.draft_tree import Frontier, TokenTree


class HostPool:
    """Candidates of a growing tree. Index 0 is the root with score 0, so it is always best."""

    def __init__(self, root_id: Tensor, weigh: Callable[[Tensor], Tensor] | None = None) -> None:
        """As :class:`~confu_demo.decoding.draft_tree.CandidatePool`."""
        self._weigh = weigh
        self._ids: list[int] = root_id.tolist()
        self._log_probs, self._scores, self._parents = [0.0], [0.0], [-1]
        self._frontier = [0]  # index of every frontier node, best first

    @property
    def frontier_scores(self) -> list[float]:
        """Best first."""
        return [self._scores[index] for index in self._frontier]

    @property
    def ranked_scores(self) -> list[float]:
        """Of all candidates, best first: the root's 0 leads."""
        return sorted(self._scores, reverse=True)

    def expand(self, token_ids: Tensor, log_probs: Tensor) -> Frontier:
        """Adds the children Long/float[F, K] of the frontier; returns the next frontier, the
        best K of them."""
        num_children = token_ids.shape[1]
        weights = log_probs if self._weigh is None else self._weigh(log_probs)
        first = len(self._ids)
        for row in token_ids.tolist():
            self._ids.extend(row)
        own = log_probs.tolist()
        weighed = own if weights is log_probs else weights.tolist()
        for parent, row, added in zip(self._frontier, own, weighed, strict=True):
            self._log_probs.extend(row)
            score = self._scores[parent]
            self._scores.extend(score + weight for weight in added)
            self._parents.extend([parent] * num_children)
        self._frontier = self._best(range(first, len(self._ids)))[:num_children]
        ids = torch.tensor([self._ids[index] for index in self._frontier])
        return Frontier(
            ids, torch.tensor([(index - first) // num_children for index in self._frontier])
        )

    def narrow(self, frontier: Frontier, width: int) -> Frontier:
        """Gives up all but the best ``width`` nodes of the frontier (they stay candidates)."""
        del self._frontier[width:]
        return Frontier(frontier.token_ids[:width], frontier.rows[:width])

    def is_settled(self, num_nodes: int) -> bool:
        """True when no further child can enter the best ``num_nodes``: a child scores at most
        its parent, and on equal scores the earlier candidate wins."""
        if len(self._ids) < num_nodes:
            return False
        worst_chosen = self.ranked_scores[num_nodes - 1]
        return worst_chosen >= self._scores[self._frontier[0]]

    def tree(self, num_nodes: int) -> TokenTree:
        """The best ``num_nodes`` candidates (all, if there are fewer), root included."""
        chosen = sorted(self._best(range(len(self._ids)))[:num_nodes])
        rank = {index: node for node, index in enumerate(chosen)}
        parents = [-1, *(rank[self._parents[index]] for index in islice(chosen, 1, None))]
        depths = [0]
        ancestors = np.eye(len(chosen), dtype=bool)
        for node, parent in enumerate(islice(parents, 1, None), start=1):
            depths.append(depths[parent] + 1)
            ancestors[node] |= ancestors[parent]
        return TokenTree(
            torch.tensor([self._ids[index] for index in chosen]),
            torch.tensor(parents),
            torch.tensor(depths),
            torch.tensor([self._log_probs[index] for index in chosen]),
            torch.tensor([self._scores[index] for index in chosen]),
            torch.from_numpy(ancestors),
        )

    def _best(self, indices: range) -> list[int]:
        """Best score first, equal ones in index order."""
        return sorted(indices, key=self._scores.__getitem__, reverse=True)
