"""Grouped-query attention over a cache, for few rows at a time.

Letters: S rows of this forward, K keys (side keys, past and this forward's own), H query heads,
H_kv key/value heads, G = H / H_kv. The G query heads that share keys become rows of one product,
so keys and values are never repeated.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attend(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """softmax(queries keys * scale + bias) values.

    queries [S, H, head_dim], keys transposed [H_kv, head_dim, K], values [H_kv, K, head_dim],
    bias [S * G, K] (see :func:`mask_to_bias`) or None -> [S, H * head_dim].
    """
    num_rows, num_heads, head_dim = queries.shape
    num_kv_heads = keys.shape[0]
    group = num_heads // num_kv_heads
    grouped = queries.view(num_rows, num_kv_heads, group, head_dim).transpose(0, 1)
    grouped = grouped.reshape(num_kv_heads, num_rows * group, head_dim)
    if bias is None:
        scores = torch.bmm(grouped, keys).mul_(scale)  # [H_kv, S * G, K]
    else:
        scores = torch.baddbmm(bias, grouped, keys, alpha=scale)
    mixed = torch.bmm(scores.softmax(-1), values)  # [H_kv, S * G, head_dim]
    mixed = mixed.view(num_kv_heads, num_rows, group, head_dim).transpose(0, 1)
    return mixed.reshape(num_rows, num_heads * head_dim)


def mask_to_bias(mask: Tensor, group: int, dtype: torch.dtype) -> Tensor:
    """Bool[S, K] (True: may attend) -> additive [S * G, K], rows in the order of :func:`attend`.

    Hidden keys get the lowest finite number: their weight is exactly zero, and a row that sees
    nothing stays finite instead of poisoning the cache with NaN.
    """
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    bias.masked_fill_(~mask, torch.finfo(dtype).min)
    return bias.repeat_interleave(group, dim=0) if group > 1 else bias


def causal_mask(num_rows: int, past: int, device: torch.device) -> Tensor:
    """Bool[S, P + S]. For S = 3, P = 2::

    1 1 1 0 0
    1 1 1 1 0
    1 1 1 1 1
    """
    return torch.ones(num_rows, past + num_rows, dtype=torch.bool, device=device).tril_(past)
