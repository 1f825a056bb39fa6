"""The buffers of one layer for S rows, with every view of them that the forward needs.

All layers of a forward, and all forwards of S rows on one cache, write into the same buffers.
Views cost about as much as a small product in PyTorch, so they are made once: that is a quarter
of the plain single-token loop. A workspace belongs to one cache, so runs never share one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.rope import as_pairs


@dataclass(frozen=True, slots=True)
class Workspace:
    """``normed``, ``qkv`` and ``gate_up`` are buffers, the others views of them."""

    normed: Tensor  # [S, D]
    qkv: Tensor  # [S, (H + 2 H_kv) * head_dim]
    rotated: Tensor  # [1, S, H + H_kv, head_dim]: q and k
    pairs: Tensor | None  # ``rotated`` as complex numbers; None in half precision
    queries: Tensor  # [1, H, S, head_dim]
    grouped_queries: Tensor | None  # [H_kv, G, head_dim] where S = 1
    keys_values: Tensor  # [2, H_kv, S, head_dim]: what the cache gets
    gate_up: Tensor  # [S, 2 I]
    gate: Tensor  # [S, I]
    up: Tensor  # [S, I]

    @classmethod
    def for_rows(
        cls, num_rows: int, config: ModelConfig, device: torch.device, dtype: torch.dtype
    ) -> Workspace:
        heads, kv_heads, head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        qkv_size = (heads + 2 * kv_heads) * head_dim
        qkv = torch.empty(num_rows, qkv_size, device=device, dtype=dtype)
        split = qkv.view(1, num_rows, -1, head_dim)
        rotated = split[:, :, : heads + kv_heads]
        new = split[0, :, heads:].view(num_rows, 2, kv_heads, head_dim)
        gate_up = torch.empty(num_rows, 2 * config.intermediate_size, device=device, dtype=dtype)
        gate, up = gate_up.chunk(2, dim=-1)
        grouped = split[0, 0, :heads].view(kv_heads, -1, head_dim) if num_rows == 1 else None
        return cls(
            normed=torch.empty(num_rows, config.hidden_size, device=device, dtype=dtype),
            qkv=qkv,
            rotated=rotated,
            pairs=as_pairs(rotated) if dtype.itemsize >= 4 else None,
            queries=split[:, :, :heads].transpose(1, 2),
            grouped_queries=grouped,
            keys_values=new.permute(1, 2, 0, 3),
            gate_up=gate_up,
            gate=gate,
            up=up,
        )
