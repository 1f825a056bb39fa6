"""What the drafter costs on this machine: its start of a cycle, and one level of a tree.

Owns the pieces of work that a head is measured by, with its real weights. Tokens are dummies: no
time depends on their values. Who runs them is :mod:`confu_demo.decoding.cycle_costs`. Our choice
throughout [O].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from confu_demo.config import TreeConfig
from confu_demo.decoding.drafting import Drafter, FutureInput
from confu_demo.decoding.growth import FixedGrowth, Pool
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.engine.forward_cost import PAST, CostCurve

WIDTHS = (1, 2, 4, 8)
_LEVELS = 5  # of the timed trees
_NEW_TOKENS = 4  # committed since the draft before: about an acceptance length


@dataclass(frozen=True, slots=True)
class DraftCost:
    """Milliseconds: ``start_ms`` of a draft without levels (new rows, the root's children, the
    tree), ``level`` of one more level against the nodes that it expands."""

    start_ms: float
    level: CostCurve

    @classmethod
    def of(cls, times: Sequence[float]) -> DraftCost:
        """From the times of :func:`draft_jobs`, or of the first two or more of them."""
        start_ms, *grown = times
        levels = [max(0.0, (ms - start_ms) / _LEVELS) for ms in grown]
        return cls(start_ms, CostCurve.monotone(WIDTHS[: len(levels)], levels))


class _Scripted(FixedGrowth):
    """Trees of ``levels`` levels that expand ``nodes`` nodes each."""

    def __init__(self, tree: TreeConfig, nodes: int, levels: int, *, may_look: bool) -> None:
        super().__init__(tree, may_look=may_look)
        self._nodes, self._levels = nodes, levels

    def width(self, level: int, pool: Pool) -> int:
        return self._nodes if level < self._levels else 0


def draft_jobs(
    head: PackedHead,
    future_bias: float | None,
    future: Callable[[], FutureInput] | None = None,
) -> list[Callable[[], object]]:
    """A draft without levels, then drafts of a few levels for every width of :data:`WIDTHS`
    that the draft vocabulary allows."""
    config = head.config
    widths = [width for width in WIDTHS if width <= config.draft_vocab_size]
    past = min(PAST, config.max_positions - _NEW_TOKENS - _LEVELS - 2)
    tree = TreeConfig(num_nodes=16, depth=_LEVELS, top_k=max(widths))
    ids = torch.zeros(_NEW_TOKENS, dtype=torch.long, device=head.like.device)
    fused = head.like.new_zeros(_NEW_TOKENS, config.hidden_size)

    def job(nodes: int, levels: int) -> Callable[[], object]:
        growth = _Scripted(tree, nodes, levels, may_look=head.like.device.type == "cpu")
        drafter = Drafter(head, past + _NEW_TOKENS, tree, future_bias, growth)

        def run() -> object:
            drafter.num_rows = past  # zeros are as good as a prefix
            return drafter.propose(ids, fused, _LEVELS + 1, future() if future else None)

        return run

    return [job(1, 0), *(job(width, _LEVELS) for width in widths)]
