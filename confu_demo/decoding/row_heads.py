"""EAGLE-3 and ConFu for ConfSpec's target rows: the two papers combined.

Every row grows its own chain, and a level of all chains is one drafter forward. Alignment is that
of :mod:`confu_demo.decoding.drafting`: drafter row t holds the embedding of x_{t+1} and the fused
target feature of x_t.

With ConFu each row has a future column of its own, from [con] of its own [O]: in a round's first
forward one stands behind each row's prefix, later one behind every token that a row feeds, or
behind the first few (the contemplate budget). The nearest one at or before the last accepted
token serves, as in a single lane. Their router reads the last token accepted before.

Chains instead of trees [O]: k + 1 rows are verified at once already. A chain stops where the
drafter thinks it unlikely to come true as a whole.

Shape letters: R rows, F rows that ask, M contemplate tokens, S tokens of a forward, D hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from confu_demo.decoding.base import features_of
from confu_demo.decoding.contemplation import ConfuParts
from confu_demo.decoding.head_rows import HeadRows
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.decoding.row_drafter import RowDrafter, RowForward
from confu_demo.engine.cache import KVCache
from confu_demo.engine.target import ForwardOutput, LeanModel

MAX_DRAFTS = 5
MIN_CHANCE = 0.3
"""A chain goes on while its drafter gives the whole of it at least this chance [O]."""


@dataclass(frozen=True, slots=True)
class _Served:
    """The [con] whose f a row's next chain hears, and where it stood."""

    features: Tensor  # [1, 3*D_t]
    hidden: Tensor  # [1, D_t]
    position: int


@dataclass(slots=True)
class _Row:
    """One target row of this round. ``waiting``: drafter rows (token, fused feature [1, D]) that
    the next proposal writes first; the last of them asks."""

    position: int  # of the next drafter row
    num_shared: int  # rows of draft steps that it sees
    features: Tensor | None  # [1, 3*D_t] of its last accepted token: routes its [con]
    slots: list[int] = field(default_factory=list)
    waiting: list[tuple[int, Tensor]] = field(default_factory=list)
    served: _Served | None = None
    cons: dict[int, int] = field(default_factory=dict)  # place in the forward -> its [con]'s


class RowHead(RowDrafter):
    """One run's drafter. Without ``parts`` it is EAGLE-3, with ConFu's own weights it is ConFu."""

    max_drafts = MAX_DRAFTS

    def __init__(
        self,
        head: PackedHead,
        parts: ConfuParts | None,
        *,
        num_rows: int,
        capacity: int,
        budget: int = -1,
    ) -> None:
        """``num_rows`` of a round at most; ``capacity``: tokens of all of them and the text;
        ``budget``: contemplate tokens of a row and forward, below 0 all, 0 none."""
        self._head, self._parts, self._budget = head, parts if budget != 0 else None, budget
        bias = None if self._parts is None else self._parts.future_bias
        self._drafts = HeadRows(head, num_rows, capacity + num_rows * (MAX_DRAFTS + 1), bias)
        self._num_committed = 0
        self._rows: list[_Row] = []
        self._root_features: Tensor | None = None  # [1, 3*D_t] of the token before the root
        self._last: ForwardOutput | None = None
        self._fused = head.like.new_zeros(0)  # [S, D] of the last forward
        self._is_first = True  # forward of the round
        self.num_forwards = 0

    @property
    def slots_per_row(self) -> int:
        return (self.max_drafts + 1) * (1 if self._parts is None else 2)

    # What the target read

    def prefill(self, model: LeanModel, cache: KVCache, token_ids: Sequence[int]) -> None:
        if len(token_ids) < 2:
            return
        ids = torch.tensor(list(token_ids), device=model.device)
        out = model.forward(
            cache,
            token_ids=ids[:-1],
            feature_layers=self._head.config.feature_layers,
            logits_rows=slice(0, 0),
        )
        features = features_of(out)
        self._root_features = features[-1:].clone()
        self._drafts.add(ids[1:], self._head.fuse(features), torch.arange(len(ids) - 1))
        self._num_committed = len(ids) - 1

    def begin(self, prefixes: Sequence[Sequence[int]], compared: Sequence[Sequence[int]]) -> None:
        root, self._is_first = len(prefixes[0]) - 1, True
        self._rows = [
            _Row(len(prefix) - 1, len(prefix) - 1 - root, self._root_features)
            for prefix in prefixes
        ]
        self._drafts.open([self._num_committed + row.num_shared for row in self._rows])

    def read(self, model: LeanModel, cache: KVCache, forward: RowForward) -> Tensor:
        ids, con = forward.token_ids, self._con_places(forward)
        if con:
            out = self._contemplate(model, cache, forward, con)
        else:
            out = model.forward(
                cache,
                token_ids=ids,
                positions=forward.positions,
                mask=forward.mask,
                feature_layers=self._head.config.feature_layers,
            )
        self._last, self._fused = out, self._head.fuse(features_of(out)[: len(ids)])
        if self._is_first and len(ids) > 1:  # rows of the draft steps, for all behind them
            positions = self._rows[0].position + torch.arange(len(ids) - 1)
            self._drafts.add(ids[1:], self._fused[:-1], positions)
        self._is_first = False
        return out.logits

    def _con_places(self, forward: RowForward) -> list[tuple[int, int]]:
        """(row, place of the token that a [con] follows), in the order of the [con]."""
        for row in self._rows:
            row.cons = {}
        if self._parts is None or self._root_features is None:  # a prompt of one token: nothing
            return []  # to route from yet
        places: list[tuple[int, int]] = []
        for number, fed in forward.fed.items():
            count = 1 if self._is_first else len(fed) if self._budget < 0 else self._budget
            places += [(number, place) for place in fed[:count]]
        for nth, (number, place) in enumerate(places):
            self._rows[number].cons[place] = len(forward.token_ids) + nth
        return places

    def _contemplate(
        self, model: LeanModel, cache: KVCache, forward: RowForward, con: list[tuple[int, int]]
    ) -> ForwardOutput:
        """The forward with its M [con] behind the S tokens; each sees what its token sees, the
        soft prompts and itself."""
        assert self._parts is not None
        num, start, device = len(forward.token_ids), cache.length, model.device
        behind = torch.tensor([place for _, place in con], device=device)
        positions, mask = forward.positions, forward.mask
        if positions is None:
            positions = start + torch.arange(num, device=device)
        if mask is None:
            mask = torch.arange(start + num, device=device)[None, :] <= positions[:, None]
        total = num + len(con)
        seen = torch.zeros(total, start + total, dtype=torch.bool, device=device)
        seen[:, : start + num] = torch.cat((mask, mask[behind]))
        seen[num:, start + num :].fill_diagonal_(True)
        soft: dict[str, Any] = {}
        if self._parts.side is not None:
            rows = torch.arange(total, device=device) >= num
            soft = {"side": self._parts.side, "side_rows": rows}
        routed = [features for n, _ in con if (features := self._rows[n].features) is not None]
        embeddings, _ = self._parts.con_mixture(torch.cat(routed))
        return model.forward(
            cache,
            embeddings=torch.cat((model.embed(forward.token_ids), embeddings)),
            positions=torch.cat((positions, positions[behind] + 1)),
            mask=seen,
            feature_layers=self._head.config.feature_layers,
            logits_rows=slice(0, num),
            **soft,
        )

    def extend(self, row: int, token_ids: Sequence[int], fed: Sequence[int]) -> None:
        assert self._last is not None
        own, features = self._rows[row], features_of(self._last)
        first = own.position + len(own.waiting)  # position of the token at place fed[0]
        for token, place in zip(token_ids, fed, strict=True):
            own.waiting.append((token, self._fused[place, None]))
        own.features = features[fed[-1], None]
        nearest = [nth for nth, place in enumerate(fed) if place in own.cons]
        if nearest:
            at = own.cons[fed[nearest[-1]]]
            hidden = self._last.hidden[at, None]
            own.served = _Served(features[at, None], hidden, first + nearest[-1] + 1)

    def keep(self, row: int) -> None:
        own = self._rows[row]
        self._drafts.commit(self._num_committed + own.num_shared, own.slots)
        self._write_waiting([row])
        self._num_committed = self._drafts.end - self._drafts.first
        self._root_features = None if own.features is None else own.features.clone()

    # Drafting

    def propose(self, rooms: Mapping[int, int]) -> dict[int, list[int]]:
        chains: dict[int, list[int]] = {row: [] for row in rooms}
        asking = [row for row, room in rooms.items() if room > 0]
        if not asking:
            return chains
        heads, features = self._write_waiting(asking)
        self._write_futures(asking, features)
        outlooks = {row: self._outlook(self._rows[row]) for row in asking}
        base, level = self._drafts.end, 0
        chances = torch.zeros(len(asking))
        while asking:
            hidden = self._drafts.attend(asking, heads, features)
            self.num_forwards += 1
            added = self._added([outlooks[row] for row in asking], level)
            ids, log_probs = self._head.best_children(hidden, 1, added)
            chances = chances + log_probs[:, 0].float().cpu()
            likely = (chances.exp() >= MIN_CHANCE).tolist()
            for row, token, is_likely in zip(asking, ids[:, 0].tolist(), likely, strict=True):
                if is_likely:
                    chains[row].append(token)
            level += 1
            stay = [
                place
                for place, row in enumerate(asking)
                if likely[place] and level < min(rooms[row], self.max_drafts)
            ]
            asking, chances = [asking[place] for place in stay], chances[stay]
            if asking:
                features, slot = hidden[stay], self._drafts.end
                positions = torch.tensor([self._rows[row].position for row in asking]) + level - 1
                heads = self._drafts.add(ids[stay, 0], features, positions)
                for nth, row in enumerate(asking):
                    self._drafts.show(row, [slot + nth])
        self._drafts.hide_from(base)
        return chains

    def _write_waiting(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Writes what waits; heads and features of each row's last drafter row."""
        tokens: list[int] = []
        positions: list[int] = []
        features: list[Tensor] = []
        last = []
        for row in rows:
            own = self._rows[row]
            slot = self._drafts.end + len(tokens)
            own.slots += range(slot, slot + len(own.waiting))
            positions += range(own.position, own.position + len(own.waiting))
            own.position += len(own.waiting)
            for token, feature in own.waiting:
                tokens.append(token)
                features.append(feature)
            own.waiting = []
            last.append(len(tokens) - 1)
        joined = torch.cat(features)
        ids = torch.tensor(tokens, device=joined.device)
        heads = self._drafts.add(ids, joined, torch.tensor(positions))
        for row in rows:
            self._drafts.show(row, self._rows[row].slots)
        return heads[last], joined[last]

    def _write_futures(self, asking: Sequence[int], fused: Tensor) -> None:
        """``fused`` [F, D] of each row's last accepted token."""
        if self._parts is None:
            return
        embeddings, _ = self._parts.future_mixture(fused)
        for nth, row in enumerate(asking):
            served = self._rows[row].served
            if served is not None:
                feature = self._head.fuse(served.features)
                self._drafts.add_future(row, embeddings[nth, None], feature, served.position)

    def _outlook(self, row: _Row) -> tuple[Tensor, ...]:
        """What a row's [con] adds to the logits at depth 1, 2, ...: float32 [1, V_d] each."""
        if self._parts is None or row.served is None:
            return ()
        return self._parts.outlook(row.served.hidden, row.position - row.served.position)

    def _added(self, outlooks: Sequence[tuple[Tensor, ...]], level: int) -> Tensor | None:
        """[F, V_d], or None where no row has anything to add at this depth."""
        if all(level >= len(outlook) for outlook in outlooks):
            return None
        nothing = torch.zeros(1, len(self._head.target_ids), device=self._head.like.device)
        return torch.cat([out[level] if level < len(out) else nothing for out in outlooks])
