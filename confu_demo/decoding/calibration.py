"""How far the drafter's probabilities can be believed in this run: running acceptance by depth.

Measured on the bundled heads, a node whose parent was accepted is itself accepted about as often
as the drafter's probability says, at every depth and temperature (the ratio of both sums is 0.96
to 1.09). So a factor per depth is all the correction there is; it begins at 1 and follows the
run's evidence, the faster the more evidence there is [O]. Knows no cost and no tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

PRIOR_SIBLINGS = (0.7, 0.12, 0.05, 0.03, 0.02, 0.015, 0.01, 0.01)
"""Before there is evidence: acceptance of the likeliest child, the second, ... [O]"""
_PRIOR_WEIGHT = 8.0  # reached nodes that the prior, or the whole run, counts as


class Calibration:
    """Counts of one run. Depth 1 are the root's children."""

    def __init__(self, max_depth: int, num_siblings: int) -> None:
        self._predicted = [0.0] * (max_depth + 1)
        self._accepted = [0] * (max_depth + 1)
        self._reached = [0] * (max_depth + 1)
        self._ranks = [[0] * num_siblings for _ in range(max_depth + 1)]

    def add(
        self, parents: Sequence[int], log_probs: Sequence[float], accepted: Sequence[int]
    ) -> None:
        """One verified tree: the children of the root and of every accepted node are evidence."""
        taken = set(accepted)
        for depth, node in enumerate((0, *accepted), start=1):
            children = [i for i, parent in enumerate(parents) if parent == node and i]
            if not children or depth >= len(self._reached):
                continue
            children.sort(key=lambda child: -log_probs[child])
            self._reached[depth] += 1
            self._predicted[depth] += sum(math.exp(log_probs[child]) for child in children)
            hit = next((rank for rank, child in enumerate(children) if child in taken), None)
            if hit is not None:
                self._accepted[depth] += 1
                self._ranks[depth][min(hit, len(self._ranks[depth]) - 1)] += 1

    def expected_tokens(self, parents: Sequence[int], log_probs: Sequence[float]) -> float:
        """What a tree should bring: the chances of all its nodes, the root's own token as 1."""
        depths, chances = [0], [1.0]
        factors = [1.0]
        for parent, log_prob in zip(parents[1:], log_probs[1:], strict=True):
            depth = depths[parent] + 1
            if depth == len(factors):
                factors.append(self.factor(depth))
            chance = min(1.0, math.exp(log_prob) * factors[depth])
            depths.append(depth)
            chances.append(chances[parent] * chance)
        return sum(chances)

    def factor(self, depth: int) -> float:
        """Accepted over predicted at this depth, drawn towards the whole run's ratio, and that
        towards 1."""
        overall = (_PRIOR_WEIGHT + sum(self._accepted)) / (_PRIOR_WEIGHT + sum(self._predicted))
        if depth >= len(self._reached):
            return overall
        weight = _PRIOR_WEIGHT * overall
        return (weight + self._accepted[depth]) / (_PRIOR_WEIGHT + self._predicted[depth])

    def hit_rate(self, depth: int) -> float:
        """The chance that one of the drafted children at ``depth`` is accepted, if their parent
        is; drawn towards the whole run's, and that towards the prior."""
        prior = PRIOR_SIBLINGS[0]
        reached, accepted = sum(self._reached), sum(self._accepted)
        overall = (_PRIOR_WEIGHT * prior + accepted) / (_PRIOR_WEIGHT + reached)
        if depth >= len(self._reached):
            return overall
        weight = _PRIOR_WEIGHT * overall
        return (weight + self._accepted[depth]) / (_PRIOR_WEIGHT + self._reached[depth])

    def acceptance(self) -> list[list[float]]:
        """``[depth - 1][rank]``: acceptance of the likeliest child, the second, ... at every
        depth, for :func:`confu_demo.decoding.tree_plan.plan_shape`."""
        reached = sum(self._reached)
        num = len(self._ranks[0])
        found = [sum(depth[rank] for depth in self._ranks) for rank in range(num)]
        overall = [
            (_PRIOR_WEIGHT * prior + count) / (_PRIOR_WEIGHT + reached)
            for prior, count in zip(PRIOR_SIBLINGS[:num], found, strict=True)
        ]
        return [
            [
                (_PRIOR_WEIGHT * mean + count) / (_PRIOR_WEIGHT + self._reached[depth])
                for mean, count in zip(overall, self._ranks[depth], strict=True)
            ]
            for depth in range(1, len(self._reached))
        ]
