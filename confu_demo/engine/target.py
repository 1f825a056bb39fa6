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
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from confu_demo.engine.attention import visibility
from confu_demo.engine.cache import KVCache, SideKeyValues
from confu_demo.engine.fused import folds_scales, fuse_layer, product_layout
from confu_demo.engine.layers import LayerStack
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.norm import floored_length, length_floor
from confu_demo.engine.packed import packed, pays
from confu_demo.engine.rope import rotation_table
from confu_demo.engine.weights import checked_weights, num_parameters_of

if TYPE_CHECKING:
    from confu_demo.engine.probe import ProbeResult

_SPARE_POSITIONS = 64  # positions beyond the capacity that tree rows may ask for


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """``logits`` [R, V] of the rows asked for, float32 (float64 in a float64 model); ``hidden``
    [S, D], the residual stream after the last layer, not normalised; ``features``
    [S, len(feature_layers) * D] or None."""

    logits: Tensor
    hidden: Tensor
    features: Tensor | None


class LeanModel:
    """``weights`` are named as in Hugging Face files, in any dtype.

    ``threads``: CPU threads of every forward (None: as they are), ``single_threads``: of those
    over one row (None: the same); ``probe``: how dtype and threads were chosen, where a loader
    measured it. ``pack``: whether matrices are packed for
    several rows (None: where that pays, see :mod:`confu_demo.engine.packed`).
    """

    @torch.no_grad()
    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Tensor],
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        *,
        pack: bool | None = None,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.dtype = dtype
        self.threads: int | None = None
        self.single_threads: int | None = None
        self.probe: ProbeResult | None = None
        named = checked_weights(config, weights)
        like = torch.empty(0, device=self.device, dtype=dtype)
        self._embedding = named["embed_tokens.weight"].to(like)  # [V, D]
        self._final_norm = named["norm.weight"].to(like)
        self._folds = folds_scales(self.device, dtype)
        if self._folds:
            self._final_norm = (named["norm.weight"].double() * config.hidden_size**0.5).to(like)
        self._length_floor = length_floor(config.hidden_size, config.rms_norm_eps, like)
        head = "embed_tokens.weight" if config.tie_embeddings else "lm_head.weight"
        self._head = product_layout(named[head].to(like))  # [D, V]
        pack = pays(num_parameters_of(config)) if pack is None else pack
        self._packed_head = packed(named[head].to(like)) if pack else None
        layers = [fuse_layer(config, named, i, like, pack) for i in range(config.num_layers)]
        self._stack = LayerStack(config, layers, like)
        self._rotations = torch.empty(0)  # complex [positions, 1, head_dim/2], grown by new_cache

    def embed(self, token_ids: Tensor) -> Tensor:
        """Long[S] -> [S, D]."""
        return F.embedding(token_ids, self._embedding)

    def final_norm(self, hidden: Tensor) -> Tensor:
        """[.., D] -> [.., D], the norm in front of the output head."""
        weight = self._final_norm
        if self._folds:
            return (hidden / floored_length(hidden, self._length_floor)).mul_(weight)
        return F.rms_norm(hidden, weight.shape, weight, self.config.rms_norm_eps)

    def lm_head(self, hidden: Tensor) -> Tensor:
        """[.., D] -> logits [.., V] in float32 (float64 in a float64 model); applies no norm."""
        if self._packed_head is not None and hidden.dim() == 2 and hidden.shape[0] > 1:
            return self._packed_head(hidden)
        logits = hidden @ self._head
        return logits if logits.dtype.itemsize >= 4 else logits.float()

    def lm_head_columns(self, token_ids: Tensor) -> Tensor:
        """The output head of some tokens: Long[n] -> [D, n], a copy."""
        return self._head.index_select(1, token_ids)

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache with room for ``capacity`` tokens, those of draft trees included."""
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
        threads = self.single_threads if num_rows == 1 else None
        threads = threads or self.threads
        if threads is not None and torch.get_num_threads() != threads:
            torch.set_num_threads(threads)  # of this Python thread; see the probe
        if num_rows == 0:
            raise ValueError("a forward needs at least one row")
        cache.require_room(num_rows)
        if side is not None:
            cache.attach(side)
        seen = visibility(num_rows, past, mask, side, side_rows, hidden)
        table = self._rotations
        rotation = table[past : past + num_rows] if positions is None else table[positions]
        features = self._stack.run(hidden, cache, rotation, seen, feature_layers)
        cache.length = past + num_rows
        rows = hidden if logits_rows is None else hidden[logits_rows]
        return ForwardOutput(self.lm_head(self.final_norm(rows)), hidden, features)

    def _input(self, token_ids: Tensor | None, embeddings: Tensor | None) -> Tensor:
        """A fresh [S, D]: the layers add to it in place."""
        if token_ids is not None:
            return F.embedding(token_ids.to(self.device), self._embedding)
        assert embeddings is not None
        return embeddings.to(device=self.device, dtype=self.dtype, copy=True)

    def _rotation_table(self, num_positions: int) -> Tensor:
        table = rotation_table(self.config, num_positions).unsqueeze(1)
        wide = torch.complex128 if self.dtype == torch.float64 else torch.complex64
        return table.to(device=self.device, dtype=wide)
