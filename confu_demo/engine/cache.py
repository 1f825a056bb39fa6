"""Keys and values of the tokens seen so far, preallocated once for a run.

One tensor holds both, layer by layer, so that a forward gets every layer's views in a handful
of operations and writes keys and values of a layer in one copy. Keys are stored rotated, in the
engine's own order of head dimensions (see :mod:`confu_demo.engine.rope`).

Soft prompts are *side* keys: they sit in front of slot 0 and never count in ``length``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.engine.errors import ContextFull
from confu_demo.engine.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SideKeyValues:
    """Rotated keys and values of soft prompts in every layer.

    ``tensor``: [L, 2 (keys, values), H_kv, s, head_dim].
    """

    tensor: Tensor

    @property
    def num_tokens(self) -> int:
        return self.tensor.shape[3]


class KVCache:
    """``length`` slots are filled; slots are token order, except inside a draft tree."""

    def __init__(
        self,
        *,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"cache capacity must be 1 or more, not {capacity}")
        shape = (num_layers, 2, num_kv_heads, capacity, head_dim)
        # Zeros, not empty: unwritten slots must never turn a masked product into NaN.
        self.storage = torch.zeros(shape, device=device, dtype=dtype)
        self.capacity = capacity
        self.length = 0
        self.side: SideKeyValues | None = None
        self.workspace: Workspace | None = None  # of the last forward's number of rows

    @property
    def num_side(self) -> int:
        """Slots in front of slot 0 that hold the attached soft prompts."""
        return 0 if self.side is None else self.side.num_tokens

    @property
    def k(self) -> Tensor:
        """Keys [L, H_kv, capacity, head_dim], a view."""
        return self.storage[:, 0, :, self.num_side :]

    @property
    def v(self) -> Tensor:
        """Values [L, H_kv, capacity, head_dim], a view."""
        return self.storage[:, 1, :, self.num_side :]

    @torch.inference_mode()
    def attach(self, side: SideKeyValues) -> None:
        """Puts soft prompts in front of slot 0. Free when they are there already."""
        if self.side is side:
            return
        self.storage = torch.cat((side.tensor.to(self.storage), self._slots()), dim=3)
        self.side = side

    def rollback(self, length: int) -> None:
        """Drops everything after ``length``."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll a cache of {self.length} tokens back to {length}")
        self.length = length

    @torch.inference_mode()
    def keep(self, start: int, indices: Tensor) -> None:
        """Keeps slots ``start + indices`` (Long[M], increasing) and drops the others from
        ``start`` on: what an accepted path leaves of a draft tree. length = start + M."""
        num_kept = int(indices.numel())
        if not 0 <= start <= start + num_kept <= self.length:
            raise ValueError(
                f"cannot keep {num_kept} slots from {start} in a cache of {self.length} tokens"
            )
        if num_kept:
            slots = self._slots()
            kept = slots[:, :, :, start : self.length].index_select(3, indices.to(slots.device))
            slots[:, :, :, start : start + num_kept] = kept
        self.length = start + num_kept

    def require_room(self, num_tokens: int) -> None:
        """Raises :class:`ContextFull` unless ``num_tokens`` more fit."""
        if self.length + num_tokens > self.capacity:
            raise ContextFull(
                f"{self.length} tokens and {num_tokens} more do not fit a context of "
                f"{self.capacity}; shorten the prompt or generate fewer tokens"
            )

    def next_slots(self, num_rows: int) -> tuple[Tensor, ...]:
        """For every layer, where the next ``num_rows`` tokens go: [2, H_kv, S, head_dim]."""
        return self.storage.narrow(3, self.num_side + self.length, num_rows).unbind(0)

    def seen_by(self, num_rows: int, uses_side: bool) -> tuple[Tensor, ...]:
        """Keys of layer 0, values of layer 0, keys of layer 1, ..., up to and including the next
        ``num_rows`` tokens: [H_kv, K, head_dim] each. One slicing for all layers."""
        first = 0 if uses_side else self.num_side
        end = self.num_side + self.length + num_rows
        return self.storage.narrow(3, first, end - first).flatten(0, 1).unbind(0)

    def _slots(self) -> Tensor:
        """[L, 2, H_kv, capacity, head_dim] without the soft prompts, a view."""
        return self.storage[:, :, :, self.num_side :]
