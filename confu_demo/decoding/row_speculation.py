"""Token-level methods that ConfSpec can be combined with: what each is called and needs.

Owns packed weights that all runs of a decoder share; a run's state is its
:class:`~confu_demo.decoding.row_drafter.RowDrafter`.
"""

from __future__ import annotations

from typing import Protocol

from confu_demo.config import DecodeConfig
from confu_demo.decoding.base import BoundModel
from confu_demo.decoding.contemplation import ConfuParts
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.decoding.row_drafter import RowDrafter
from confu_demo.decoding.row_heads import RowHead
from confu_demo.decoding.row_lookup import RowLookup
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from confu_demo.trace import ModelInfo


class RowSpeculation(Protocol):
    """``name`` as in ``confspec+name``; ``models`` beside the target and the draft model."""

    name: str
    models: tuple[ModelInfo, ...]

    def new_drafter(self, config: DecodeConfig, num_rows: int, capacity: int) -> RowDrafter:
        """For one run of ``num_rows`` rows a round at most; ``capacity``: tokens of the text and
        of all rows."""


class LookupSpeculation:
    """Prompt lookup, which needs no weights."""

    name = "prompt_lookup"
    models: tuple[ModelInfo, ...] = ()

    def new_drafter(self, config: DecodeConfig, num_rows: int, capacity: int) -> RowDrafter:
        return RowLookup(config.lookup)


class HeadSpeculation:
    """An EAGLE-3 or a ConFu head of the target."""

    def __init__(self, target: BoundModel, head: EagleHead | ConfuHead, info: ModelInfo) -> None:
        self.models: tuple[ModelInfo, ...] = (info,)
        is_confu = isinstance(head, ConfuHead)
        self.name = "confu" if is_confu else "eagle3"
        eagle = head.eagle if isinstance(head, ConfuHead) else head
        self._head = PackedHead(eagle, target.model)
        self._parts: ConfuParts | None = None
        if isinstance(head, ConfuHead):
            self._parts = ConfuParts(head, target.model, self._head.target_ids)

    def new_drafter(self, config: DecodeConfig, num_rows: int, capacity: int) -> RowDrafter:
        # The machine's own choice is for trees; chains contemplate after every token.
        budget = max(config.confu.contemplate_budget, -1)
        return RowHead(self._head, self._parts, num_rows=num_rows, capacity=capacity, budget=budget)
