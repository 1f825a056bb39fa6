"""ConfSpec's target rows, each sped up by token-level speculation inside the packed forwards.

The two papers' ideas are orthogonal: ConfSpec saves the target's steps, token-level speculation
its forwards within a step. Every live row drafts a short chain behind its newest token; one packed
forward verifies all chains; a row keeps what equals the tokens that the target samples. Tokens are
sampled with noise that belongs to their position, so the text is the same as without (greedy and
sampled; tests/decoding/test_speculative_rows.py).

Beside the drafter there is a draft for nothing [O]: the first forward has computed the draft
model's steps anyway, and its logits along draft step i say how far row i, which the step is to be
compared with, begins with the same tokens. These cost no forward, and keep the step's slots.

    r a b | c d          draft steps (a b) and (c d) behind the root r, one forward:
    x . . .              row 0 is a b until the target says something else,
        y . .            row 1 is c d likewise, row 2 begins behind d

Rejected slots are closed after every forward, so a row's mask is its prefix and its own slots.
Knows neither judges nor events nor where drafts come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from confu_demo.decoding.branches import Sampler
from confu_demo.decoding.row_drafter import RowDrafter, RowForward
from confu_demo.decoding.steps import GrowingStep
from confu_demo.engine.cache import KVCache
from confu_demo.engine.target import LeanModel


class SpeculativeRows:
    """As :class:`~confu_demo.decoding.branches.PackedRows`, and the same texts. ``drafts`` are
    all draft steps: one fewer than rows, or as many where nothing can follow the last one."""

    def __init__(
        self,
        model: LeanModel,
        cache: KVCache,
        *,
        known: Sequence[int],
        drafts: Sequence[Sequence[int]],
        rows: Sequence[GrowingStep],
        sampler: Sampler,
        drafter: RowDrafter,
    ) -> None:
        """``known``: all committed tokens; the last one is the root."""
        if len(drafts) not in (len(rows) - 1, len(rows)):
            raise ValueError(f"{len(rows)} rows need as many draft steps or one fewer")
        self.rows = tuple(rows)
        self.num_forwards = self.num_tokens = 0
        self._model, self._cache = model, cache
        self._sampler, self._drafter = sampler, drafter
        self._known, self._drafts = known, drafts
        self._start = cache.length  # slot and absolute position of the root
        self._tokens = [known[-1], *(token for draft in drafts for token in draft)]
        ends = list(accumulate((len(draft) for draft in drafts), initial=0))
        self._offsets = ends[: len(rows)]
        self._slots: list[list[int]] = [[] for _ in rows]  # relative to the root's slot
        self._pending = [0] * len(rows)  # each row's newest token, which was never fed

    def write(self) -> Iterator[int]:
        """Writes all rows in lockstep and yields the index of each row when it has ended."""
        prefixes, drafts = self._prefixes(), [*self._drafts, []][: len(self.rows)]
        self._drafter.begin(prefixes, drafts)
        live = []
        for row, ended in enumerate(self._read_draft_steps()):
            if ended:
                yield row
            else:
                live.append(row)
        seen = self._seen_at_first()
        while live:
            ended_rows = self._advance(live, seen)
            live = [row for row in live if row not in ended_rows]
            yield from ended_rows

    def _prefixes(self) -> list[list[int]]:
        behind = [self._tokens[1 : offset + 1] for offset in self._offsets]
        return [[*self._known, *tokens] for tokens in behind]

    def _read_draft_steps(self) -> list[bool]:
        """The first forward; which rows have ended with it."""
        ends = self._ends()
        fed = {row: range(offset, ends[row]) for row, offset in enumerate(self._offsets)}
        logits = self._forward(torch.tensor(self._tokens, device=self._model.device), fed)
        self._cache.rollback(self._start + len(self._tokens))
        first = self._start + 1
        said = self._sampler(logits, list(range(first, first + len(self._tokens)))).tolist()
        return [
            self._take(row, said[offset:], self._tokens[offset + 1 : ends[row]], fed[row])
            for row, offset in enumerate(self._offsets)
        ]

    def _ends(self) -> list[int]:
        """Where in the first forward the draft step beside each row ends."""
        lengths = [len(draft) for draft in self._drafts] + [0]
        return [offset + 1 + lengths[row] for row, offset in enumerate(self._offsets)]

    def _take(
        self, row: int, said: Sequence[int], drafted: Sequence[int], fed: Sequence[int]
    ) -> bool:
        """The row goes on with what the target ``said``: behind its newest token, and behind each
        drafted token that it had said itself. ``fed``: where these stood in the forward; accepted
        ones keep their slots."""
        step, taken = self.rows[row], 0
        while not (ended := step.append(said[taken])):
            if taken >= len(drafted) or drafted[taken] != said[taken]:
                break
            taken += 1
            self._slots[row].append(fed[taken])
        self._pending[row] = said[taken]
        self._drafter.extend(row, said[: taken + 1], fed[: taken + 1])
        return ended

    def _seen_at_first(self) -> Tensor:
        """Bool[rows, slots]: what each row may attend to before it writes on its own."""
        room = len(self.rows) * self._drafter.slots_per_row
        width = self._start + len(self._tokens) + sum(row.limit for row in self.rows) + room
        slots = torch.arange(width, device=self._model.device)
        ends = [
            self._start + offset + len(own)
            for offset, own in zip(self._offsets, self._slots, strict=True)
        ]
        return slots[None, :] <= torch.tensor(ends, device=self._model.device)[:, None]

    def _advance(self, live: Sequence[int], seen: Tensor) -> list[int]:
        """One forward for all live rows; returns the rows that ended with it."""
        proposed = self._drafter.propose({row: self._room(row) for row in live})
        chains = [[self._pending[row], *proposed[row]] for row in live]
        first, total = self._cache.length, sum(map(len, chains))
        starts = list(accumulate((len(chain) for chain in chains), initial=0))
        owners = [row for row, chain in zip(live, chains, strict=True) for _ in chain]
        positions = [
            self._start + self._offsets[row] + len(self.rows[row].token_ids) + place
            for row, chain in zip(live, chains, strict=True)
            for place in range(len(chain))
        ]
        device = seen.device
        mask = seen[torch.tensor(owners, device=device)][:, : first + total]
        for begin, chain in zip(starts, chains, strict=False):
            end = begin + len(chain)
            own = torch.ones(len(chain), len(chain), dtype=torch.bool, device=device)
            mask[begin:end, first + begin : first + end] = own.tril()
        tokens = torch.tensor([token for chain in chains for token in chain], device=device)
        at = torch.tensor(positions, device=device)
        fed = {
            row: range(begin, begin + len(chain))
            for row, chain, begin in zip(live, chains, starts, strict=False)
        }
        logits = self._forward(tokens, fed, positions=at, mask=mask)
        said = self._sampler(logits, [position + 1 for position in positions]).tolist()
        return self._settle(live, chains, fed, said, first, seen)

    def _room(self, row: int) -> int:
        """How many tokens a row may draft: the target adds one of its own."""
        step = self.rows[row]
        return min(step.limit - len(step.token_ids) - 1, self._drafter.max_drafts)

    def _settle(
        self,
        live: Sequence[int],
        chains: Sequence[Sequence[int]],
        fed: Mapping[int, range],
        said: Sequence[int],
        first: int,
        seen: Tensor,
    ) -> list[int]:
        """Accepts, closes the gaps that rejected tokens leave, and shows each row its slots."""
        kept: list[int] = []  # behind ``first``
        ended_rows = []
        for row, chain in zip(live, chains, strict=True):
            before = len(self._slots[row])
            self._slots[row].append(fed[row][0])  # its newest token is in the cache now
            if self._take(row, said[fed[row][0] :], chain[1:], fed[row]):
                ended_rows.append(row)
            own = self._slots[row][before:]
            moved = range(len(kept), len(kept) + len(own))
            kept.extend(own)
            self._slots[row][before:] = [first - self._start + place for place in moved]
            seen[row, first + moved[0] : first + moved[-1] + 1] = True
        if kept == list(range(len(kept))):
            self._cache.rollback(first + len(kept))
        else:
            self._cache.keep(first, torch.tensor(kept, device=seen.device))
        return ended_rows

    def _forward(
        self,
        tokens: Tensor,
        fed: Mapping[int, Sequence[int]],
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        before = self._cache.length
        forward = RowForward(token_ids=tokens, positions=positions, mask=mask, fed=fed)
        logits = self._drafter.read(self._model, self._cache, forward)
        self.num_forwards += 1
        self.num_tokens += self._cache.length - before  # contemplate tokens included
        return logits

    def keep(self, row: int | None) -> None:
        """Leaves exactly the committed path in the cache, its last token excluded; as
        :meth:`~confu_demo.decoding.branches.PackedRows.keep`."""
        if row is None:  # every draft step was accepted, and no row continues them
            self._cache.rollback(self._start + len(self._tokens) - 1)
            return
        self._drafter.keep(row)
        prefix = self._offsets[row] + 1
        own = self._slots[row]
        if not own or own[-1] == prefix + len(own) - 1:  # no gaps
            self._cache.rollback(self._start + prefix + len(own))
        else:
            indices = torch.tensor(own, device=self._model.device) - prefix
            self._cache.keep(self._start + prefix, indices)
