"""Stopwatches that are put around functions for a while, and a count of copies to the host.

Knows nothing of decoding: which functions belong to which part is the caller's business. Inside
the blocks every call costs a little more; after them everything is as it was before.
"""

from __future__ import annotations

import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch

Parts = Mapping[str, Sequence[tuple[Any, str]]]
"""(owner, attribute) of the functions of every part; the owner itself must define them."""


class PartClock:
    """Exclusive milliseconds by part: an inner part stops the outer one's watch. ``enter`` and
    ``leave`` must come in pairs."""

    def __init__(self, synchronised: Callable[[], None] = lambda: None) -> None:
        self.ms: dict[str, float] = defaultdict(float)
        self._synchronised = synchronised
        self._open: list[str] = []
        self._since = 0.0

    def enter(self, part: str) -> None:
        self._charge()
        self._open.append(part)

    def leave(self) -> None:
        self._charge()
        self._open.pop()

    def is_inside(self, part: str) -> bool:
        return part in self._open

    def reset(self) -> None:
        """Forgets what was measured, whatever is open."""
        self._charge()
        self.ms.clear()

    def _charge(self) -> None:
        self._synchronised()
        now = time.perf_counter()
        if self._open:
            self.ms[self._open[-1]] += 1e3 * (now - self._since)
        self._since = now


@contextmanager
def timed_parts(clock: PartClock, parts: Parts) -> Iterator[None]:
    """Puts stopwatches around the functions of all ``parts``, and takes them off again."""
    before = [
        (owner, name, owner.__dict__[name]) for named in parts.values() for owner, name in named
    ]
    for part, named in parts.items():
        for owner, name in named:
            setattr(owner, name, timed(owner.__dict__[name], part, clock))
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def timed(function: Any, part: str, clock: PartClock) -> Any:
    """The function, property or generator function with a stopwatch around it."""
    if isinstance(function, property):
        return property(timed(function.fget, part, clock))
    if inspect.isgeneratorfunction(function):
        return _timed_generator(function, part, clock)

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        clock.enter(part)
        try:
            return function(*args, **kwargs)
        finally:
            clock.leave()

    return wrapper


def _timed_generator(
    function: Callable[..., Any], part: str, clock: PartClock
) -> Callable[..., Any]:
    """Only the time inside the generator counts, not that of whoever asks it."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Iterator[Any]:
        items = function(*args, **kwargs)
        while True:
            clock.enter(part)
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                clock.leave()
            yield item

    return wrapper


@dataclass(slots=True)
class Copies:
    """How often values of tensors were brought to Python."""

    count: int = 0


_COPYING = ("item", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__")


@contextmanager
def counted_copies(counts: Callable[[], bool] = lambda: True) -> Iterator[Copies]:
    """Counts ``tolist``, ``item`` and the like inside the block, while ``counts()`` is true."""
    copies = Copies()

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            copies.count += counts()
            return function(*args, **kwargs)

        return counted

    before = {name: torch.Tensor.__dict__.get(name) for name in _COPYING}
    for name in _COPYING:
        setattr(torch.Tensor, name, counting(getattr(torch.Tensor, name)))
    try:
        yield copies
    finally:
        for name, function in before.items():
            if function is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, function)
