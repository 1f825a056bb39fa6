"""One benchmark over several devices or hosts, started by ``accelerate launch``.

Each process measures its share of the problems on its own device; the first one gathers the
results and reports. Started without a launcher there is one process and nothing is imported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")


class Processes:
    """``index`` of ``count`` processes; ``device`` is what "auto" means for this one."""

    def __init__(self, device: str) -> None:
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self._state: Any = None
        self.index, self.device = 0, device
        if self.count > 1:
            from accelerate import PartialState  # connects the processes

            self._state = PartialState(cpu=device == "cpu")
            self.index = self._state.process_index
            self.device = str(self._state.device) if device in ("auto", "cuda") else device

    @property
    def is_first(self) -> bool:
        return self.index == 0

    def share(self, items: Sequence[Item]) -> list[Item]:
        """Every ``count``-th item, so that all shares are alike."""
        return list(items[self.index :: self.count])

    def gather(self, items: list[Item]) -> list[Item]:
        """The items of all processes, in every process. Waits for the slowest."""
        if self._state is None:
            return items
        from accelerate.utils import gather_object

        gathered: list[Item] = gather_object(items)
        return gathered

    def close(self) -> None:
        if self._state is not None:
            self._state.destroy_process_group()
