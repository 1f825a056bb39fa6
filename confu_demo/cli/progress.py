"""How far a long measurement is, on a terminal."""

from __future__ import annotations

import sys


class Progress:
    """One line on a terminal that is written over and over; nothing where stderr is a file."""

    def __init__(self, total: int, speaks: bool = True) -> None:
        self._total, self._done = total, 0
        self._speaks = speaks and sys.stderr.isatty()

    def __call__(self, index: int) -> None:
        self._done += 1
        if self._speaks:
            end = "\n" if self._done == self._total else ""
            print(f"\rproblem {self._done} of {self._total}", end=end, file=sys.stderr, flush=True)
