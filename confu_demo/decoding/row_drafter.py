"""What drafts tokens for ConfSpec's target rows: the interface, and what plain drafters share.

A drafter owns the target's forwards of a round, because some read more of them than the logits
(features, contemplate tokens). Rows are known by their number in the round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.engine.cache import KVCache
from confu_demo.engine.target import LeanModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RowForward:
    """One forward over the tokens of all live rows. ``positions`` Long[S] and ``mask``
    Bool[S, P+S] are None in a round's first, which is causal. ``fed``: for each row the places in
    it of the tokens that the row goes on from, the newest sure one first."""

    token_ids: Tensor  # Long[S]
    positions: Tensor | None
    mask: Tensor | None
    fed: Mapping[int, Sequence[int]]


class RowDrafter:
    """Drafts nothing and reads nothing. ``max_drafts``: the longest chain that is ever proposed;
    ``slots_per_row``: room that a forward needs in the cache for each row."""

    max_drafts = 0
    num_forwards = 0  # of its own model

    @property
    def slots_per_row(self) -> int:
        return self.max_drafts + 1

    def prefill(self, model: LeanModel, cache: KVCache, token_ids: Sequence[int]) -> None:
        """Reads the prompt but its last token, which is the first round's root."""
        if len(token_ids) > 1:
            prompt = torch.tensor(token_ids[:-1], device=model.device)
            model.forward(cache, token_ids=prompt, logits_rows=slice(0, 0))

    def begin(self, prefixes: Sequence[Sequence[int]], compared: Sequence[Sequence[int]]) -> None:
        """A round: everything before each row, and the draft step beside it (maybe empty)."""

    def read(self, model: LeanModel, cache: KVCache, forward: RowForward) -> Tensor:
        """The forward's logits [S, V]. May leave more than S slots in the cache."""
        return model.forward(
            cache,
            token_ids=forward.token_ids,
            positions=forward.positions,
            mask=forward.mask,
        ).logits

    def extend(self, row: int, token_ids: Sequence[int], fed: Sequence[int]) -> None:
        """The row goes on with n tokens, the i-th of them said behind place ``fed[i]`` of the
        last forward."""

    def propose(self, rooms: Mapping[int, int]) -> dict[int, list[int]]:
        """Chains for all rows that still write: at most so many tokens each, maybe none."""
        return {row: [] for row in rooms}

    def keep(self, row: int) -> None:
        """The round is over: the draft steps before this row and the row itself are kept."""
