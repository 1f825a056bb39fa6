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
    """Counts of one run. In every list index 0 is depth 1, the root's children."""

    def __init__(self, max_depth: int, num_siblings: int) -> None:
        self._predicted = [0.0] * max_depth
        self._accepted = [0] * max_depth
        self._reached = [0] * max_depth
        self._ranks = [[0] * max_depth for _ in range(num_siblings)]

    def add(
        self, parents: Sequence[int], log_probs: Sequence[float], accepted: Sequence[int]
    ) -> None:
        """One verified tree: the children of the root and of every accepted node are evidence."""
        path = (0, *accepted)
        families: dict[int, list[int]] = {node: [] for node in path}
        for node, parent in enumerate(parents):
            if parent in families:
                families[parent].append(node)
        taken = set(accepted)
        for depth, node in enumerate(path[: len(self._reached)]):
            children = sorted(families[node], key=lambda child: -log_probs[child])
            if not children:
                continue
            self._reached[depth] += 1
            self._predicted[depth] += sum(math.exp(log_probs[child]) for child in children)
            hit = next((rank for rank, child in enumerate(children) if child in taken), None)
            if hit is not None:
                self._accepted[depth] += 1
                self._ranks[min(hit, len(self._ranks) - 1)][depth] += 1

    def factors(self) -> list[float]:
        """Accepted over predicted at every depth, drawn towards the whole run's ratio, and that
        towards 1."""
        return _drawn(self._accepted, self._predicted, 1.0)

    def hit_rates(self) -> list[float]:
        """The chance that one of the drafted children is accepted if their parent is, at every
        depth; drawn towards the whole run's, and that towards the prior."""
        return _drawn(self._accepted, self._reached, PRIOR_SIBLINGS[0])

    def acceptance(self) -> list[list[float]]:
        """``[depth - 1][rank]``: acceptance of the likeliest child, the second, ... at every
        depth, for :func:`confu_demo.decoding.tree_plan.plan_shape`."""
        by_rank = [
            _drawn(counts, self._reached, prior)
            for counts, prior in zip(self._ranks, PRIOR_SIBLINGS, strict=False)
        ]
        return [list(ranks) for ranks in zip(*by_rank, strict=True)]


def expected_tokens(
    parents: Sequence[int], log_probs: Sequence[float], factors: Sequence[float]
) -> float:
    """What a tree should bring: the chances of all its nodes, the root's own token as 1."""
    depths, chances = [-1], [1.0]
    for parent, log_prob in zip(parents[1:], log_probs[1:], strict=True):
        depth = depths[parent] + 1
        factor = factors[min(depth, len(factors) - 1)]
        depths.append(depth)
        chances.append(chances[parent] * min(1.0, math.exp(log_prob) * factor))
    return sum(chances)


def _drawn(hits: Sequence[float], trials: Sequence[float], prior: float) -> list[float]:
    weight = _PRIOR_WEIGHT
    overall = (weight * prior + sum(hits)) / (weight + sum(trials))
    return [
        (weight * overall + hit) / (weight + trial) for hit, trial in zip(hits, trials, strict=True)
    ]
