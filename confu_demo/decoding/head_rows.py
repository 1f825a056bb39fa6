"""A draft head's cache for several rows at once, each of which sees slots of its own.

Owns keys and values of drafter rows and who sees them; :mod:`confu_demo.decoding.row_heads` knows
what they mean. Because the drafter has one layer, keys and values depend on a row's input alone.

    futures   committed rows   rows of the draft steps   rows of each target row, in any order
    R slots   seen by all      row i sees the first few   seen by their own

Shape letters: R rows, m new drafter rows, F rows that ask, D hidden, ``hd`` head_dim.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from confu_demo.decoding.packed_head import PackedHead


class HeadRows:
    """``end`` is the first free slot. Slot r is row r's future column, if there are any."""

    def __init__(
        self, head: PackedHead, num_rows: int, capacity: int, future_bias: float | None
    ) -> None:
        config = head.config
        self._head, self._future_bias = head, future_bias
        self.first = 0 if future_bias is None else num_rows  # slot of the first committed row
        slots = self.first + capacity
        self._cache = head.like.new_zeros(2, config.num_kv_heads, slots, config.head_dim)
        self._rotations = head.rotations(capacity + 1)
        self._lowest = torch.finfo(head.like.dtype).min
        self._bias = head.like.new_full((num_rows, slots), self._lowest)
        self.end = self.first

    def open(self, num_seen: Sequence[int]) -> None:
        """A round: row r sees its first ``num_seen[r]`` committed and shared rows, no more."""
        self._bias.fill_(self._lowest)
        for row, count in enumerate(num_seen):
            self._bias[row, self.first : self.first + count] = 0.0

    def add(self, token_ids: Tensor, features: Tensor, positions: Tensor) -> Tensor:
        """Appends drafter rows: tokens Long[m], features [m, D]. Returns [m, H + 2 H_kv, hd]."""
        heads = self._project(self._head.target.embed(token_ids), features, positions)
        self._store(self.end, heads)
        self.end += len(heads)
        return heads

    def add_future(self, row: int, embedding: Tensor, feature: Tensor, position: int) -> None:
        """Row ``row``'s future column: embedding and f [1, D]."""
        assert self._future_bias is not None
        self._store(row, self._project(embedding, feature, torch.tensor([position])))
        self._bias[row, row] = self._future_bias

    def show(self, row: int, slots: Sequence[int]) -> None:
        self._bias[row, list(slots)] = 0.0

    def hide_from(self, slot: int) -> None:
        """Nobody sees what stands from ``slot`` on, and it will be written over."""
        self._bias[:, slot:] = self._lowest
        self.end = slot

    def attend(self, rows: Sequence[int], heads: Tensor, features: Tensor) -> Tensor:
        """Un-normalised outputs [F, D] of one drafter row of each of the ``rows``: what
        :meth:`add` returned for them, and their features [F, D]."""
        queries = heads[:, : self._head.config.num_heads]
        keys, values = self._cache[:, :, : self.end]
        bias = self._bias[list(rows), : self.end]
        return self._head.finish(features, queries, keys, values, bias)

    def commit(self, num: int, slots: Sequence[int]) -> None:
        """Keeps the first ``num`` rows and behind them those in ``slots``, in this order."""
        place = self.first + num
        if slots:
            kept = self._cache[:, :, list(slots)]
            self._cache[:, :, place : place + len(slots)] = kept
        self.end = place + len(slots)

    def _project(self, embeddings: Tensor, features: Tensor, positions: Tensor) -> Tensor:
        rotations = self._rotations[positions.to(self._rotations.device)]
        return self._head.project(embeddings, features, rotations)

    def _store(self, slot: int, heads: Tensor) -> None:
        config, num = self._head.config, len(heads)
        new = heads[:, config.num_heads :].view(num, 2, config.num_kv_heads, config.head_dim)
        self._cache[:, :, slot : slot + num].copy_(new.permute(1, 2, 0, 3))
