"""How ConFu's two mixtures use their experts, recomputed from the events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from confu_demo.trace import DraftProposed, Event


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureUsage:
    """One mixture over a run. ``mean_weights[e]`` is expert e's mean weight over the cycles,
    ``chosen[e]`` the share of cycles in which it had any; ``mean_entropy`` is that of a cycle's
    weights in bits (0: always one expert; log2 of the number of experts: no choice at all)."""

    num_cycles: int
    mean_weights: tuple[float, ...]
    chosen: tuple[float, ...]
    mean_entropy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterUsage:
    """The [con] and the [f] mixture; None for one that never ran."""

    con: MixtureUsage | None
    future: MixtureUsage | None


def router_usage(events: Iterable[Event]) -> RouterUsage | None:
    """None for a run without contemplation. Cycles without router weights are left out."""
    found = [
        event.contemplation
        for event in events
        if isinstance(event, DraftProposed) and event.contemplation is not None
    ]
    if not found:
        return None
    return RouterUsage(
        con=_usage([entry.con_router for entry in found]),
        future=_usage([entry.future_router for entry in found]),
    )


def entropy_bits(weights: Sequence[float]) -> float:
    """Entropy in bits of non-negative weights, scaled to sum to 1; 0 if all are zero."""
    total = sum(weights)
    if total <= 0:
        return 0.0
    shares = [weight / total for weight in weights if weight > 0]
    return max(0.0, -sum(share * math.log2(share) for share in shares))


def _usage(cycles: Sequence[tuple[float, ...]]) -> MixtureUsage | None:
    used = [weights for weights in cycles if any(weight > 0 for weight in weights)]
    if not used:
        return None
    columns = list(zip_longest(*used, fillvalue=0.0))
    return MixtureUsage(
        num_cycles=len(used),
        mean_weights=tuple(sum(column) / len(used) for column in columns),
        chosen=tuple(sum(weight > 0 for weight in column) / len(used) for column in columns),
        mean_entropy=sum(entropy_bits(weights) for weights in used) / len(used),
    )
