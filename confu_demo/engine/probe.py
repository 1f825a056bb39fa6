"""Which dtype and how many threads are fastest for a model on this CPU: measured, not guessed.

A copy of the model's shape with constant weights answers: time does not depend on values. Shapes
beyond the budget are measured on fewer layers and scaled, still larger than a cache. bfloat16 has
to win clearly, because float32 is what losslessness is checked in.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from confu_demo.engine.device import cpu_threads
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.packed import pays
from confu_demo.engine.target import LeanModel
from confu_demo.engine.weights import num_parameters_of, weight_shapes

_PAST = 128  # cached tokens in front of the measured one
_REPEATS = 7
_SEVERAL = 8  # rows of a small draft tree
_MAX_PARAMETERS = 25_000_000  # 100 MB in float32
_CLEARLY = 0.9  # a challenger must need less than this part of the time
_MAX_SECONDS = 0.2  # a row that takes longer ends with the repeats it has


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """Milliseconds of a single-token forward, the median of several; ``several_ms``: of a
    forward over ``_SEVERAL`` rows, 0 where it was not measured."""

    dtype: torch.dtype
    threads: int
    ms: float
    several_ms: float = 0.0

    @property
    def cost(self) -> float:
        """What the choice minimises: the plain loop and a verification count alike [O]."""
        return self.ms + self.several_ms


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The choice, and everything that was measured for it (empty where nothing had to be).

    ``single_threads``: for forwards over one row, which gain least by threads and are all that
    plain decoding does."""

    dtype: torch.dtype
    threads: int
    table: tuple[ProbeRow, ...]
    single_threads: int


@functools.lru_cache(maxsize=32)
def probe_settings(
    config: ModelConfig,
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16),
    thread_counts: tuple[int, ...] | None = None,
) -> ProbeResult:
    """The fastest (dtype, threads) for single-token forwards of this shape on the CPU.

    First the dtypes at the fewest threads, then the thread counts in the winner. Remembered for
    the life of the process.
    """
    counts = thread_counts or candidate_threads()
    if len(dtypes) == 1 and len(counts) == 1:
        return ProbeResult(dtypes[0], counts[0], (), counts[0])
    with cpu_threads(counts[0]):
        rows = _measure(config, dtypes, counts)
    best = _choose(rows, lambda row: row.cost)
    single = _choose([row for row in rows if row.dtype == best.dtype], lambda row: row.ms)
    return ProbeResult(best.dtype, best.threads, tuple(rows), single.threads)


def candidate_threads() -> tuple[int, ...]:
    """1, 2, 4, ... up to the cores this process may use (and OMP_NUM_THREADS, if set)."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        cores = min(cores, int(limit))
    powers = [1 << bit for bit in range(cores.bit_length()) if 1 << bit < cores]
    return (*powers, cores)


def _measure(
    config: ModelConfig, dtypes: Sequence[torch.dtype], counts: Sequence[int]
) -> list[ProbeRow]:
    shape, factor = _affordable(config)
    weights = {name: torch.full(size, 0.01) for name, size in weight_shapes(shape).items()}
    models = {dtype: LeanModel(shape, weights, "cpu", dtype) for dtype in dtypes}
    # Several rows gain most by threads, and only where the weights do not fit the caches.
    several = pays(num_parameters_of(config))

    def row(dtype: torch.dtype, threads: int) -> ProbeRow:
        model = models[dtype]
        several_ms = factor * _rows_ms(model, threads, _SEVERAL) if several else 0.0
        return ProbeRow(dtype, threads, factor * _rows_ms(model, threads, 1), several_ms)

    rows = [row(dtype, counts[0]) for dtype in models]
    winner = _choose(rows, lambda row: row.cost).dtype
    rows += [row(winner, threads) for threads in counts[1:]]
    return rows


def _rows_ms(model: LeanModel, threads: int, num_rows: int) -> float:
    """Median milliseconds of a forward over ``num_rows`` after ``_PAST`` tokens."""
    model.threads = threads
    cache = model.new_cache(_PAST + num_rows)
    token = torch.zeros(num_rows, dtype=torch.long)
    cache.length = _PAST  # zeros are as good as a prefix
    times: list[float] = []
    while len(times) <= _REPEATS and sum(times) < _MAX_SECONDS:
        cache.rollback(_PAST)
        start = time.perf_counter()
        model.forward(cache, token_ids=token)
        times.append(time.perf_counter() - start)
    # The first one also made buffers and threads; it counts only where it took all the time.
    return statistics.median(times[1:] or times) * 1e3


def _choose(rows: Sequence[ProbeRow], cost: Callable[[ProbeRow], float]) -> ProbeRow:
    """The first row that no later one beats clearly: earlier rows are the plainer settings."""
    best = rows[0]
    for row in rows[1:]:
        if cost(row) < cost(best) * _CLEARLY:
            best = row
    return best


def _affordable(config: ModelConfig) -> tuple[ModelConfig, float]:
    """(the shape or a part of it, time of the whole / time of the part)."""
    total = num_parameters_of(config)
    if total <= _MAX_PARAMETERS:
        return config, 1.0
    a_layer = num_parameters_of(replace(config, num_layers=1)) - num_parameters_of(
        replace(config, num_layers=0)
    )
    layers = max(1, min(config.num_layers, _MAX_PARAMETERS // a_layer))
    # The vocabulary costs the same in every setting; a small one keeps the probe short.
    part = replace(config, num_layers=layers, vocab_size=min(config.vocab_size, 1024))
    return part, total / num_parameters_of(part)
