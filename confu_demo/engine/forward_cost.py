"""What a forward of several rows costs on this machine: measured, not guessed.

Owns :class:`CostCurve`, milliseconds against a number of rows, and the measurement of a model's
verify forward with its real weights. Knows no head, no tree and no file; what it finds decides how
large draft trees may grow (:mod:`confu_demo.decoding.tree_plan`). All of it is our choice [O].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from confu_demo.engine.attention import causal_mask
from confu_demo.engine.cache import KVCache
from confu_demo.engine.device import synchronise
from confu_demo.engine.target import ForwardOutput, LeanModel
from confu_demo.engine.timing import median_ms

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
PAST = 200
"""Cached tokens in front of the measured rows: a prompt and half an answer."""


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Milliseconds against rows: straight between the points, level before the first, the last
    slope after the last. Rows increase from point to point and milliseconds never fall."""

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        ordered = all(low[0] < high[0] and low[1] <= high[1] for low, high in pairwise(self.points))
        if not self.points or not ordered or self.points[0][1] < 0.0:
            raise ValueError("a cost curve needs points of increasing rows and never-falling ms")

    def ms(self, rows: float) -> float:
        first, last = self.points[0], self.points[-1]
        if rows <= first[0] or len(self.points) == 1:
            return first[1]
        low, high = next(
            ((low, high) for low, high in pairwise(self.points) if rows <= high[0]),
            (self.points[-2], last),
        )
        return low[1] + (high[1] - low[1]) * (rows - low[0]) / (high[0] - low[0])

    @classmethod
    def monotone(cls, rows: Iterable[int], times: Iterable[float]) -> CostCurve:
        """The closest never-falling curve: neighbours that fall are averaged, so that one slow
        moment lifts its neighbours a little and not everything after it."""
        pools: list[tuple[float, list[int]]] = []
        for row, ms in zip(rows, times, strict=True):
            pools.append((ms, [row]))
            while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
                (before, first), (after, second) = pools[-2:]
                joined = first + second
                mean = (before * len(first) + after * len(second)) / len(joined)
                pools[-2:] = [(mean, joined)]
        return cls(tuple((row, ms) for ms, joined in pools for row in joined))


@torch.inference_mode()
def measure_forward(
    model: LeanModel,
    feature_layers: tuple[int, ...],
    rows: Sequence[int] = ROWS,
    *,
    after: Callable[[ForwardOutput], object] = lambda out: None,
    max_seconds: float = 3.0,
) -> CostCurve:
    """The cost of verifying that many rows after :data:`PAST` cached tokens.

    ``after`` is what a decoder does with the output before the next step, timed as well. A model
    that is too slow for all ``rows`` within ``max_seconds`` gets the points that it reached.
    """
    rows = [row for row in rows if PAST + row <= model.config.max_positions] or [1]
    past = min(PAST, model.config.max_positions - rows[-1])
    cache = model.new_cache(past + rows[-1])

    def job(num_rows: int) -> Callable[[], object]:
        ids = torch.zeros(num_rows, dtype=torch.long, device=model.device)
        mask = causal_mask(num_rows, past, model.device)
        return lambda: after(_forward(model, cache, ids, mask, feature_layers))

    def rewound(work: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            cache.length = past  # zeros are as good as a prefix
            return work()

        return run

    times = median_ms(
        [rewound(job(row)) for row in rows], synchronise(model.device), max_seconds=max_seconds
    )
    return CostCurve.monotone(rows[: len(times)], times)


def _forward(
    model: LeanModel, cache: KVCache, ids: Tensor, mask: Tensor, layers: tuple[int, ...]
) -> ForwardOutput:
    past = mask.shape[1] - mask.shape[0]
    positions = past + torch.arange(ids.shape[0], device=model.device)
    return model.forward(
        cache, token_ids=ids, positions=positions, mask=mask, feature_layers=layers
    )
