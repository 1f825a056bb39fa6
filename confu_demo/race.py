"""The race: several decoders on one device, side by side, without falsifying each other's times.

Methods that run at the same time on one device slow each other down; run one after another they
cannot be watched side by side. So lanes take turns: each has its own clock that runs only while
that lane computes, and the next slice goes to the lane whose clock is furthest behind. All lanes
advance at their true relative speeds, and every lane's own time stays exclusive (our own design,
architecture.md). A slice lasts until the lane's next event. A lane that fails ends with an error
of one sentence and the others go on.

Knows no model and no file: lanes come in, pairs of lane name and event go out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from confu_demo.config import DecodeConfig, flatten
from confu_demo.decoding.base import Clock, Decoder, DecodeRequest, LaneClock, Stop
from confu_demo.metrics import RunTally
from confu_demo.trace import (
    SCHEMA_VERSION,
    DraftVerified,
    Event,
    FinishReason,
    Provenance,
    RunFinished,
    RunStarted,
)

_LOG = logging.getLogger(__name__)
_MAX_MESSAGE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One runner of a race. Names are unique within a race."""

    name: str
    decoder: Decoder
    request: DecodeRequest


def race(
    lanes: Sequence[Lane],
    config: DecodeConfig,
    stop: Stop = lambda: False,
    *,
    new_clock: Callable[[], Clock] = LaneClock,
    provenance: Provenance | None = None,
) -> Iterator[tuple[str, Event]]:
    """Yields ``(lane name, event)`` as they happen, each lane's own events in order.

    Every lane ends with a ``RunFinished``. Once ``stop`` is true each lane ends as ``cancelled``
    at the end of its current cycle. ``provenance`` is written into every ``RunStarted``.
    Closing the iterator closes every lane, which frees its caches. Raises ``ValueError`` at once
    for two lanes of the same name.
    """
    names = [lane.name for lane in lanes]
    if len(set(names)) != len(names):
        raise ValueError(f"every lane of a race needs its own name, not {', '.join(names)}")
    return _take_turns([_Run(lane, config, new_clock(), stop, provenance) for lane in lanes])


def _take_turns(runs: list[_Run]) -> Iterator[tuple[str, Event]]:
    waiting = list(runs)
    try:
        while waiting:
            # Of lanes that are equally far behind, the first one of the list.
            run = min(waiting, key=lambda candidate: candidate.t_ms)
            event = run.next_event()
            if isinstance(event, RunFinished):
                run.close()
                waiting.remove(run)
            yield run.lane.name, event
    finally:
        for run in waiting:
            run.close()


class _Run:
    """One lane while it runs. ``t_ms`` is where its clock stood after its last event."""

    def __init__(
        self,
        lane: Lane,
        config: DecodeConfig,
        clock: Clock,
        stop: Stop,
        provenance: Provenance | None,
    ) -> None:
        self.lane = lane
        self.t_ms = 0.0
        self._config, self._clock, self._stop = config, clock, stop
        self._provenance = provenance
        self._events: Iterator[Event] | None = None
        self._tally = RunTally()
        self._forwards = self._tokens = 0
        self._ending: tuple[FinishReason, str] | None = None  # if the decoder does not end itself

    def next_event(self) -> Event:
        """The decoder's next event; after a failure, what makes the run complete."""
        if self._events is None and self._stop():
            self._ending = ("cancelled", "")
        event = self._closing_event(*self._ending) if self._ending else self._decode()
        if isinstance(event, RunStarted) and self._provenance is not None:
            event = replace(event, provenance=self._provenance)
        if isinstance(event, DraftVerified):
            self._forwards += 1
            self._tokens += event.num_target_tokens
        self._tally.add(event)
        self.t_ms = self._clock.now()
        return event

    def close(self) -> None:
        close = getattr(self._events, "close", None)
        if close is not None:
            close()

    def _decode(self) -> Event:
        lane = self.lane
        try:
            if self._events is None:
                self._events = lane.decoder.decode(
                    lane.request, self._config, self._clock, self._stop
                )
            return next(self._events)
        except StopIteration:
            message = f"{lane.name} ended without saying how"
        except Exception as error:  # whatever it is, the other lanes must not suffer
            _LOG.info("lane %s failed", lane.name, exc_info=True)
            message = one_sentence(error)
        self._clock.pause()
        self._ending = ("error", message)
        return self._closing_event("error", message)

    def _closing_event(self, reason: FinishReason, message: str) -> Event:
        """``RunStarted`` if the lane never said so itself, then the end. Counts are what its
        events tell: forwards of a cycle that was not finished are not in them."""
        now = self._tally.metrics()
        if not now.method:
            return self._started()
        t_ms = self._clock.now()
        return RunFinished(
            t_ms=t_ms,
            reason=reason,
            message=message,
            num_tokens=now.num_tokens,
            target_forwards=self._forwards,
            target_tokens=self._tokens,
            draft_forwards=0,
            prefill_ms=now.prefill_ms,
            draft_ms=now.draft_ms,
            verify_ms=now.verify_ms,
            other_ms=t_ms - now.prefill_ms - now.draft_ms - now.verify_ms,
        )

    def _started(self) -> RunStarted:
        request = self.lane.request
        return RunStarted(
            t_ms=self._clock.now(),
            schema_version=SCHEMA_VERSION,
            method=self.lane.decoder.method,
            config=flatten(self._config),
            models=(),
            prompt_token_ids=request.token_ids,
            prompt_text=request.text,
            seed=self._config.sampling.seed,
        )


def one_sentence(error: BaseException) -> str:
    """An exception for people: its first line, with its type where that says more."""
    lines = str(error).strip().splitlines()
    first = lines[0][:_MAX_MESSAGE] if lines else ""
    if isinstance(error, (ValueError, OSError)) and first:
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
