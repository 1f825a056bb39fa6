"""Recorded races as pages that open from disk: the viewer without the engine or Gradio."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confu_demo.data.splits import parse_problem_name
from confu_demo.trace_io import read_recording
from confu_demo.trace_validation import validate
from confu_demo.ui.recordings import as_race
from confu_demo.ui.standalone import standalone_page

RECORDINGS = Path(__file__).resolve().parents[1] / "assets" / "recordings"
SPACE = """---
title: ConFu and ConfSpec, recorded races
emoji: 🏁
colorFrom: indigo
colorTo: green
sdk: static
app_file: index.html
license: apache-2.0
pinned: false
---

Recorded races of plain decoding, EAGLE-3, ConFu and ConfSpec. Nothing is computed here: the page
shows recordings, and no server is needed.
"""
"""The README.md of a static Space."""


def bundled_recordings() -> list[Path]:
    return sorted(RECORDINGS.glob("*.jsonl.gz"))


def page_of(files: Sequence[Path], language: str = "en") -> str:
    """One HTML page of these recordings. Raises as the reader does, and ``ValueError`` for a
    recording that breaks a promise, none at all, or an unknown language."""
    return standalone_page([race_of(path) for path in files], language)


def race_of(path: Path) -> dict[str, Any]:
    """What the viewer loads, with the expected answer where the recording names a problem."""
    recording = read_recording(path)
    for lane, events in recording.lanes.items():
        broken = validate(events)
        if broken:
            raise ValueError(f"{path.name}: lane {lane!a} breaks a promise: {broken[0]}")
    name = path.name.removesuffix(".gz").removesuffix(".jsonl").replace("_", " ")
    try:
        known = parse_problem_name(recording.title)
    except ValueError:
        return as_race(recording) | {"name": name}
    shown = {"prompt": known.text, "expected": str(known.answer)}
    return as_race(recording) | shown | {"name": name}
