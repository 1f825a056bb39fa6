"""Which keys a row sees, in the form that scaled dot-product attention takes.

Letters: S rows of this forward, P past, s side keys (soft prompts), K = s + P + S.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.engine.cache import SideKeyValues


@dataclass(frozen=True, slots=True)
class Visibility:
    """``bias`` [S, K] is added to the scores; ``is_causal`` instead of it for a fresh prompt;
    neither where every row sees every key. ``uses_side``: the side keys are among the K."""

    bias: Tensor | None
    is_causal: bool
    uses_side: bool


def visibility(
    num_rows: int,
    past: int,
    mask: Tensor | None,
    side: SideKeyValues | None,
    side_rows: Tensor | None,
    like: Tensor,
) -> Visibility:
    """Chooses the cheapest form. ``like`` gives device and dtype. Raises ValueError where mask
    or side_rows do not fit the rows."""
    if mask is not None and mask.shape != (num_rows, past + num_rows):
        raise ValueError(f"mask is {list(mask.shape)}, should be [{num_rows}, {past + num_rows}]")
    if side is None:
        if mask is None and (num_rows == 1 or past == 0):
            return Visibility(None, num_rows > 1, uses_side=False)
        if mask is None:
            mask = causal_mask(num_rows, past, like.device)
        return Visibility(mask_to_bias(mask, like), is_causal=False, uses_side=False)
    if side_rows is None or side_rows.shape != (num_rows,):
        raise ValueError(f"side keys need side_rows with {num_rows} entries")
    if mask is None:
        mask = causal_mask(num_rows, past, like.device)
    side_columns = side_rows.to(mask.device)[:, None].expand(-1, side.num_tokens)
    wide = torch.cat((side_columns, mask), dim=1)
    return Visibility(mask_to_bias(wide, like), is_causal=False, uses_side=True)


def causal_mask(num_rows: int, past: int, device: torch.device) -> Tensor:
    """Bool[S, P + S]. For S = 3, P = 2::

    1 1 1 0 0
    1 1 1 1 0
    1 1 1 1 1
    """
    return torch.ones(num_rows, past + num_rows, dtype=torch.bool, device=device).tril_(past)


def mask_to_bias(mask: Tensor, like: Tensor) -> Tensor:
    """Bool[S, K] (True: may attend) -> additive [S, K].

    Hidden keys get the lowest finite number: their weight is exactly zero, and a row that sees
    nothing stays finite instead of poisoning the cache with NaN.
    """
    bias = torch.zeros(mask.shape, dtype=like.dtype, device=like.device)
    return bias.masked_fill_(~mask.to(like.device), torch.finfo(like.dtype).min)
