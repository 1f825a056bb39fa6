"""Where the milliseconds of a decoding cycle go, part by part.

While a run is profiled, the functions of :data:`PARTS` carry stopwatches that stop each other, so
every millisecond belongs to the innermost part alone; what no part claims is "other". Prefill and
the first token are not counted. The stopwatches cost something themselves, so every problem is
also run without them, and the table says by how much the two differ. Nothing stays in the hot loop.
"""

from __future__ import annotations

import inspect
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch

from confu_demo.config import DecodeConfig
from confu_demo.data.prompts import find_prompt
from confu_demo.decoding import (
    auto_growth,
    autoregressive,
    confu,
    contemplation,
    draft_tree,
    drafting,
    eagle3,
    growth,
    host_pool,
    packed_head,
    prompt_lookup,
    run,
)
from confu_demo.decoding.base import DecodeRequest
from confu_demo.engine import cache
from confu_demo.engine.device import synchronise
from confu_demo.engine.target import LeanModel
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.trace import Event, RunFinished, TokensCommitted

FORWARDS = ("target forward", "draft layer", "draft vocabulary")
"""The parts that are model forwards; "draft vocabulary": output head, softmax and top-k."""
OTHER = "other"
OFF_CLOCK = "off the clock"
"""What f foresees is computed for display while the run's clock stands still."""
_GROWTHS = ("weigh", "width", "num_nodes", "num_con", "learn")
_POOL = ("expand", "narrow", "tree")
_LOOKS = ("frontier_scores", "ranked_scores", "is_settled")
_CONTEMPLATION = ("verify_forward", "future_input", "follow")
_EVENTS = ("started", "prefilled", "cut", "commit", "count_verify", "end_cycle", "finished")

PARTS: dict[str, list[tuple[Any, str]]] = {
    "target forward": [(LeanModel, "forward")],
    "draft layer": [(packed_head.PackedHead, name) for name in ("fuse", "project", "finish")],
    "draft vocabulary": [(packed_head.PackedHead, "best_children")],
    "drafter's rows": [(drafting.Drafter, name) for name in ("_add_rows", "_tree_rows")],
    "tree": [
        (drafting.Drafter, "propose"),
        *((draft_tree.CandidatePool, name) for name in _POOL),
        *((host_pool.HostPool, name) for name in (*_POOL, *_LOOKS)),
    ],
    "tree planning": [
        *((growth.FixedGrowth, name) for name in _GROWTHS),
        *((auto_growth.AutoGrowth, name) for name in _GROWTHS),
    ],
    "masks": [(module, "verify_mask") for module in (eagle3, contemplation, prompt_lookup)],
    "contemplation": [(contemplation.Contemplator, name) for name in _CONTEMPLATION],
    OFF_CLOCK: [(contemplation.Contemplator, "describe")],
    "lookup": [(prompt_lookup.NgramIndex, name) for name in ("extend", "continuation")],
    "acceptance": [
        *((module, "verify") for module in (eagle3, confu, prompt_lookup)),
        *((module, "sample") for module in (autoregressive, eagle3, confu, prompt_lookup)),
    ],
    "cache": [(cache.KVCache, name) for name in ("keep", "rollback")],
    "events": [(run.Run, name) for name in _EVENTS],
}
"""What is timed, by part: (owner, attribute) of every function [O]."""


class PartClock:
    """Exclusive milliseconds by part. ``enter`` and ``leave`` must come in pairs."""

    def __init__(self, synchronised: Callable[[], None] = lambda: None) -> None:
        self.ms: dict[str, float] = defaultdict(float)
        self._synchronised = synchronised
        self._open: list[str] = []
        self._since = 0.0

    def enter(self, part: str) -> None:
        self._charge()
        self._open.append(part)

    def leave(self) -> None:
        self._charge()
        self._open.pop()

    def reset(self) -> None:
        """Forgets what was measured, whatever is open."""
        self._charge()
        self.ms.clear()

    def _charge(self) -> None:
        self._synchronised()
        now = time.perf_counter()
        if self._open:
            self.ms[self._open[-1]] += 1e3 * (now - self._since)
        self._since = now


@contextmanager
def timed_parts(clock: PartClock) -> Iterator[None]:
    """Puts stopwatches around all of :data:`PARTS`, and takes them off again."""
    before = [
        (owner, name, owner.__dict__[name]) for named in PARTS.values() for owner, name in named
    ]
    for part, named in PARTS.items():
        for owner, name in named:
            setattr(owner, name, _timed(owner.__dict__[name], part, clock))
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def _timed(function: Any, part: str, clock: PartClock) -> Any:
    if isinstance(function, property):
        return property(_timed(function.fget, part, clock))
    if inspect.isgeneratorfunction(function):
        return _timed_generator(function, part, clock)

    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        clock.enter(part)
        try:
            return function(*args, **kwargs)
        finally:
            clock.leave()

    return timed


def _timed_generator(
    function: Callable[..., Any], part: str, clock: PartClock
) -> Callable[..., Any]:
    """Only the time inside the generator counts, not that of whoever asks it."""

    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Iterator[Any]:
        items = function(*args, **kwargs)
        while True:
            clock.enter(part)
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                clock.leave()
            yield item

    return timed


@dataclass(frozen=True, slots=True)
class Profile:
    """A method's milliseconds a cycle by part, medians over the runs; ``plain_ms``: the whole
    cycle by the run's own clock, without stopwatches; ``cycles`` and ``copies`` (to the host) of
    all runs together. A cycle of plain decoding is a token."""

    parts: dict[str, float]
    plain_ms: float
    cycles: int
    copies: int
    runs: int

    @property
    def total_ms(self) -> float:
        return sum(self.parts.values())

    @property
    def outside_share(self) -> float:
        """Share of the cycle that is not a model forward."""
        inside = sum(self.parts.get(part, 0.0) for part in FORWARDS)
        return 1.0 - inside / self.total_ms if self.total_ms else 0.0


@dataclass(slots=True)
class _Runs:
    parts: list[dict[str, float]] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    cycles: int = 0
    copies: int = 0


def profile(
    suite: LoadedSuite,
    methods: Sequence[str],
    split: str,
    indices: Iterable[int],
    config: DecodeConfig,
    progress: Callable[[int], None] = lambda index: None,
) -> dict[str, Profile]:
    """Every method on every prompt, without stopwatches and with them, in turn. The decoders must
    be warm. Raises what the decoders raise for a request that does not fit."""
    found = {method: _Runs() for method in methods}
    for index in indices:
        request = suite.request(find_prompt(suite.suite.name, split, index).text)
        fitting = suite.fit(config, request, methods, may_shorten=True)
        suite.use_threads()
        for method in methods:
            _add(found[method], suite, method, request, fitting)
        progress(index)
    return {method: _median(runs) for method, runs in found.items()}


def _add(
    runs: _Runs, suite: LoadedSuite, method: str, request: DecodeRequest, config: DecodeConfig
) -> None:
    plain_ms, cycles = 0.0, -1  # the first commit is the prefill's own token
    for event in _events(suite, method, request, config):
        cycles += isinstance(event, TokensCommitted)
        if isinstance(event, RunFinished):
            plain_ms = event.t_ms - event.prefill_ms
    if cycles < 1:
        return
    clock = PartClock(synchronise(suite.model.device))
    with timed_parts(clock), counted_copies() as copies:
        _run_timed(_events(suite, method, request, config), clock, copies)
    clock.ms.pop(OFF_CLOCK, None)
    runs.plain.append(plain_ms / cycles)
    runs.parts.append({part: ms / cycles for part, ms in clock.ms.items()})
    runs.cycles += cycles
    runs.copies += copies.count


def _events(
    suite: LoadedSuite, method: str, request: DecodeRequest, config: DecodeConfig
) -> Iterator[Event]:
    return suite.decoder(method).decode(request, config, suite.new_clock(), lambda: False)


def _run_timed(events: Iterator[Event], clock: PartClock, copies: Copies) -> None:
    """From the first token on, so that the prefill is left out."""
    begun = False
    while True:
        clock.enter(OTHER)
        event = next(events, None)
        clock.leave()
        if event is None:
            return
        if isinstance(event, TokensCommitted) and not begun:
            begun, copies.count = True, 0
            clock.reset()


@dataclass(slots=True)
class Copies:
    """How often values of tensors were brought to Python."""

    count: int = 0


_COPYING = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__")


@contextmanager
def counted_copies() -> Iterator[Copies]:
    """Counts ``tolist``, ``item`` and the like inside the block."""
    copies = Copies()

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            copies.count += 1
            return function(*args, **kwargs)

        return counted

    before = {name: torch.Tensor.__dict__.get(name) for name in _COPYING}
    for name in _COPYING:
        setattr(torch.Tensor, name, counting(getattr(torch.Tensor, name)))
    try:
        yield copies
    finally:
        for name, function in before.items():
            if function is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, function)


def _median(runs: _Runs) -> Profile:
    named = {part for parts in runs.parts for part in parts}
    order = [*PARTS, OTHER]
    parts = {
        part: statistics.median(found.get(part, 0.0) for found in runs.parts)
        for part in order
        if part in named
    }
    plain = statistics.median(runs.plain) if runs.plain else 0.0
    return Profile(parts, plain, runs.cycles, runs.copies, len(runs.parts))


def table_rows(profiles: dict[str, Profile]) -> list[tuple[str, ...]]:
    """A row a part, a column a method: ``ms (share)``; then what is no forward, the cycle with
    and without stopwatches, and how often Python reads a tensor in it: each is a copy on an
    accelerator, where the automatic tree therefore does not look; on a CPU it is free."""
    known = [p for p in (*PARTS, OTHER) if any(p in found.parts for found in profiles.values())]

    def cell(found: Profile, part: str) -> str:
        ms = found.parts.get(part)
        return "-" if ms is None else f"{ms:.2f} ({ms / found.total_ms:.1%})"

    columns = profiles.values()
    rows = [(part, *(cell(found, part) for found in columns)) for part in known]
    rows.append(("not a forward", *(f"{found.outside_share:.1%}" for found in columns)))
    rows.append(("cycle, stopwatches on", *(f"{found.total_ms:.2f}" for found in columns)))
    rows.append(("cycle, stopwatches off", *(f"{found.plain_ms:.2f}" for found in columns)))
    rows.append(
        (
            "tensor reads by Python",
            *(f"{f.copies / f.cycles:.1f}" if f.cycles else "-" for f in columns),
        )
    )
    return rows
