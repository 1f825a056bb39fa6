"""Many answers at once with the training model: one token a step for every busy row.

Owns a preallocated cache of B rows and what the target thinks at every token (features, last
hidden state, keys and values), so that a draft head can later learn from these answers without
another pass of the target. Knows nothing of prompts, files and heads. For training only.

Activations stay transposed ([D, B], weights on the left): for a few dozen rows that is about
twice as fast on a CPU as the usual order.

Shape letters: B rows, T slots of a row, D hidden, L layers, H and H_kv heads, hd head_dim.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from confu_demo.training.language_model import Attention, LanguageModel, Layer, causal_mask, rotate


@dataclass(frozen=True, slots=True)
class Record:
    """What the target thought at the first n tokens of a row (all but the last one, which was
    never read). float16: what it rounds away is far below what a head can learn [O]."""

    features: Tensor  # float16 [n, len(feature_layers) * D], entering the feature layers
    hidden: Tensor  # float16 [n, D], after the last layer, not normalised
    keys_values: Tensor  # float16 [L, 2, H_kv, n, hd], keys rotated


class RowDecoder:
    """``rows`` independent sequences. A row's slot is its position."""

    def __init__(
        self, model: LanguageModel, rows: int, capacity: int, feature_layers: tuple[int, ...] = ()
    ) -> None:
        config = model.config
        weight = model.model.norm.weight
        self.model, self.capacity, self.feature_layers = model, capacity, feature_layers
        shape = (config.num_layers, 2, rows, config.num_kv_heads, capacity, config.head_dim)
        self._cache = weight.new_zeros(shape)
        width = (len(feature_layers) + 1) * config.hidden_size
        self._thoughts = torch.zeros(
            rows, capacity, width, dtype=torch.float16, device=weight.device
        )
        self._lengths = torch.zeros(rows, dtype=torch.long, device=weight.device)
        self._layers = [layer for layer in model.model.layers if isinstance(layer, Layer)]
        # float32 at least, whatever the model's dtype: rounded logits tie, and a tie is not greedy.
        head_weight = model.lm_head.weight.detach()
        precise = torch.promote_types(head_weight.dtype, torch.float32)
        self._head_weight = head_weight.to(precise)

    @torch.no_grad()
    def start(self, row: int, token_ids: list[int]) -> Tensor:
        """Reads a prompt into a row; logits [V] of what follows."""
        device, num = self._lengths.device, len(token_ids)
        ids = torch.tensor([token_ids], device=device)
        positions = torch.arange(num, device=device)[None]
        output = self.model(
            self.model.embed(ids),
            positions,
            causal_mask(num, device),
            feature_layers=self.feature_layers,
        )
        for layer, (keys, values) in enumerate(output.keys_values):
            self._cache[layer, 0, row, :, :num] = keys[0]
            self._cache[layer, 1, row, :, :num] = values[0]
        parts = [output.hidden[0]] if output.features is None else [
            output.features[0], output.hidden[0]
        ]  # fmt: skip
        self._thoughts[row, :num] = torch.cat(parts, dim=-1).half()
        self._lengths[row] = num
        return self._logits(output.hidden[:, -1])[0]

    @torch.no_grad()
    def step(self, token_ids: Tensor) -> Tensor:
        """Reads one token Long[B] in every row; logits [B, V] of what follows. A row that is idle
        reads too and must be started anew before it counts: views of all rows are much cheaper
        than copies of the busy ones."""
        positions = self._lengths.clamp(max=self.capacity - 1)
        hidden = self.model.embed(token_ids)
        rope = tuple(part.transpose(0, 2) for part in self.model.rope(positions[None]))
        longest = int(positions.max()) + 1
        slots = torch.arange(longest, device=positions.device)
        unseen = (slots > positions[:, None])[:, None, None]  # [B, 1, 1, T]
        thoughts = []
        for index, layer in enumerate(self._layers):
            if index in self.feature_layers:
                thoughts.append(hidden)
            normed = layer.input_layernorm(hidden)
            mixed = self._attend(index, layer.self_attn, normed, rope, positions, unseen)
            hidden = hidden + _product(mixed, layer.self_attn.o_proj)
            normed, mlp = layer.post_attention_layernorm(hidden), layer.mlp
            inner = F.silu(_product(normed, mlp.gate_proj)) * _product(normed, mlp.up_proj)
            hidden = hidden + _product(inner, mlp.down_proj)
        thoughts.append(hidden)
        rows = torch.arange(len(positions), device=positions.device)
        self._thoughts[rows, positions] = torch.cat(thoughts, dim=-1).half()
        self._lengths += 1
        return self._logits(hidden)

    def _logits(self, hidden: Tensor) -> Tensor:
        normed = self.model.model.norm(hidden).to(self._head_weight.dtype)
        return torch.mm(self._head_weight, normed.t()).t()

    def record(self, row: int) -> Record:
        """What has been read in a row so far."""
        num = int(self._lengths[row])
        thoughts = self._thoughts[row, :num].cpu()
        width = self.model.config.hidden_size
        keys_values = self._cache[:, :, row, :, :num].half().cpu()
        return Record(
            thoughts[:, :-width].clone(), thoughts[:, -width:].clone(), keys_values.contiguous()
        )

    def _attend(
        self,
        index: int,
        attention: Attention,
        normed: Tensor,
        rope: tuple[Tensor, ...],
        positions: Tensor,
        unseen: Tensor,
    ) -> Tensor:
        config = self.model.config
        rows = torch.arange(len(positions), device=positions.device)
        heads = (len(rows), -1, 1, config.head_dim)
        q, k, v = (
            _product(normed, project).reshape(heads)
            for project in (attention.q_proj, attention.k_proj, attention.v_proj)
        )  # [B, H or H_kv, 1, hd]
        if config.qk_norm:
            q, k = attention.q_norm(q), attention.k_norm(k)
        cos, sin = rope
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self._cache[index, 0, rows, :, positions] = k[:, :, 0]
        self._cache[index, 1, rows, :, positions] = v[:, :, 0]
        longest = unseen.shape[-1]
        keys, values = self._cache[index, :, :, :, :longest]
        q = q.reshape(len(rows), config.num_kv_heads, -1, config.head_dim)
        scores = torch.matmul(q, keys.transpose(2, 3)) / math.sqrt(config.head_dim)
        weights = scores.masked_fill(unseen, torch.finfo(q.dtype).min).softmax(dim=-1)
        return torch.matmul(weights, values).reshape(len(rows), -1)


def _product(x: Tensor, linear: torch.nn.Linear) -> Tensor:
    """x [B, in] through a linear layer, weights on the left: see above."""
    out = torch.mm(linear.weight, x.t()).t()
    return out if linear.bias is None else out + linear.bias
