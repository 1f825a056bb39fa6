"""What a forward of several rows costs on this machine: measured, not guessed.

Owns :class:`CostCurve`, milliseconds against a number of rows, and the pieces of work that a
model's verify forward is measured by, with its real weights. Knows no head, no tree and no file;
what is found decides how large draft trees may grow (:mod:`confu_demo.decoding.tree_plan`). All of
it is our choice [O].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from confu_demo.engine.attention import causal_mask
from confu_demo.engine.cache import KVCache
from confu_demo.engine.target import ForwardOutput, LeanModel

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
        finite = all(math.isfinite(ms) for _, ms in self.points)
        if not self.points or not ordered or not finite or self.points[0][1] < 0.0:
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

    def table(self, most: int) -> list[float]:
        """Milliseconds of 0 to ``most`` rows; none cost nothing."""
        return [0.0, *(self.ms(rows) for rows in range(1, most + 1))]

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


def forward_jobs(
    model: LeanModel,
    feature_layers: tuple[int, ...],
    rows: Sequence[int] = ROWS,
    after: Callable[[KVCache, ForwardOutput], object] = lambda cache, out: None,
) -> list[Callable[[], object]]:
    """For every number of rows, a function that runs a masked forward of so many after
    :data:`PAST` cached tokens, and then ``after``, a decoder's work between two forwards.

    Raises ``ValueError`` where the model's context has no room for them.
    """
    past = min(PAST, model.config.max_positions - max(rows))
    if past < 0:
        raise ValueError(f"a context of {model.config.max_positions} tokens holds no {max(rows)}")
    cache = model.new_cache(past + max(rows))

    def job(num_rows: int) -> Callable[[], object]:
        ids = torch.zeros(num_rows, dtype=torch.long, device=model.device)
        steps = torch.arange(num_rows, device=model.device)

        def run() -> object:
            cache.length = past  # zeros are as good as a prefix
            out = model.forward(
                cache,
                token_ids=ids,
                positions=past + steps,
                mask=causal_mask(num_rows, past, model.device),
                feature_layers=feature_layers,
            )
            return after(cache, out)

        return run

    return [job(num_rows) for num_rows in rows]
