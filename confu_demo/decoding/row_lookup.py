"""Prompt lookup for ConfSpec's target rows: chains copied from the text and from the draft step.

A row's text is the committed text, the draft steps before it, and, as one more place to copy from,
the draft step that it will be compared with: both say the same thing, often in the same words [O].
No model and no training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confu_demo.config import LookupConfig
from confu_demo.decoding.prompt_lookup import NgramIndex
from confu_demo.decoding.row_drafter import RowDrafter


class RowLookup(RowDrafter):
    """One for a whole run."""

    def __init__(self, config: LookupConfig) -> None:
        self.max_drafts = config.num_draft_tokens
        self._committed = NgramIndex(config.max_ngram)
        self._rows: list[NgramIndex] = []

    def begin(self, prefixes: Sequence[Sequence[int]], compared: Sequence[Sequence[int]]) -> None:
        self._committed.extend(prefixes[0][len(self._committed) :])
        self._rows = []
        for prefix, step in zip(prefixes, compared, strict=True):
            index = self._committed.fork()
            index.extend([*prefix[len(self._committed) :], *step])
            self._rows.append(index)

    def extend(self, row: int, token_ids: Sequence[int], fed: Sequence[int]) -> None:
        self._rows[row].extend(token_ids)

    def propose(self, rooms: Mapping[int, int]) -> dict[int, list[int]]:
        return {row: self._rows[row].continuation(room) for row, room in rooms.items()}
