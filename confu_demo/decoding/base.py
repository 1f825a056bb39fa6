"""What every decoder is given, and the tools that all of them share.

A decoder is a callable ``decode(request, config, clock, stop) -> Iterator[Event]``. Its models
are bound when it is built (``registry.py``). It owns its caches, frees them in ``finally``, and
reads ``stop`` once a cycle: a set flag ends the run with reason ``cancelled``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from confu_demo.config import DecodeConfig
from confu_demo.engine.target import ForwardOutput, LeanModel
from confu_demo.engine.text import Detokenizer
from confu_demo.trace import Event, ModelInfo

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundModel:
    """A model with what decoding needs to know of it: its tokenizer, which tokens end a text,
    and the record that names it in traces. ``tokenizer`` is a transformers fast tokenizer."""

    model: LeanModel
    tokenizer: Any
    detokenizer: Detokenizer
    eos_ids: frozenset[int]
    info: ModelInfo


def features_of(out: ForwardOutput) -> Tensor:
    """The features [S, n * D] of a forward that was asked for them."""
    assert out.features is not None
    return out.features


def head_model_info(head: nn.Module, name: str) -> ModelInfo:
    """The record of a head that came without one (sha256 unknown)."""
    num = sum(parameter.numel() for parameter in head.parameters())
    return ModelInfo(role="head", name=name, sha256="", num_parameters=num)


@contextmanager
def off_clock(clock: Clock) -> Iterator[None]:
    """Stops the run's clock for work that only serves the display."""
    clock.pause()
    try:
        yield
    finally:
        clock.resume()


def on_clock(clock: Clock, events: Iterator[Event]) -> Iterator[Event]:
    """Runs ``events`` on ``clock``: the clock stands still while the consumer holds an event.

    Every decoder returns its generator through this, so none can forget to pause, to leave
    inference mode, or to close the inner generator (which frees its caches).
    """
    try:
        while True:
            clock.resume()
            with torch.inference_mode():
                event = next(events, None)
            clock.pause()
            if event is None:
                return
            yield event
    finally:
        clock.pause()
        close = getattr(events, "close", None)
        if close is not None:
            close()


class Decoder(Protocol):
    """One method bound to its models. ``lossless`` says whether greedy output must equal the
    target's own (EAGLE-3, ConFu, prompt lookup) or not (ConfSpec)."""

    method: str
    lossless: bool

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]: ...
