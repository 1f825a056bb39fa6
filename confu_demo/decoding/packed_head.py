"""An EAGLE-3 head laid out for few rows at a time, on the target's device and in its dtype.

Owns the packed weights and the maths of draft rows on them: one matrix for q, k and v, one for
gate and up, rotary pairs as neighbours, norm weights folded into the next matrix where that pays
(as in :mod:`confu_demo.engine.layers`). Knows no cache and no tree. Proved equal to
:class:`~confu_demo.heads.eagle.EagleHead` in tests/decoding/test_drafting.py.

Shape letters: m rows, K keys, D hidden, D_t target hidden, ``hd`` head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from confu_demo.engine.fused import folds_scales, product_layout
from confu_demo.engine.norm import floored_length, length_floor
from confu_demo.engine.packed import PackedMatrix, packed, pays
from confu_demo.engine.rope import as_pairs, pair_neighbours, rotate_half_precision_
from confu_demo.engine.target import LeanModel
from confu_demo.heads.eagle import EagleHead


@dataclass(frozen=True, slots=True)
class _SeveralRows:
    """The matrices packed for several rows, where that pays (:mod:`confu_demo.engine.packed`)."""

    qkv: PackedMatrix | None
    out: PackedMatrix | None
    gate_up: PackedMatrix | None
    down: PackedMatrix | None
    lm_head: PackedMatrix | None
    fc: PackedMatrix | None


def _product(rows: Tensor, matrix: Tensor, several: PackedMatrix | None) -> Tensor:
    """[m, in] x [in, out] -> a new [m, out]."""
    if several is not None and rows.shape[0] > 1:
        return several(rows)
    return torch.mm(rows, matrix)


class PackedHead:
    """Weights of one head. Matrices are [in, out]; a norm is None where it was folded."""

    def __init__(self, head: EagleHead, target: LeanModel) -> None:
        config, layer = head.config, head.midlayer
        self.config = config
        self.target = target
        self.like = torch.empty(0, device=target.device, dtype=target.dtype)
        self._is_grouped = config.num_heads != config.num_kv_heads
        self._length_floor = length_floor(config.hidden_size, config.rms_norm_eps, self.like)

        attention, mlp = layer.self_attn, layer.mlp
        q, k = (
            pair_neighbours(projection.weight.detach(), config.head_dim)
            for projection in (attention.q_proj, attention.k_proj)
        )
        qkv = torch.cat((q, k, attention.v_proj.weight.detach()))
        left, right = qkv.chunk(2, dim=1)  # for the embedding and for the feature
        self._embedding_norm, left = self._fold(layer.input_layernorm.weight, left)
        self._feature_norm, right = self._fold(layer.hidden_norm.weight, right)
        self._residual_norm = (
            layer.hidden_norm.weight.detach().to(self.like) if config.norm_before_residual else None
        )
        self._qkv = product_layout(torch.cat((left, right), dim=1))
        gate_up = torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight))
        self._mlp_norm, gate_up = self._fold(layer.post_attention_layernorm.weight, gate_up)
        self._gate_up = product_layout(gate_up)
        self._final_norm, lm_head = self._fold(head.norm.weight, head.lm_head.weight)
        self._lm_head = product_layout(lm_head)
        out, down, fc = (
            linear.weight.detach().to(self.like)
            for linear in (attention.o_proj, mlp.down_proj, head.fc)
        )
        self._out, self._down, self._fc = map(product_layout, (out, down, fc))
        joined = torch.cat((left, right), dim=1)
        self._several = _SeveralRows(
            *(
                packed(weight) if pays(sum(p.numel() for p in head.parameters())) else None
                for weight in (joined, out, gate_up, down, lm_head, fc)
            )
        )
        ids = torch.arange(config.draft_vocab_size, device=head.d2t.device)
        self._target_ids = head.draft_to_target(ids).to(target.device)

    def rotations(self, num_positions: int) -> Tensor:
        """Complex[num_positions, 1, hd/2]: the rotation of every position."""
        angles = torch.arange(num_positions).float()[:, None] * self.config.frequencies()
        table = torch.complex(angles.cos(), angles.sin()).unsqueeze(1)
        wide = torch.complex128 if self.like.dtype == torch.float64 else torch.complex64
        return table.to(device=self.like.device, dtype=wide)

    def fuse(self, features: Tensor) -> Tensor:
        """Target features [m, 3*D_t] -> [m, D]."""
        return _product(features, self._fc, self._several.fc)

    def project(self, embeddings: Tensor, features: Tensor, rotations: Tensor) -> Tensor:
        """Rows [m, D] twice, rotations [m or 1, 1, hd/2] -> rotated q and k, and v:
        [m, H + 2 H_kv, hd]."""
        config = self.config
        left = self._norm(embeddings, self._embedding_norm)
        right = self._norm(features, self._feature_norm)
        qkv = _product(torch.cat((left, right), dim=1), self._qkv, self._several.qkv)
        heads = qkv.view(qkv.shape[0], -1, config.head_dim)
        rotated = heads[:, : config.num_heads + config.num_kv_heads]
        if heads.dtype.itemsize >= 4:
            as_pairs(rotated).mul_(rotations)
        else:
            rotate_half_precision_(rotated, rotations)
        return heads

    def finish(
        self, features: Tensor, queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Attention and MLP of m rows: features [m, D], queries [m, H, hd], keys and values
        [H_kv, K, hd], bias [m, K] -> un-normalised output [m, D], the next feature."""
        mixed = F.scaled_dot_product_attention(
            queries.transpose(0, 1).unsqueeze(0),
            keys.unsqueeze(0),
            values.unsqueeze(0),
            attn_mask=bias,
            enable_gqa=self._is_grouped,
        )  # [1, H, m, hd]
        mixed = mixed.transpose(1, 2).reshape(features.shape[0], -1)
        several = self._several
        if self._residual_norm is not None:
            features = self._norm(features, self._residual_norm)
        hidden = features + _product(mixed, self._out, several.out)
        inner = _product(self._norm(hidden, self._mlp_norm), self._gate_up, several.gate_up)
        gate, up = inner.chunk(2, dim=1)
        return hidden.add_(_product(F.silu(gate).mul_(up), self._down, several.down))

    @property
    def target_ids(self) -> Tensor:
        """Long[V_d]: the target id of every draft id."""
        return self._target_ids

    def best_children(
        self, hidden: Tensor, num: int, added: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """[m, D] -> the ``num`` likeliest next tokens of every row: target ids Long[m, num] and
        float32 log-probabilities over the draft vocabulary [m, num]. ``added`` float32 [1, V_d]
        goes into every row's logits."""
        logits = _product(
            self._norm(hidden, self._final_norm), self._lm_head, self._several.lm_head
        )
        logits = logits.float() if added is None else logits.float() + added
        log_probs, ids = torch.log_softmax(logits, dim=-1).topk(num, dim=-1)
        return self._target_ids.take(ids), log_probs

    def _norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """RMSNorm, or RMSNorm / sqrt(D) where the weight was folded into the next matrix."""
        if weight is None:
            return x / floored_length(x, self._length_floor)
        return F.rms_norm(x, weight.shape, weight, self.config.rms_norm_eps)

    def _fold(self, norm: Tensor, matrix: Tensor) -> tuple[Tensor | None, Tensor]:
        """(norm weight [in], matrix [out, in]) as :meth:`_norm` and the product need them."""
        norm, matrix = norm.detach(), matrix.detach()
        if not folds_scales(self.like.device, self.like.dtype):
            return norm.to(self.like), matrix.to(self.like)
        scaled = matrix.double() * (norm.double() * norm.shape[0] ** 0.5)
        return None, scaled.to(self.like)
