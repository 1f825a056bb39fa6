"""How good a head is on held-out own outputs: acceptance by depth and length of a chain.

The documents are greedy, so along them the target's argmax is the next token and a chain draft
is accepted exactly as long as its tokens match. From root row t the drafter's own tokens equal
the teacher-forced ones until the first mismatch, so the accepted length of a chain is read off
one unrolled forward without decoding anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.training.drafter_unroll import UnrollResult


@dataclass(frozen=True, slots=True)
class HeadScore:
    """``acceptance``: share of positions whose drafted token at depth 1, 2, ... is the target's,
    the tokens before it being given. ``mean_length``: accepted tokens + 1 of a chain, every
    position being a root. ``walked_length``: the same over the cycles that decoding with a chain
    of this depth would really have. ``documents``: (tokens, cycles) of those in every document."""

    acceptance: list[float]
    mean_length: float
    walked_length: float
    loss: float
    positions: int
    cycles: int
    documents: list[tuple[int, int]]


@torch.no_grad()
def score(results: Iterable[UnrollResult]) -> HeadScore:
    """Adds up the unrolled forwards of many batches. Rows must be all root rows in order.

    ValueError when there is nothing to predict."""
    matches, labels = [], []
    losses: list[tuple[float, int]] = []
    walks: list[list[int]] = []
    for result in results:
        valid = result.has_label[..., 0]
        matches.append(result.matches[valid])
        labels.append(result.has_label[valid])
        losses.append((float(result.loss), int(valid.sum())))
        lengths = accepted_lengths(result.matches)
        for document, length in zip(valid, lengths, strict=True):
            walks.append(walk(length[document].tolist()))
    positions = sum(count for _, count in losses)
    if positions == 0:
        raise ValueError("the held-out documents have nothing to predict")
    right, known = torch.cat(matches), torch.cat(labels)
    return HeadScore(
        (right.sum(0) / known.sum(0).clamp(min=1)).tolist(),
        1.0 + float(accepted_lengths(right).float().mean()),
        sum(map(sum, walks)) / sum(map(len, walks)),
        sum(loss * count for loss, count in losses) / positions,
        positions,
        sum(map(len, walks)),
        [(sum(lengths), len(lengths)) for lengths in walks],
    )


def accepted_lengths(matches: Tensor) -> Tensor:
    """Bool[.., steps] -> Long[..], how many leading steps match."""
    return matches.long().cumprod(dim=-1).sum(-1)


def walk(lengths: list[int]) -> list[int]:
    """Tokens that each cycle commits. ``lengths[t]``: accepted tokens of a chain from root row
    t of a completion; the next root is the token after the accepted ones."""
    committed, row = [], 0
    while row < len(lengths):
        committed.append(lengths[row] + 1)
        row += lengths[row] + 1
    return committed
