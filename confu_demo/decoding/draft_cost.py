"""What a cycle costs on this machine: the drafter's levels and the verify forward, measured once.

Owns the measurement of a head with its real weights beside its target, and how the result is kept
for the next start (by device, threads, dtype, weights and versions). Takes a few seconds the first
time. Tokens are dummies: no time depends on their values. Our choice throughout [O].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from confu_demo.config import SamplingConfig, TreeConfig
from confu_demo.decoding.base import BoundModel
from confu_demo.decoding.draft_tree import CandidatePool, chain
from confu_demo.decoding.drafting import Drafter
from confu_demo.decoding.growth import FixedGrowth
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.decoding.tree_plan import CycleCosts
from confu_demo.decoding.verification import verify
from confu_demo.engine.device import hardware_name, synchronise
from confu_demo.engine.forward_cost import PAST, CostCurve, measure_forward
from confu_demo.engine.sampling import PositionNoise
from confu_demo.engine.target import ForwardOutput
from confu_demo.engine.timing import median_ms
from confu_demo.engine.user_cache import recall, remember
from confu_demo.trace import ModelInfo

FORMAT = 1
"""To be raised whenever what is measured changes: older files are then measured anew."""
WIDTHS = (1, 2, 4, 8)
_LEVELS = 3  # of the timed trees
_NEW_TOKENS = 4  # committed since the draft before: about an acceptance length
_KIND = "cycle-costs"


def cycle_costs(
    target: BoundModel, head: PackedHead, info: ModelInfo, future_bias: float | None = None
) -> CycleCosts:
    """The costs of this head's cycles, from the cache or measured now."""
    key = _key(target, info)
    known = _from_json(recall(_KIND, key))
    if known is not None:
        return known
    layers = head.config.feature_layers
    costs = CycleCosts(
        verify=measure_forward(target.model, layers, after=_verification(target)),
        **_measure_draft(head, future_bias),
    )
    remember(_KIND, key, _to_json(costs))
    return costs


def _verification(target: BoundModel) -> Callable[[ForwardOutput], object]:
    """What a greedy decoder does with the logits of a tree: the same for every tree."""
    sampling = SamplingConfig()
    noise = PositionNoise(0, target.model.config.vocab_size)

    def run(out: ForwardOutput) -> object:
        tree = chain([0] * out.logits.shape[0], target.model.device)
        return verify(tree, out.logits, sampling, noise, 0)

    return run


class _Scripted(FixedGrowth):
    """Trees of ``levels`` levels that expand ``nodes`` nodes each."""

    def __init__(self, tree: TreeConfig, nodes: int, levels: int) -> None:
        super().__init__(tree, may_look=False)
        self._nodes, self._levels = nodes, levels

    def width(self, level: int, pool: CandidatePool) -> int:
        return self._nodes if level < self._levels else 0


@torch.inference_mode()
def _measure_draft(head: PackedHead, future_bias: float | None) -> dict[str, Any]:
    """``draft_ms`` and ``level`` of :class:`CycleCosts`."""
    config = head.config
    past = min(PAST, config.max_positions - _NEW_TOKENS - _LEVELS - 2)
    most = min(max(WIDTHS), config.draft_vocab_size)
    widths = [width for width in WIDTHS if width <= most]
    tree = TreeConfig(num_nodes=16, depth=_LEVELS, top_k=most)
    ids = torch.zeros(_NEW_TOKENS, dtype=torch.long, device=head.like.device)
    fused = head.like.new_zeros(_NEW_TOKENS, config.hidden_size)

    def job(nodes: int, levels: int) -> Callable[[], object]:
        growth = _Scripted(tree, nodes, levels)
        drafter = Drafter(head, past + _NEW_TOKENS, tree, future_bias, growth)

        def run() -> object:
            drafter.num_rows = past  # zeros are as good as a prefix
            return drafter.propose(ids, fused, _LEVELS + 1)

        return run

    jobs = [job(1, 0), *(job(width, _LEVELS) for width in widths)]
    start_ms, *grown = median_ms(jobs, synchronise(head.like.device), max_seconds=2.0)
    levels = [max(0.0, (ms - start_ms) / _LEVELS) for ms in grown]
    return {"draft_ms": start_ms, "level": CostCurve.monotone(widths[: len(levels)], levels)}


def _key(target: BoundModel, info: ModelInfo) -> Mapping[str, str]:
    model = target.model
    return {
        "format": str(FORMAT),
        "device": hardware_name(model.device),
        "threads": str(model.threads or torch.get_num_threads()),
        "dtype": str(model.dtype),
        "target": f"{target.info.sha256} {model.config}",
        "head": f"{info.name} {info.sha256} {info.num_parameters}",
        "torch": str(torch.__version__),
    }


def _to_json(costs: CycleCosts) -> dict[str, Any]:
    return {
        "verify": costs.verify.points,
        "draft_ms": costs.draft_ms,
        "level": costs.level.points,
    }


def _from_json(value: Any) -> CycleCosts | None:
    """None for anything that is not exactly such a value."""
    try:
        verify, level = (
            CostCurve(tuple((int(rows), float(ms)) for rows, ms in value[name]))
            for name in ("verify", "level")
        )
        draft_ms = float(value["draft_ms"])
    except (TypeError, ValueError, KeyError, OverflowError):
        return None
    is_sound = draft_ms >= 0.0 and verify.points[0][1] > 0.0
    return CycleCosts(verify=verify, draft_ms=draft_ms, level=level) if is_sound else None
