"""Where ConFu's contemplate tokens stand while training, and which rows their f serves.

Pure functions of a batch and a generator. *Anchor token sampling* [P]: K random positions of a
document get a [con]. *Future prediction replication* [P], forward only [O]: the f of an anchor a
serves the root rows a..a+l; a [con] has read its own token, so serving an earlier row would leak
the label. *Router lag* [O]: all [con] of one verify forward share the embedding routed from the
last token accepted before it, so the [con] after the token at depth d of the tree below root x_n
is routed from x_{n-1}, a lag of d + 1; the prompt's own [con] is routed from the token that it
follows, a lag of 0.

Shape letters: B documents, K anchors, R root rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.training.head_batches import HeadBatch


@dataclass(frozen=True, slots=True)
class Anchors:
    """All Long or Bool[B, K]. A [con] stands after token ``places`` at position places + 1, its
    mixture reads the features of ``routed_from``, its f serves ``reach`` later rows too."""

    places: Tensor  # increasing; not ``valid`` ones repeat an allowed place
    valid: Tensor
    routed_from: Tensor
    reach: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorSettings:
    """Our choices, within what the design asks for. ``max_lag`` is the deepest tree + 1."""

    num_anchors: int = 48  # K
    max_reach: int = 7  # l is drawn from 0..max_reach
    max_lag: int = 7

    def __post_init__(self) -> None:
        if self.num_anchors < 1 or self.max_reach < 0 or self.max_lag < 1:
            raise ValueError("anchors and lag must be 1 or more, the reach 0 or more")


def draw_anchors(
    rows: Tensor, valid: Tensor, settings: AnchorSettings, generator: torch.Generator
) -> Anchors:
    """K distinct random root rows of each document, or all where it has fewer."""
    num = min(settings.num_anchors, rows.size(1))
    draws = torch.rand(rows.shape, generator=generator, device=rows.device)
    chosen = draws.masked_fill(~valid, -1.0).topk(num, dim=1).indices.sort(dim=1).values
    places, real = rows.gather(1, chosen), valid.gather(1, chosen)
    reach = torch.randint(
        settings.max_reach + 1, places.shape, generator=generator, device=rows.device
    )
    routed = routed_from(places, rows[:, :1], settings.max_lag, generator)
    return Anchors(torch.where(real, places, rows[:, :1]), real, routed, reach)


def every_row(rows: Tensor, valid: Tensor, max_lag: int, generator: torch.Generator) -> Anchors:
    """An anchor at each root row that serves this row alone, as decoding does with a [con] after
    every node: for evaluation."""
    routed = routed_from(rows, rows[:, :1], max_lag, generator)
    return Anchors(torch.where(valid, rows, rows[:, :1]), valid, routed, torch.zeros_like(rows))


def routed_from(places: Tensor, first: Tensor, max_lag: int, generator: torch.Generator) -> Tensor:
    """Positions whose features the [con] mixture reads. The first row (the prompt's last token,
    ``first`` [B, 1]) is routed from itself, the others from 1 to ``max_lag`` tokens before, but
    never from before the first row."""
    lags = 1 + torch.randint(max_lag, places.shape, generator=generator, device=places.device)
    return torch.maximum(places - lags, first)


def serving_anchor(anchors: Anchors, rows: Tensor) -> Tensor:
    """Long[B, R]: index of the nearest anchor at or before each row that reaches it, else -1."""
    distance = rows[:, :, None] - anchors.places[:, None, :]  # [B, R, K]
    serves = (distance >= 0) & (distance <= anchors.reach[:, None]) & anchors.valid[:, None]
    far = torch.iinfo(torch.long).max
    nearest, index = torch.where(serves, distance, far).min(dim=-1)
    return torch.where(nearest < far, index, -1)


def pack_rows(rows: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Drops what is not valid: [B, R] -> [B, the largest number of valid rows], in order."""
    order = torch.argsort((~valid).long(), dim=1, stable=True)[:, : max(1, int(valid.sum(1).max()))]
    kept = valid.gather(1, order)
    return torch.where(kept, rows.gather(1, order), 0), kept


def con_mask(batch: HeadBatch, anchors: Anchors, num_soft: int, num_each: int = 1) -> Tensor:
    """Bool[B, K * n, s + S + K * n]: the n = ``num_each`` [con] of an anchor see the soft prompts,
    the tokens up to their anchor, and the earlier ones of the same anchor and themselves. For
    s = 1, S = 3, n = 1 and anchors 0 and 2::

               soft  tokens  con
        con 0  1     1 0 0   1 0
        con 2  1     1 1 1   0 1
    """
    places = anchors.places.repeat_interleave(num_each, dim=1)
    num_documents, num_con = places.shape
    device = places.device
    tokens = torch.arange(batch.token_ids.size(1), device=device)
    number = torch.arange(num_con, device=device)
    same = number[:, None] // num_each == number // num_each
    own = same & (number <= number[:, None])
    parts = (
        torch.ones(num_documents, num_con, num_soft, dtype=torch.bool, device=device),
        tokens <= places[..., None],
        own.expand(num_documents, -1, -1),
    )
    return torch.cat(parts, dim=-1)
