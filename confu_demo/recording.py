"""A recording: the runs of a race by lane name, and their common clock for replay.

Pure data and pure functions: writing and reading files is :mod:`confu_demo.trace_io`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from confu_demo.trace import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The runs of a race, by lane name. ``created`` is ISO 8601 in UTC."""

    title: str
    created: str
    lanes: Mapping[str, tuple[Event, ...]]
    notes: tuple[str, ...] = ()


class PacedEvent(NamedTuple):
    """Wait ``wait_ms`` after the previous event, then show ``event`` on ``lane``."""

    wait_ms: float
    lane: str
    event: Event


def paced(recording: Recording, speed: float = 1.0) -> Iterator[PacedEvent]:
    """All lanes on one clock, in order of ``t_ms``, with the waits between events.

    ``speed`` 2 halves the waits, ``math.inf`` removes them. Sleeping is the caller's business.
    Raises ``ValueError`` unless ``speed`` is above 0.
    """
    if not speed > 0:
        raise ValueError(f"speed must be above 0, not {speed}")
    return _paced(recording, speed)


def _paced(recording: Recording, speed: float) -> Iterator[PacedEvent]:
    shown_ms = 0.0
    for t_ms, lane, event in merged(recording):
        yield PacedEvent(max(0.0, t_ms - shown_ms) / speed, lane, event)
        shown_ms = max(shown_ms, t_ms)


def merged(recording: Recording) -> Iterator[tuple[float, str, Event]]:
    """Events by time; at equal times by the order of lanes. A lane's own order always stays."""
    lanes = [
        [(event.t_ms, lane, event) for event in events] for lane, events in recording.lanes.items()
    ]
    return heapq.merge(*lanes, key=lambda entry: entry[0])
