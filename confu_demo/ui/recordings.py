"""Recordings for the viewer: a file of events as one JSON object, with the expected answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from confu_demo.trace import Event, RunStarted
from confu_demo.trace_io import CorruptTrace, Recording, read_recording, to_json
from confu_demo.ui.runner import ProblemCard


class RecordingShelf:
    """The recordings that the page offers, by name. Files are read when they are first opened."""

    def __init__(self, paths: Mapping[str, Path], gallery: Sequence[ProblemCard]) -> None:
        self._paths = dict(paths)
        self._gallery = tuple(gallery)
        self._read = lru_cache(maxsize=8)(self._read_file)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def open(self, name: str) -> dict[str, Any]:
        """What the viewer loads, or ``{"error": one sentence}``."""
        if name not in self._paths:
            return {"error": f"there is no recording {name!r:.60}"}
        try:
            return self._read(name)
        except (CorruptTrace, OSError) as error:
            return {"error": str(error)}

    def _read_file(self, name: str) -> dict[str, Any]:
        race = as_race(read_recording(self._paths[name]))
        card = next((card for card in self._gallery if card.text in race["prompt"]), None)
        return race | ({"prompt": card.text, "expected": card.answer} if card else {})


def as_race(recording: Recording) -> dict[str, Any]:
    """What the viewer loads, without an expected answer."""
    return {
        "source": "recording",
        "title": recording.title,
        "created": recording.created,
        "notes": list(recording.notes),
        "prompt": _prompt(recording),
        "expected": None,
        "lanes": {lane: _as_json(events) for lane, events in recording.lanes.items()},
    }


def _as_json(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [to_json(event) for event in events]


def _prompt(recording: Recording) -> str:
    for events in recording.lanes.values():
        for event in events[:1]:
            if isinstance(event, RunStarted):
                return event.prompt_text
    return ""
