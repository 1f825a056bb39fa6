"""What the target thought at every token of its own answers, kept on disk beside them.

A draft head learns from the target's features and distribution; ConFu also from its keys and
values. Whoever made the answers had all of these in hand, so reading them back saves the target's
pass over every document in every epoch of every training and ablation [O]. Knows no head.

Shape letters: n tokens that were read (all but a document's last), D hidden, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from confu_demo.training.row_decoder import Record


class DocumentRecord:
    """One document's record in a shard. ``argmax`` Long[n] is found by the first reader."""

    def __init__(self, path: Path, place: int, num_read: int) -> None:
        self.path, self.place, self.num_read = path, place, num_read
        self.argmax: Tensor | None = None

    def features(self) -> Tensor:
        """float16 [n, 3 * D]."""
        return self._read("features")

    def hidden(self) -> Tensor:
        """float16 [n, D], not normalised."""
        return self._read("hidden")

    def keys_values(self) -> Tensor:
        """float16 [L, 2, H_kv, n, head_dim]."""
        return self._read("keys_values")

    def _read(self, name: str) -> Tensor:
        tensor: Tensor = _opened(self.path).get_tensor(f"{self.place}.{name}")
        return tensor


@lru_cache(maxsize=256)
def _opened(path: Path) -> Any:
    return safe_open(str(path), framework="pt", device="cpu")


def save_records(records: Sequence[Record], path: Path) -> None:
    """All records of a shard in one safetensors file; whole or not at all."""
    arrays: dict[str, Tensor] = {}
    for place, record in enumerate(records):
        arrays[f"{place}.features"] = record.features
        arrays[f"{place}.hidden"] = record.hidden
        arrays[f"{place}.keys_values"] = record.keys_values
    temporary = path.with_suffix(".part")
    save_file(arrays, temporary)
    temporary.replace(path)


def padded(parts: Sequence[Any], length: int, dim: int, like: Tensor) -> Tensor:
    """Tensors whose dimension ``dim`` differs, zero-padded there to ``length`` and stacked in
    the dtype and on the device of ``like``: [B, ..]."""
    shape = list(parts[0].shape)
    shape[dim] = length
    stacked = torch.zeros(len(parts), *shape, dtype=like.dtype, device=like.device)
    for row, part in enumerate(parts):
        stacked[row].narrow(dim, 0, part.shape[dim]).copy_(part)
    return stacked
