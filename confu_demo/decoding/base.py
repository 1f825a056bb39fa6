"""What every decoder is given, and the tools that all of them share.

A decoder is a callable ``decode(request, config, clock, stop) -> Iterator[Event]``. Its models
are bound when it is built (``registry.py``). It owns its caches, frees them in ``finally``, and
reads ``stop`` once a cycle: a set flag ends the run with reason ``cancelled``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from confu_demo.config import DecodeConfig
from confu_demo.trace import Event

Stop = Callable[[], bool]
"""Returns True when the run should end; called once a cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRequest:
    """One prompt. ``token_ids`` is the whole prompt as the target reads it, BOS included."""

    token_ids: tuple[int, ...]
    text: str


class Clock(Protocol):
    """A run's own clock in milliseconds. It runs only between ``resume`` and ``pause``, so a
    lane of a race is charged only for its own work; ``now`` synchronises the device first."""

    def now(self) -> float: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class LaneClock:
    """The ordinary clock: monotonic, paused while other lanes compute or an event is consumed."""

    def __init__(self, synchronise: Callable[[], None] = lambda: None) -> None:
        self._synchronise = synchronise
        self._elapsed = 0.0
        self._since: float | None = None

    def now(self) -> float:
        self._synchronise()
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return (self._elapsed + running) * 1e3

    def pause(self) -> None:
        if self._since is not None:
            self._synchronise()
            self._elapsed += time.perf_counter() - self._since
            self._since = None

    def resume(self) -> None:
        if self._since is None:
            self._synchronise()
            self._since = time.perf_counter()


class Decoder(Protocol):
    """One method bound to its models. ``lossless`` says whether greedy output must equal the
    target's own (EAGLE-3, ConFu, prompt lookup) or not (ConfSpec)."""

    method: str
    lossless: bool

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]: ...
