"""The drafter at work: an EAGLE-3 head with its own key/value cache grows a draft tree.

Owns the drafter's cache, its future column and the growth of a tree, once a run; the weights are
in :mod:`confu_demo.decoding.packed_head`. Knows neither verification nor events.

Alignment [E]: committed tokens are x_0..x_n and x_n is the root. Drafter row t holds the
embedding of x_{t+1} and the fused target feature of x_t, at rotary position t. The last row
(x_n, feature of x_{n-1}) predicts x_{n+1}. Rows of committed tokens are rebuilt from target
features every cycle; rows of the tree are overwritten.

With ConFu, slot 0 of the cache is the future column [O]: one key and value that every row sees.
Because the drafter has one layer, keys and values of a row depend on its input alone, so only the
last committed row has to attend.

Shape letters: m new rows, F frontier nodes, D hidden, ``hd`` head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.config import TreeConfig
from confu_demo.decoding.draft_tree import CandidatePool, TokenTree, chain
from confu_demo.decoding.growth import FixedGrowth, Growth
from confu_demo.decoding.host_pool import HostPool
from confu_demo.decoding.packed_head import PackedHead


@dataclass(frozen=True, slots=True)
class FutureInput:
    """What the future column is made of: ``feature`` [1, D] (f), ``embedding`` [1, D] from the
    future mixture, and the position of the contemplate token that f came from. ``outlook``: what is
    added to the draft's logits at depth 1, 2, ..., float32 [1, V_d] each; nothing deeper."""

    feature: Tensor
    embedding: Tensor
    position: int
    outlook: tuple[Tensor, ...] = ()


class Drafter:
    """One run's drafter. ``num_rows`` committed rows are in the cache."""

    def __init__(
        self,
        head: PackedHead,
        capacity: int,
        tree: TreeConfig,
        future_bias: float | None = None,
        growth: Growth | None = None,
    ) -> None:
        """``capacity``: how many committed tokens it must hold. ``future_bias``: the score
        that is added to the future column; None for EAGLE-3, which has no such column.
        ``growth`` decides how far a tree grows, within ``tree``; None: as far as that."""
        config = head.config
        self._head, self._tree = head, tree
        # On an accelerator a look at the scores costs more than a level.
        self._growth = growth or FixedGrowth(tree, may_look=head.like.device.type == "cpu")
        self._num_children = min(tree.top_k, config.draft_vocab_size)
        self._first = 0 if future_bias is None else 1  # slot of row 0
        slots = self._first + capacity + 1 + self._num_children * tree.depth
        shape = (2, config.num_kv_heads, slots, config.head_dim)
        self._cache = head.like.new_zeros(shape)
        self._rotations = head.rotations(capacity + tree.depth + 2)
        self._prefix_bias = head.like.new_zeros(1, slots)
        if future_bias is not None:
            self._prefix_bias[:, 0] = future_bias
        lowest = torch.finfo(head.like.dtype).min
        self._own = head.like.new_full((self._num_children,) * 2, lowest).fill_diagonal_(0.0)
        self.num_rows = 0
        self.num_forwards = 0

    def absorb(self, token_ids: Tensor, features: Tensor) -> None:
        """Adds committed rows: embeddings of Long[m], target features [m, 3*D_t]."""
        if token_ids.shape[0]:
            self._add_rows(self._head.target.embed(token_ids), self.fuse(features), None)

    def fuse(self, features: Tensor) -> Tensor:
        """Target features [m, 3*D_t] -> [m, D]."""
        return self._head.fuse(features)

    def propose(
        self, token_ids: Tensor, fused: Tensor, max_depth: int, future: FutureInput | None = None
    ) -> TokenTree:
        """Adds the newly committed rows and grows a tree below the last of their tokens.

        ``token_ids`` Long[m] are x_{n-m+1}..x_n, ``fused`` [m, D] the fused target features of
        the tokens before each; ``max_depth`` bounds the depth of the tree (0: the root alone).
        """
        head = self._head
        if max_depth < 1 or self._tree.num_nodes == 1:
            # Nothing to draft, now or later: the run ends with this cycle, or never drafts.
            return chain(token_ids[-1:].tolist(), head.like.device)
        growth = self._growth
        make_pool = HostPool if growth.may_look else CandidatePool
        pool = make_pool(token_ids[-1:], growth.weigh)
        hidden = self._add_rows(head.target.embed(token_ids), fused, future)
        self.num_forwards += 1
        next_position = self.num_rows
        outlook = () if future is None else future.outlook
        added = outlook[0] if outlook else None
        frontier = pool.expand(*head.best_children(hidden, self._num_children, added))
        bias = self._prefix_bias[:, : self._first + self.num_rows]  # no slots of the tree yet
        levels = min(self._tree.depth, max_depth - 1)
        for level in range(levels):
            width = growth.width(level, pool)
            if width == 0:
                break
            if width < self._num_children:
                frontier = pool.narrow(frontier, width)
            inherited = bias.index_select(0, frontier.rows)  # much cheaper than indexing
            bias = torch.cat((inherited, self._own[:width, :width]), dim=1)
            features = hidden.index_select(0, frontier.rows)
            embeddings = head.target.embed(frontier.token_ids)
            hidden = self._tree_rows(embeddings, features, next_position + level, bias)
            self.num_forwards += 1
            added = outlook[level + 1] if level + 1 < len(outlook) else None
            frontier = pool.expand(*head.best_children(hidden, self._num_children, added))
        return pool.tree(growth.num_nodes(pool))

    def _add_rows(self, embeddings: Tensor, fused: Tensor, future: FutureInput | None) -> Tensor:
        """Writes committed rows (and the future column); returns the last row's output [1, D]."""
        head, num_heads, first = self._head, self._head.config.num_heads, self._first
        start, end = self.num_rows, self.num_rows + fused.shape[0]
        rotations, rows = self._rotations[start:end], fused
        if future is not None:
            place = self._rotations[future.position : future.position + 1]
            rotations = torch.cat((place, rotations))
            embeddings = torch.cat((future.embedding, embeddings))
            rows = torch.cat((future.feature, fused))
        heads = head.project(embeddings, rows, rotations)
        if future is not None:
            self._write(0, heads[:1])
        self._write(first + start, heads[-fused.shape[0] :])
        self.num_rows = end
        bias = self._prefix_bias[:, : first + end] if first else None
        return self._finish(fused[-1:], heads[-1:, :num_heads], first + end, bias)

    def _tree_rows(
        self, embeddings: Tensor, features: Tensor, position: int, bias: Tensor
    ) -> Tensor:
        """One level of the tree, all at ``position``; ``bias`` [F, slots], its own slots last.
        Returns the outputs [F, D]."""
        rotations = self._rotations[position : position + 1]
        heads = self._head.project(embeddings, features, rotations)
        end = bias.shape[1]
        self._write(end - embeddings.shape[0], heads)
        return self._finish(features, heads[:, : self._head.config.num_heads], end, bias)

    def _write(self, slot: int, heads: Tensor) -> None:
        """Keys and values of [m, H + 2 H_kv, hd] into the slots from ``slot`` on."""
        config, num = self._head.config, heads.shape[0]
        new = heads[:, config.num_heads :].view(num, 2, config.num_kv_heads, config.head_dim)
        self._cache[:, :, slot : slot + num].copy_(new.permute(1, 2, 0, 3))

    def _finish(self, features: Tensor, queries: Tensor, end: int, bias: Tensor | None) -> Tensor:
        keys, values = self._cache[:, :, :end]
        return self._head.finish(features, queries, keys, values, bias)
