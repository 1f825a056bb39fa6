"""Races in progress: their batches of events, their stop flags, and who may still ask for them.

A batch is ``{"run", "seq", "events": [[lane, event as JSON], ...], "done"}`` with at most
:data:`MAX_EVENTS` events; batch 0 carries ``meta`` instead of events. Gradio may drop updates, so
every batch stays here for a while and the viewer asks for what it missed.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from confu_demo.trace import Event
from confu_demo.trace_io import to_json
from confu_demo.ui.runner import RaceRequest

MAX_EVENTS = 64
MAX_SECONDS = 120.0
"""A race is stopped after this long, so that one visitor cannot keep the engine. Our choice."""
MAX_RUNS = 32

Batch = dict[str, Any]


class RaceRun:
    """One race of one visitor. Only the engine's thread adds; any thread may read or stop."""

    def __init__(
        self, request: RaceRequest, session: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.id = uuid.uuid4().hex  # cannot be guessed: it is the key to the batches
        self.request = request
        self.session = session
        self._now = now
        self._stopped = self._claimed = False
        self._deadline: float | None = None
        self._open: list[tuple[str, dict[str, Any]]] = []
        meta = {
            "prompt": request.text,
            "expected": request.expected_answer,
            "lanes": list(request.methods),
        }
        self._batches: list[Batch] = [
            {"run": self.id, "seq": 0, "meta": meta, "events": [], "done": False}
        ]

    @property
    def first(self) -> Batch:
        return self._batches[0]

    @property
    def done(self) -> bool:
        return bool(self._batches[-1]["done"])

    @property
    def timed_out(self) -> bool:
        return self._deadline is not None and self._now() > self._deadline

    def claim(self) -> bool:
        """True once: for the engine that starts this race. The time limit counts from here, so
        that waiting in the queue is free."""
        if self._claimed:
            return False
        self._claimed = True
        self._deadline = self._now() + MAX_SECONDS
        return True

    def stop(self) -> None:
        self._stopped = True

    def should_stop(self) -> bool:
        """What the engine reads every cycle."""
        return self._stopped or self.timed_out

    def add(self, lane: str, event: Event) -> None:
        self._open.append((lane, to_json(event)))
        if len(self._open) >= MAX_EVENTS:
            self.seal()

    def seal(self, *, done: bool = False) -> Batch:
        """Closes the open batch; returns the newest one. Nothing new and not done: the last."""
        if self._open or done:
            batch: Batch = {
                "run": self.id,
                "seq": len(self._batches),
                "events": [list(pair) for pair in self._open],
                "done": done,
            }
            self._open = []
            self._batches.append(batch)
        return self._batches[-1]

    def batches_from(self, seq: int) -> list[Batch]:
        return self._batches[max(0, seq) :]


class RaceDesk:
    """The last :data:`MAX_RUNS` races of all visitors, by their secret id."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, RaceRun] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, request: RaceRequest, session: str) -> RaceRun:
        """A new race; the visitor's earlier one is stopped."""
        self.stop_session(session)
        run = RaceRun(request, session)
        with self._lock:
            self._runs[run.id] = run
            while len(self._runs) > MAX_RUNS:
                _, oldest = self._runs.popitem(last=False)
                oldest.stop()
        return run

    def find(self, run_id: str | None) -> RaceRun | None:
        with self._lock:
            return self._runs.get(run_id) if run_id else None

    def stop_session(self, session: str) -> None:
        with self._lock:
            for run in self._runs.values():
                if session and run.session == session:
                    run.stop()

    def missing(self, question: object) -> list[Batch]:
        """The viewer's ``{"run", "from"}`` -> the batches that it lacks. Strange questions get
        an empty answer."""
        if not isinstance(question, dict):
            return []
        run_id, start = question.get("run"), question.get("from")
        run = self.find(run_id) if isinstance(run_id, str) else None
        return run.batches_from(start) if run is not None and isinstance(start, int) else []
