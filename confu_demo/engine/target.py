"""The lean forward: one pass of a Llama-family model over any packed rows.

Owns the weights of one model and nothing of a run. A row is a token (or an embedding) with a
position and a set of keys that it may see, so a prompt, a single token, a draft tree, contemplate
tokens and the parallel steps of ConfSpec are all the same forward. The model is a target or a
draft model; it does not know which.

Proved equal to transformers' own models in tests/engine/test_target.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from confu_demo.engine.attention import attend, causal_mask, mask_to_bias
from confu_demo.engine.cache import KVCache, SideKeyValues
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.rope import rotate_, rotation_table
from confu_demo.engine.weights import LayerWeights, checked_weights, fuse_layer

_SPARE_POSITIONS = 64  # positions beyond the capacity that tree rows may ask for


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """``logits`` [R, V] of the rows asked for, float32 (float64 in a float64 model); ``hidden`` [S, D], the residual stream
    after the last layer, not normalised; ``features`` [S, len(feature_layers) * D] or None."""

    logits: Tensor
    hidden: Tensor
    features: Tensor | None


class LeanModel:
    """``weights`` are named as in Hugging Face files, in any dtype."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Tensor],
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.dtype = dtype
        named = checked_weights(config, weights)
        like = torch.empty(0, device=self.device, dtype=dtype)
        self._embedding = named["embed_tokens.weight"].to(like)  # [V, D]
        self._final_norm = named["norm.weight"].to(like)
        head = "embed_tokens.weight" if config.tie_embeddings else "lm_head.weight"
        self._head = named[head].to(like)  # [V, D]
        self._layers = [fuse_layer(config, named, i, like) for i in range(config.num_layers)]
        self._rotations = torch.empty(0)
        self._scale = config.head_dim**-0.5
        self._num_qk_heads = config.num_heads + config.num_kv_heads

    def embed(self, token_ids: Tensor) -> Tensor:
        """Long[S] -> [S, D]."""
        return F.embedding(token_ids, self._embedding)

    def final_norm(self, hidden: Tensor) -> Tensor:
        """[.., D] -> [.., D], the norm in front of the output head."""
        return self._norm(hidden, self._final_norm)

    def lm_head(self, hidden: Tensor) -> Tensor:
        """[.., D] -> logits [.., V] in float32 (float64 in a float64 model); applies no norm."""
        logits = F.linear(hidden, self._head)
        return logits if logits.dtype.itemsize >= 4 else logits.float()

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache with room for ``capacity`` tokens, tree and contemplate tokens included."""
        if self._rotations.shape[0] < capacity + _SPARE_POSITIONS:
            self._rotations = self._rotation_table(capacity + _SPARE_POSITIONS)
        return KVCache(
            num_layers=self.config.num_layers,
            num_kv_heads=self.config.num_kv_heads,
            head_dim=self.config.head_dim,
            capacity=capacity,
            device=self.device,
            dtype=self.dtype,
        )

    @torch.inference_mode()
    def side_key_values(self, embeddings: Tensor) -> SideKeyValues:
        """Runs soft prompts [s, D] once, causally at positions 0..s-1, and keeps their keys and
        values of every layer."""
        num_tokens = embeddings.shape[0]
        cache = self.new_cache(num_tokens)
        self.forward(cache, embeddings=embeddings, logits_rows=slice(0, 0))
        return SideKeyValues(cache.storage)

    @torch.inference_mode()
    def forward(
        self,
        cache: KVCache,
        *,
        token_ids: Tensor | None = None,
        embeddings: Tensor | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        side: SideKeyValues | None = None,
        side_rows: Tensor | None = None,
        feature_layers: tuple[int, ...] = (),
        logits_rows: slice | Tensor | None = None,
    ) -> ForwardOutput:
        """One pass over S rows, which are appended to the cache (slots P..P+S-1).

        Rows are ``token_ids`` Long[S] or ``embeddings`` [S, D], at ``positions`` Long[S]
        (default P..P+S-1). ``mask`` Bool[S, P+S] says which keys a row sees (default: causal).
        ``side`` keys are seen by the rows of ``side_rows`` Bool[S] only. ``feature_layers``
        taps the residual stream *entering* those 0-based layers. ``logits_rows`` selects the
        rows that get logits (None: all; ``slice(0, 0)``: none).

        Raises :class:`~confu_demo.engine.errors.ContextFull` beyond the capacity, ValueError
        for arguments that do not fit together. The outputs are inference tensors: clone them
        before changing them in place.
        """
        if (token_ids is None) == (embeddings is None):
            raise ValueError("a forward needs token_ids or embeddings, and not both")
        hidden = self._input(token_ids, embeddings)
        num_rows, past = hidden.shape[0], cache.length
        cache.require_room(num_rows)
        if side is not None:
            cache.attach(side)
        bias = self._bias(num_rows, past, mask, side, side_rows)
        rotation = (
            self._rotations[past : past + num_rows]
            if positions is None
            else self._rotations[positions]
        ).unsqueeze(1)  # [S, 1, head_dim/2]
        features = self._run_layers(hidden, cache, side is not None, rotation, bias, feature_layers)
        cache.length = past + num_rows
        rows = hidden if logits_rows is None else hidden[logits_rows]
        return ForwardOutput(self.lm_head(self.final_norm(rows)), hidden, features)

    def _input(self, token_ids: Tensor | None, embeddings: Tensor | None) -> Tensor:
        """A fresh [S, D]: the layers add to it in place."""
        if token_ids is not None:
            return F.embedding(token_ids, self._embedding)
        assert embeddings is not None
        return embeddings.to(device=self.device, dtype=self.dtype, copy=True)

    def _bias(
        self,
        num_rows: int,
        past: int,
        mask: Tensor | None,
        side: SideKeyValues | None,
        side_rows: Tensor | None,
    ) -> Tensor | None:
        """What hides keys from rows, [S * G, side + P + S]; None where every key is seen."""
        if mask is None:
            if num_rows == 1 and side is None:
                return None
            mask = causal_mask(num_rows, past, self.device)
        elif mask.shape != (num_rows, past + num_rows):
            raise ValueError(
                f"mask is {list(mask.shape)}, should be [{num_rows}, {past + num_rows}]"
            )
        if side is not None:
            if side_rows is None or side_rows.shape != (num_rows,):
                raise ValueError(f"side keys need side_rows with {num_rows} entries")
            mask = torch.cat((side_rows[:, None].expand(-1, side.num_tokens), mask), dim=1)
        return mask_to_bias(mask, self.config.num_heads // self.config.num_kv_heads, self.dtype)

    def _run_layers(
        self,
        hidden: Tensor,
        cache: KVCache,
        use_side: bool,
        rotation: Tensor,
        bias: Tensor | None,
        feature_layers: tuple[int, ...],
    ) -> Tensor | None:
        """Adds every layer to ``hidden`` in place; returns the tapped residual streams."""
        start = cache.num_side + cache.length
        end = start + hidden.shape[0]
        first = 0 if use_side else cache.num_side
        storage = cache.storage
        # One slicing of the whole cache and one unbind are cheaper than L slicings.
        slots = storage[:, :, :, start:end].unbind(0)  # [2, H_kv, S, head_dim] each
        keys = storage[:, 0, :, first:end].transpose(2, 3).unbind(0)  # [H_kv, head_dim, K]
        values = storage[:, 1, :, first:end].unbind(0)  # [H_kv, K, head_dim]
        taps: dict[int, Tensor] = {}
        for index, layer in enumerate(self._layers):
            if index in feature_layers:
                taps[index] = hidden.clone()
            self._layer(layer, hidden, slots[index], keys[index], values[index], rotation, bias)
        if not feature_layers:
            return None
        return torch.cat([taps[index] for index in feature_layers], dim=-1)

    def _layer(
        self,
        layer: LayerWeights,
        hidden: Tensor,
        slot: Tensor,
        keys: Tensor,
        values: Tensor,
        rotation: Tensor,
        bias: Tensor | None,
    ) -> None:
        config = self.config
        num_rows = hidden.shape[0]
        normed = self._norm(hidden, layer.input_norm)
        if layer.qkv_bias is None:
            qkv = torch.mm(normed, layer.qkv)
        else:
            qkv = torch.addmm(layer.qkv_bias, normed, layer.qkv)
        heads = qkv.view(num_rows, -1, config.head_dim)  # [S, H + 2 H_kv, head_dim]
        rotated = heads[:, : self._num_qk_heads]
        if layer.qk_norm is not None:
            rotated.copy_(F.rms_norm(rotated, (config.head_dim,), None, config.rms_norm_eps))
            rotated.mul_(layer.qk_norm)
        rotate_(rotated, rotation)
        new = heads[:, config.num_heads :].view(num_rows, 2, config.num_kv_heads, config.head_dim)
        slot.copy_(new.permute(1, 2, 0, 3))
        mixed = attend(heads[:, : config.num_heads], keys, values, bias, self._scale)
        hidden.addmm_(mixed, layer.out)
        gate_up = torch.mm(self._norm(hidden, layer.mlp_norm), layer.gate_up)
        gate, up = gate_up.chunk(2, dim=-1)
        hidden.addmm_(F.silu(gate).mul_(up), layer.down)

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(hidden, weight.shape, weight, self.config.rms_norm_eps)

    def _rotation_table(self, num_positions: int) -> Tensor:
        table = rotation_table(self.config, num_positions)
        wide = torch.complex128 if self.dtype == torch.float64 else torch.complex64
        return table.to(device=self.device, dtype=wide)
