"""Where the milliseconds of a decoding cycle go, part by part.

While a run is profiled, the functions of :data:`PARTS` carry stopwatches that stop each other, so
every millisecond belongs to the innermost part alone; what no part claims is "other". Prefill and
the first token are not counted. The stopwatches cost something themselves, mostly in the small
parts, so every problem is also run without them and the table shows both cycles: a share that is
no forward is at most what the table says. Nothing stays in the hot loop.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from confu_demo.bench.part_clock import Copies, PartClock, counted_copies, timed_parts
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
from confu_demo.heads.expert_mixture import ExpertMixture
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.trace import Event, RunFinished, TokensCommitted

FORWARDS = ("target forward", "draft layer", "draft vocabulary", "mixtures")
"""The parts that are model forwards; "draft vocabulary": output head, softmax and top-k;
"mixtures": ConFu's routers and experts. The drafter's embeddings, cache and masks are not among
them, though the target's are inside its forward: the count is on the strict side."""
MOST_OUTSIDE = 0.10
"""The share of a cycle that may be no model forward: our aim for a lean loop."""
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
    "mixtures": [(ExpertMixture, "forward")],
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
        """Share of the cycle that is not a model forward, the stopwatches' own time included."""
        outside = sum(ms for part, ms in self.parts.items() if part not in FORWARDS)
        return outside / self.total_ms if self.total_ms else 0.0


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
    repeats: int = 1,
    progress: Callable[[int], None] = lambda index: None,
) -> dict[str, Profile]:
    """Every method ``repeats`` times on every prompt, without stopwatches and with them, in turn,
    so that slow drifts of the machine meet all of them alike. The decoders must be warm.
    Raises what the decoders raise for a request that does not fit."""
    found = {method: _Runs() for method in methods}
    for index in indices:
        request = suite.request(find_prompt(suite.suite.name, split, index).text)
        fitting = suite.fit(config, request, methods, may_shorten=True)
        suite.use_threads()
        for method in [method for _ in range(repeats) for method in methods]:
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

    def counts() -> bool:
        return not clock.is_inside(OFF_CLOCK)

    with timed_parts(clock, PARTS), counted_copies(counts) as copies:
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
    and without stopwatches, how many there are, and how often Python reads a tensor in one: each
    is a copy on an accelerator, where the automatic tree therefore does not look; on a CPU it is
    free."""
    known = [p for p in (*PARTS, OTHER) if any(p in found.parts for found in profiles.values())]

    def part_cell(found: Profile, part: str) -> str:
        ms = found.parts.get(part)
        return "-" if ms is None else f"{ms:.2f} ({ms / found.total_ms:.1%})"

    def per(count: int, unit: int) -> str:
        return f"{count / unit:.1f}" if unit else "-"

    found = profiles.values()
    rows = [(part, *(part_cell(of_method, part) for of_method in found)) for part in known]
    return [
        *rows,
        ("not a forward", *(f"{p.outside_share:.1%}" for p in found)),
        ("cycle, stopwatches on", *(f"{p.total_ms:.2f}" for p in found)),
        ("cycle, stopwatches off", *(f"{p.plain_ms:.2f}" for p in found)),
        ("cycles a run", *(per(p.cycles, p.runs) for p in found)),
        ("tensor reads by Python", *(per(p.copies, p.cycles) for p in found)),
    ]


def verdict_line(profiles: dict[str, Profile]) -> str:
    """Which methods keep what is no forward under :data:`MOST_OUTSIDE`, and which do not."""
    measured = {method: p.outside_share for method, p in profiles.items() if p.runs}

    def named(chosen: dict[str, float]) -> str:
        return ", ".join(f"{method} {share:.1%}" for method, share in chosen.items()) or "none"

    lean = {method: share for method, share in measured.items() if share < MOST_OUTSIDE}
    rest = {method: share for method, share in measured.items() if method not in lean}
    return f"not a forward: under {MOST_OUTSIDE:.0%} {named(lean)}; not under it {named(rest)}"
