"""Whether what ConFu's f foresees comes true, recomputed from the events.

Owns the definition that the page shows. A foreseen token comes true when it is committed within
:data:`NEAR` tokens of its cycle's first. Frequent tokens do so by luck; therefore the same tokens
are also looked for at other places of the same text. All of it is our choice [O].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from confu_demo.trace import DraftProposed, Event, RunFinished, TokensCommitted

NEAR = 16
SHIFTS = (0.25, 0.5, 0.75)
"""Where "another place" is: so many counted cycles further, in shares of all of them, round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """``num_cycles`` whose next :data:`NEAR` tokens are known (or the run has ended);
    ``num_true`` of them in which the likeliest foreseen token came true; ``chance`` the share of
    tries at other places, at least :data:`NEAR` tokens away, in which it would have."""

    num_cycles: int
    num_true: int
    chance: float | None


@dataclass(frozen=True, slots=True)
class _Cycle:
    first: int  # how many tokens were committed before it
    token_id: int


def foresight(events: Iterable[Event]) -> Foresight:
    """Of a run or of its beginning. Cycles that foresee nothing are left out."""
    token_ids: list[int] = []
    cycles: list[_Cycle] = []
    finished = False
    for event in events:
        if isinstance(event, TokensCommitted):
            token_ids.extend(event.token_ids)
        elif isinstance(event, RunFinished):
            finished = True
        elif isinstance(event, DraftProposed) and event.contemplation is not None:
            foreseen = event.contemplation.foreseen
            if foreseen:
                cycles.append(_Cycle(len(token_ids), foreseen[0].token_id))
    known = [c for c in cycles if finished or len(token_ids) - c.first >= NEAR]
    return Foresight(
        num_cycles=len(known),
        num_true=sum(_comes(cycle.token_id, cycle.first, token_ids) for cycle in known),
        chance=_chance(known, token_ids),
    )


def _chance(cycles: Sequence[_Cycle], token_ids: Sequence[int]) -> float | None:
    tries: list[bool] = []
    for index, cycle in enumerate(cycles):
        for shift in SHIFTS:
            other = cycles[(index + int(shift * len(cycles))) % len(cycles)]
            if abs(other.first - cycle.first) >= NEAR:
                tries.append(_comes(cycle.token_id, other.first, token_ids))
    return sum(tries) / len(tries) if tries else None


def _comes(token_id: int, first: int, token_ids: Sequence[int]) -> bool:
    return token_id in token_ids[first : first + NEAR]
