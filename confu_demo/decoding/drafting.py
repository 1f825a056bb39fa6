"""The drafter at work: an EAGLE-3 head with its own key/value cache grows a draft tree.

Owns the packed weights (:class:`PackedHead`, once a decoder) and the drafter's cache and future
column (:class:`Drafter`, once a run). Knows neither verification nor events.

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
from torch.nn import functional as F

from confu_demo.config import TreeConfig
from confu_demo.decoding.draft_tree import CandidatePool, TokenTree, chain
from confu_demo.engine.attention import attend
from confu_demo.engine.rope import pair_neighbours, rotate_
from confu_demo.engine.target import LeanModel
from confu_demo.heads.eagle import EagleHead


class PackedHead:
    """An EAGLE-3 head laid out for few rows at a time, in the target's device and dtype: one
    matrix for q, k, v, one for gate and up, rotary pairs as neighbours (as in the engine)."""

    def __init__(self, head: EagleHead, target: LeanModel) -> None:
        config, layer = head.config, head.midlayer
        self.config = config
        self.target = target
        self.like = torch.empty(0, device=target.device, dtype=target.dtype)

        def get(weight: Tensor) -> Tensor:
            return weight.detach().to(self.like)

        attention, mlp, hd = layer.self_attn, layer.mlp, config.head_dim
        q, k = (pair_neighbours(get(p.weight), hd) for p in (attention.q_proj, attention.k_proj))
        self._qkv = torch.cat((q, k, get(attention.v_proj.weight))).t().contiguous()
        self._out = get(attention.o_proj.weight).contiguous().t()
        gate_up = torch.cat((get(mlp.gate_proj.weight), get(mlp.up_proj.weight)))
        self._gate_up = gate_up.t().contiguous()
        self._down = get(mlp.down_proj.weight).contiguous().t()
        self._fc = get(head.fc.weight)
        self._lm_head = get(head.lm_head.weight)
        self._embedding_norm = get(layer.input_layernorm.weight)
        self._feature_norm = get(layer.hidden_norm.weight)
        self._mlp_norm = get(layer.post_attention_layernorm.weight)
        self._final_norm = get(head.norm.weight)
        self._target_ids = head.draft_to_target(torch.arange(len(head.d2t))).to(target.device)

    def rotations(self, num_positions: int) -> Tensor:
        """Complex[num_positions, 1, hd/2]: the rotation of every position."""
        steps = torch.arange(0, self.config.head_dim, 2).float() / self.config.head_dim
        angles = torch.arange(num_positions).float()[:, None] * self.config.rope_theta**-steps
        table = torch.complex(angles.cos(), angles.sin()).unsqueeze(1)
        wide = torch.complex128 if self.like.dtype == torch.float64 else torch.complex64
        return table.to(device=self.like.device, dtype=wide)

    def fuse(self, features: Tensor) -> Tensor:
        """Target features [m, 3*D_t] -> [m, D]."""
        return F.linear(features, self._fc)

    def project(self, embeddings: Tensor, features: Tensor, rotations: Tensor) -> Tensor:
        """Rows [m, D] twice -> rotated q and k, and v: [m, H + 2 H_kv, hd]."""
        config = self.config
        rows = torch.cat(
            (self._norm(embeddings, self._embedding_norm), self._norm(features, self._feature_norm)),
            dim=1,
        )
        heads = torch.mm(rows, self._qkv).view(rows.shape[0], -1, config.head_dim)
        rotate_(heads[:, : config.num_heads + config.num_kv_heads], rotations)
        return heads

    def finish(
        self, features: Tensor, queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Attention and MLP: features [m, D], queries [m, H, hd], keys [H_kv, hd, K], values
        [H_kv, K, hd], bias [m * G, K] -> un-normalised output [m, D], the next feature."""
        mixed = attend(queries, keys, values, bias, self.config.head_dim**-0.5)
        hidden = torch.addmm(features, mixed, self._out)
        gate, up = torch.mm(self._norm(hidden, self._mlp_norm), self._gate_up).chunk(2, dim=1)
        return hidden.addmm_(F.silu(gate).mul_(up), self._down)

    def best_children(self, hidden: Tensor, num: int) -> tuple[Tensor, Tensor]:
        """[m, D] -> the ``num`` likeliest next tokens of every row: target ids Long[m, num] and
        float32 log-probabilities over the draft vocabulary [m, num]."""
        logits = F.linear(self._norm(hidden, self._final_norm), self._lm_head)
        log_probs, ids = torch.log_softmax(logits.float(), dim=-1).topk(num, dim=-1)
        return self._target_ids[ids], log_probs

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.config.rms_norm_eps)


@dataclass(frozen=True, slots=True)
class FutureInput:
    """What the future column is made of: ``feature`` [1, D] (f), ``embedding`` [1, D] from the
    future mixture, and the position of the contemplate token that f came from."""

    feature: Tensor
    embedding: Tensor
    position: int


class Drafter:
    """One run's drafter. ``num_rows`` committed rows are in the cache."""

    def __init__(
        self, head: PackedHead, capacity: int, tree: TreeConfig, future_bias: float | None = None
    ) -> None:
        """``capacity``: how many committed tokens it must hold. ``future_bias``: the score
        that is added to the future column; None for EAGLE-3, which has no such column."""
        config = head.config
        self._head, self._tree = head, tree
        self._num_children = min(tree.top_k, config.draft_vocab_size)
        self._first = 0 if future_bias is None else 1  # slot of row 0
        slots = self._first + capacity + 1 + self._num_children * tree.depth
        shape = (2, config.num_kv_heads, slots, config.head_dim)
        self._cache = head.like.new_zeros(shape)
        self._rotations = head.rotations(capacity + tree.depth + 2)
        self._group = config.num_heads // config.num_kv_heads
        self._prefix_bias = head.like.new_zeros(self._num_children, slots)
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
        pool = CandidatePool(token_ids[-1:])
        hidden = self._add_rows(head.target.embed(token_ids), fused, future)
        self.num_forwards += 1
        next_position = self.num_rows
        frontier = pool.expand(*head.best_children(hidden, self._num_children))
        tree_bias = self._own
        may_look = head.like.device.type == "cpu"  # elsewhere a look costs more than a level
        levels = min(self._tree.depth, max_depth - 1)
        for level in range(levels):
            if may_look and pool.is_settled(self._tree.num_nodes):
                break
            if level > 0:
                tree_bias = torch.cat((tree_bias[frontier.rows], self._own), dim=1)
            features = hidden.index_select(0, frontier.rows)
            embeddings = head.target.embed(frontier.token_ids)
            hidden = self._tree_rows(embeddings, features, next_position + level, tree_bias)
            self.num_forwards += 1
            frontier = pool.expand(*head.best_children(hidden, self._num_children))
        return pool.tree(self._tree.num_nodes)

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
        bias = self._prefix_bias[:1, : first + end]
        bias = bias.expand(self._group, -1) if first else None
        return self._finish(fused[-1:], heads[-1:, :num_heads], first + end, bias)

    def _tree_rows(
        self, embeddings: Tensor, features: Tensor, position: int, tree_bias: Tensor
    ) -> Tensor:
        """One level of the tree, all at ``position``; ``tree_bias`` [F, tree slots]. Returns the
        outputs [F, D]."""
        rotations = self._rotations[position : position + 1]
        heads = self._head.project(embeddings, features, rotations)
        prefix = self._first + self.num_rows
        end = prefix + tree_bias.shape[1]
        self._write(end - embeddings.shape[0], heads)
        bias = torch.cat((self._prefix_bias[:, :prefix], tree_bias), dim=1)
        if self._group > 1:
            bias = bias.repeat_interleave(self._group, dim=0)
        return self._finish(features, heads[:, : self._head.config.num_heads], end, bias)

    def _write(self, slot: int, heads: Tensor) -> None:
        """Keys and values of [m, H + 2 H_kv, hd] into the slots from ``slot`` on."""
        config, num = self._head.config, heads.shape[0]
        new = heads[:, config.num_heads :].view(num, 2, config.num_kv_heads, config.head_dim)
        self._cache[:, :, slot : slot + num].copy_(new.permute(1, 2, 0, 3))

    def _finish(self, features: Tensor, queries: Tensor, end: int, bias: Tensor | None) -> Tensor:
        keys, values = self._cache[:, :, :end]
        return self._head.finish(features, queries, keys.transpose(1, 2), values, bias)
