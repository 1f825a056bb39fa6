"""One benchmark over several devices or hosts, started by ``accelerate launch`` or ``torchrun``.

Each process measures its share of the problems on its own device; the first one gathers the
results and reports. Started without a launcher there is one process and nothing is imported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

from confu_demo.engine.loading import pick_device

Item = TypeVar("Item")


class Processes:
    """``index`` of ``count`` processes; ``device`` is what "auto" or "cuda" means for this one.

    Raises ``ValueError`` for a device that is not here.
    """

    def __init__(self, device: str) -> None:
        self.index, self.count, self.device = 0, 1, device
        self._state: Any = None
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import PartialState  # connects the processes

            # Told so, accelerate connects processes on the CPU too; else each would be alone.
            on_cpu = pick_device(device).type == "cpu"
            self._state = PartialState(cpu=on_cpu)
            self.index, self.count = self._state.process_index, self._state.num_processes
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
