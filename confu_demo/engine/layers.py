"""The decoder layers: the inner loop of every forward, written for few rows on slow machines.

At one row a small model spends its time in the overhead of operations rather than in arithmetic,
so each layer is about 17 calls: norms are divisions by a length (their weights live in the next
matrix), the rotation is one product, keys and values are written by one copy, residuals are added
by ``addmm_``, and all views are prepared (see :mod:`confu_demo.engine.workspace`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from confu_demo.engine.attention import Visibility
from confu_demo.engine.cache import KVCache
from confu_demo.engine.fused import LayerWeights, folds_scales
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.norm import floored_length, length_floor
from confu_demo.engine.rope import rotate_half_precision_
from confu_demo.engine.workspace import Workspace


class LayerStack:
    """All layers of one model. Holds weights, and nothing of a run."""

    def __init__(self, config: ModelConfig, layers: Sequence[LayerWeights], like: Tensor) -> None:
        self._config = config
        self._layers = layers
        self._folds = folds_scales(like.device, like.dtype)
        self._is_grouped = config.num_heads != config.num_kv_heads
        self._length_floor = length_floor(config.hidden_size, config.rms_norm_eps, like)

    def run(
        self,
        hidden: Tensor,
        cache: KVCache,
        rotation: Tensor,
        visible: Visibility,
        feature_layers: tuple[int, ...],
    ) -> Tensor | None:
        """Adds every layer to ``hidden`` [S, D] in place and writes S cache slots.

        ``rotation`` is complex [S, 1, head_dim/2]. Returns the residual streams entering
        ``feature_layers``, concatenated [S, len * D], or None if there are none.
        """
        space = self._workspace(cache, hidden.shape[0])
        slots = cache.next_slots(hidden.shape[0])
        seen = cache.seen_by(hidden.shape[0], visible.uses_side)
        taps: dict[int, Tensor] = {}
        several = hidden.shape[0] > 1
        for index, layer in enumerate(self._layers):
            packed = layer.packed if several else None
            if index in feature_layers:
                taps[index] = hidden.clone()
            self._project(hidden, layer, rotation, space)
            slots[index].copy_(space.keys_values)
            mixed = self._attend(space, seen[2 * index], seen[2 * index + 1], visible)
            if packed is not None:
                hidden.add_(packed.out(mixed))
                inner = packed.gate_up(self._norm(hidden, layer.mlp_norm, space))
                gate, up = inner.chunk(2, dim=-1)
                hidden.add_(packed.down(F.silu(gate).mul_(up)))
                continue
            hidden.addmm_(mixed, layer.out)
            torch.mm(self._norm(hidden, layer.mlp_norm, space), layer.gate_up, out=space.gate_up)
            hidden.addmm_(F.silu(space.gate).mul_(space.up), layer.down)
        if not feature_layers:
            return None
        return torch.cat([taps[index] for index in feature_layers], dim=-1)

    def _project(
        self, hidden: Tensor, layer: LayerWeights, rotation: Tensor, space: Workspace
    ) -> None:
        """Fills ``space.qkv`` with rotated queries and keys, and values."""
        normed = self._norm(hidden, layer.input_norm, space)
        if layer.packed is not None and hidden.shape[0] > 1:
            space.qkv.copy_(layer.packed.qkv(normed))
        elif layer.qkv_bias is None:
            torch.mm(normed, layer.qkv, out=space.qkv)
        else:
            torch.addmm(layer.qkv_bias, normed, layer.qkv, out=space.qkv)
        if layer.qk_norm is not None:
            config = self._config
            unit = F.rms_norm(space.rotated, (config.head_dim,), None, config.rms_norm_eps)
            torch.mul(unit, layer.qk_norm, out=space.rotated)
        if space.pairs is not None:
            space.pairs.mul_(rotation)
        else:
            rotate_half_precision_(space.rotated, rotation)

    def _attend(
        self, space: Workspace, keys: Tensor, values: Tensor, visible: Visibility
    ) -> Tensor:
        """Keys and values [H_kv, K, head_dim] -> [S, H * head_dim]."""
        if space.grouped_queries is not None and visible.bias is None and self._folds:
            # One row: two small products beat the fused kernel by a third on the CPU.
            scores = torch.bmm(space.grouped_queries, keys.transpose(1, 2))  # [H_kv, G, K]
            return torch.bmm(scores.softmax(-1), values).view(1, -1)
        mixed = F.scaled_dot_product_attention(
            space.queries,
            keys.unsqueeze(0),
            values.unsqueeze(0),
            attn_mask=visible.bias,
            is_causal=visible.is_causal,
            scale=1.0 if self._folds else None,
            enable_gqa=self._is_grouped,
        )  # [1, H, S, head_dim]
        return mixed.transpose(1, 2).flatten(0, 1).flatten(1)

    def _norm(self, hidden: Tensor, weight: Tensor | None, space: Workspace) -> Tensor:
        """RMSNorm, or RMSNorm / sqrt(D) where the weight was folded into the next matrix."""
        if weight is None:
            return torch.div(hidden, floored_length(hidden, self._length_floor), out=space.normed)
        return F.rms_norm(hidden, weight.shape, weight, self._config.rms_norm_eps)

    def _workspace(self, cache: KVCache, num_rows: int) -> Workspace:
        """The cache's own buffers; made anew when the number of rows changes."""
        space = cache.workspace
        if space is None or space.qkv.shape[0] != num_rows:
            storage = cache.storage
            space = Workspace.for_rows(num_rows, self._config, storage.device, storage.dtype)
            cache.workspace = space
        return space
