"""What a benchmark measures, checked before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from confu_demo.data.prompts import split_sizes
from confu_demo.decoding.registry import check_methods

MAX_REPEATS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """Problems ``start`` to ``start + problems - 1`` of ``split``, each raced ``repeats`` times.

    ``generate_problems`` of them are also measured with transformers' ``generate``, and
    ``check_problems`` with every method alone; 0 leaves that out.
    """

    methods: tuple[str, ...]
    suite: str = "bundled"
    split: str = "heldout"
    start: int = 0
    problems: int = 24
    repeats: int = 1
    generate_problems: int = 8
    check_problems: int = 4

    def __post_init__(self) -> None:
        check_methods(self.methods)
        sizes = split_sizes(self.suite)
        if self.split not in sizes:
            raise ValueError(f"unknown split {self.split!r}: choose one of {', '.join(sizes)}")
        size = sizes[self.split]
        if self.problems < 1:
            raise ValueError(f"problems must be 1 or more, not {self.problems}")
        if self.start < 0 or self.start + self.problems > size:
            raise ValueError(
                f"{self.split} has problems 0 to {size - 1}, not {self.start} to "
                f"{self.start + self.problems - 1}"
            )
        if not 1 <= self.repeats <= MAX_REPEATS:
            raise ValueError(f"repeats must be 1 to {MAX_REPEATS}, not {self.repeats}")
        for name in ("generate_problems", "check_problems"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name.replace('_', ' ')} must be 0 or more")

    @property
    def indices(self) -> range:
        return range(self.start, self.start + self.problems)
