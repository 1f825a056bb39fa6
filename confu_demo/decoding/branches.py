"""The target's steps for every draft prefix, as branches of one packed sequence (our choice).

Row i continues the committed prefix and draft steps 0..i-1. All rows share one cache: the first
forward computes the last committed token (the root) and the draft steps, and its logits at the
end of each prefix start the rows; then all rows that still write take one token per forward.
For a root r, draft steps (a b) and (c), and rows x y, u v, z, the tokens may attend to

    r a b c | x u z | y v            1 = may attend
    --------+-------+----
    1 . . . | . . . | . .   r        the first forward is causal
    1 1 . . | . . . | . .   a
    1 1 1 . | . . . | . .   b
    1 1 1 1 | . . . | . .   c
    1 . . . | 1 . . | . .   x        row 0 continues r
    1 1 1 . | . 1 . | . .   u        row 1 continues r a b
    1 1 1 1 | . . 1 | . .   z        row 2 continues r a b c
    1 . . . | 1 . . | 1 .   y        rows that end leave, here row 2
    1 1 1 . | . 1 . | . 1   v

This module knows neither judges nor events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from confu_demo.decoding.steps import GrowingStep
from confu_demo.engine.cache import KVCache
from confu_demo.engine.target import LeanModel

Sampler = Callable[[Tensor, list[int]], Tensor]
"""Logits [M, V] and the absolute positions of the M tokens to emit -> Long[M]."""


class PackedRows:
    """One round of target rows over ``cache``, which holds everything before the root.

    ``rows[i]`` is the step that row i writes, ``drafts[i]`` the token ids of draft step i (one
    fewer than rows). ``num_forwards`` and ``num_tokens`` count what the target computed.
    """

    def __init__(
        self,
        model: LeanModel,
        cache: KVCache,
        *,
        root: int,
        drafts: Sequence[Sequence[int]],
        rows: Sequence[GrowingStep],
        sampler: Sampler,
    ) -> None:
        if len(drafts) != len(rows) - 1:
            raise ValueError(
                f"{len(rows)} rows need {len(rows) - 1} draft steps, not {len(drafts)}"
            )
        self.rows = tuple(rows)
        self.num_forwards = 0
        self.num_tokens = 0
        self._model = model
        self._cache = cache
        self._sampler = sampler
        self._start = cache.length  # slot and absolute position of the root
        self._tokens = [root, *(token for draft in drafts for token in draft)]
        # offset of the last token of each row's prefix; row i starts right behind it
        self._offsets = list(accumulate((len(draft) for draft in drafts), initial=0))
        self._slots: list[list[int]] = [[] for _ in rows]  # relative to the root's slot

    def write(self) -> Iterator[int]:
        """Writes all rows in lockstep and yields the index of each row when it has ended."""
        device = self._model.device
        offsets = torch.tensor(self._offsets, device=device)
        logits = self._forward(torch.tensor(self._tokens, device=device), logits_rows=offsets)
        live = list(range(len(self.rows)))
        positions = [self._start + offset + 1 for offset in self._offsets]
        positions_on_device = offsets + (self._start + 1)
        mask = self._prefix_mask()
        while True:
            tokens = self._sampler(logits, positions)
            ids = tokens.tolist()  # the one copy to the host of this forward
            stay = [i for i, row in enumerate(live) if not self.rows[row].append(ids[i])]
            if len(stay) < len(live):
                yield from (row for i, row in enumerate(live) if i not in stay)
                if not stay:
                    return
                live, positions = [live[i] for i in stay], [positions[i] for i in stay]
                index = torch.tensor(stay, device=device)
                tokens, positions_on_device = tokens[index], positions_on_device[index]
                mask = None if mask is None else mask[index]
            logits = self._advance(live, tokens, positions_on_device, mask)
            positions = [position + 1 for position in positions]
            positions_on_device = positions_on_device + 1

    def _prefix_mask(self) -> Tensor | None:
        """Bool[rows, slots], True where a row's tokens may attend; None when one row is alone."""
        if len(self.rows) == 1:
            return None
        width = self._start + len(self._tokens) + sum(row.limit for row in self.rows)
        slots = torch.arange(width, device=self._model.device)
        ends = torch.tensor(self._offsets, device=self._model.device) + self._start
        return slots[None, :] <= ends[:, None]

    def _advance(
        self, live: list[int], tokens: Tensor, positions: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Feeds one token of every live row; returns their logits [live, V]."""
        first, last = self._cache.length, self._cache.length + len(live)
        for i, row in enumerate(live):
            self._slots[row].append(first - self._start + i)
        if mask is None:
            return self._forward(tokens)
        mask[:, first:last].fill_diagonal_(True)  # each new token sees itself, not its neighbours
        return self._forward(tokens, positions=positions, mask=mask[:, :last])

    def _forward(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        logits_rows: Tensor | None = None,
    ) -> Tensor:
        self.num_forwards += 1
        self.num_tokens += len(tokens)
        output = self._model.forward(
            self._cache, token_ids=tokens, positions=positions, mask=mask, logits_rows=logits_rows
        )
        return output.logits

    def keep(self, row: int | None) -> None:
        """Leaves exactly the committed path in the cache, its last token (the next root) excluded.

        With ``row`` the path is the root, the draft steps before that row and the row's own
        tokens: all have keys and values already, and one gather closes the gaps. None keeps the
        root and the computed draft steps: every one was accepted and no row continues them.
        """
        if row is None:
            self._cache.rollback(self._start + len(self._tokens))
            return
        prefix = self._offsets[row] + 1
        own = self._slots[row]  # without the row's last token: it was never fed
        if not own or own[-1] == prefix + len(own) - 1:  # no gaps, as in plain decoding
            self._cache.rollback(self._start + prefix + len(own))
        else:
            indices = torch.tensor(own, device=self._model.device) - prefix
            self._cache.keep(self._start + prefix, indices)
