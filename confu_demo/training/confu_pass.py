"""What the target contemplates while training, and the future columns that come of it.

Pure functions of a head, a batch and the target's pass over it; the recipe is told in
:mod:`confu_demo.training.confu`. Owns the controls of f as well. [P] marks the paper
(arXiv 2603.08899), [O] our choice.

Shape letters: B documents, S tokens, R rows, K anchors, s soft prompts, D hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from confu_demo.heads.confu import ConfuHead
from confu_demo.training.anchors import Anchors, con_mask
from confu_demo.training.drafter_unroll import (
    FutureColumns,
    Outlook,
    gather_rows,
    head_candidates,
)
from confu_demo.training.head_batches import HeadBatch, TargetPass
from confu_demo.training.language_model import KeyValue, LanguageModel, causal_mask

FutureMode = Literal["on", "zeroed", "shuffled", "hidden"]
FutureSource = Literal["fused", "last"]
"""Where f is read: the fused three-layer feature of [con], or its state after the last layer."""
FUTURE_MODES: tuple[FutureMode, ...] = ("on", "zeroed", "shuffled", "hidden")


@dataclass(frozen=True, slots=True)
class Contemplation:
    """What the target thought at the n [con] of every anchor. ``features`` [B, K, n * W] is what
    f is made of (W: three layers, or D where f is read after the last one); ``hidden``
    [B, K * n, D] the un-normalised state after the last layer."""

    features: Tensor
    hidden: Tensor


def contemplate(
    target: LanguageModel,
    head: ConfuHead,
    batch: HeadBatch,
    answers: TargetPass,
    anchors: Anchors,
    source: FutureSource = "fused",
    num_each: int = 1,
) -> Contemplation:
    """The target reads ``num_each`` [con] one after the other at each anchor, with gradients into
    soft prompts and [con] mixture. Computed in the target's dtype; the result has the head's."""
    layers, dtype = head.config.eagle.feature_layers, target.model.norm.weight.dtype
    con, _ = head.con_mixture(gather_rows(answers.features, anchors.routed_from))
    result = con.dtype
    con, soft = con.to(dtype), head.soft_prompt.embeddings[None].to(dtype)
    num_soft, num_documents = soft.size(1), con.size(0)
    soft_keys_values: list[KeyValue] = []
    if num_soft:
        places = torch.arange(num_soft, device=con.device)[None]
        prompt = target(soft, places, causal_mask(num_soft, con.device))
        soft_keys_values = prompt.keys_values
    known = [(keys.to(dtype), values.to(dtype)) for keys, values in answers.keys_values]
    past = (
        known
        if not num_soft
        else [
            (
                torch.cat((soft_keys.expand(num_documents, -1, -1, -1), keys), dim=2),
                torch.cat((soft_values.expand(num_documents, -1, -1, -1), values), dim=2),
            )
            for (soft_keys, soft_values), (keys, values) in zip(
                soft_keys_values, known, strict=True
            )
        ]
    )
    mask = con_mask(batch, anchors, num_soft, num_each)
    con = con.repeat_interleave(num_each, dim=1)
    nth = torch.arange(num_each, device=con.device).repeat(anchors.places.size(1))
    positions = anchors.places.repeat_interleave(num_each, dim=1) + 1 + nth
    output = target(con, positions, mask, past, feature_layers=layers)
    states = output.hidden if source == "last" else output.features
    features = states.reshape(num_documents, anchors.places.size(1), -1)
    return Contemplation(features.to(result), output.hidden.to(result))


@dataclass(frozen=True, slots=True)
class Foresight:
    """``loss``: cross-entropy of what the [con] foresee, the nearer token counting more; ``hits``
    of ``places`` name the target's likeliest token (among the candidates) after the next one."""

    loss: Tensor
    hits: int
    places: int


FORESIGHT_DECAY = 0.5
"""Each further token foreseen counts half as much [O]: what it is worth to a draft falls faster."""


def foresight(
    target: LanguageModel,
    head: ConfuHead,
    hidden: Tensor,
    batch: HeadBatch,
    answers: TargetPass,
    anchors: Anchors,
    num_candidates: int | None = None,
) -> Foresight:
    """How well the target's own norm and output head read off a [con] what comes after the next
    token [O].

    The [con] after x_a stands where x_{a+1} will stand and does not know it: it foresees x_{a+2},
    a second [con] there x_{a+3}, and so does the second of the head's ``foresight_maps``. What they
    are held against is the target's distribution once it has read the tokens between, on the draft
    vocabulary, where its likeliest token is a draft token. ``hidden`` [B, K * n, D] as in
    :class:`Contemplation`.
    """
    normed = target.model.norm(hidden.to(target.model.norm.weight.dtype))
    states = head.foreseen_states(normed).flatten(1, 2)
    num_each = states.size(1) // anchors.places.size(1)
    nth = torch.arange(num_each, device=hidden.device).repeat(anchors.places.size(1))
    at = anchors.places.repeat_interleave(num_each, dim=1) + 1 + nth  # whose logits predict it
    exists = anchors.valid.repeat_interleave(num_each, dim=1) & (at + 1 < batch.lengths[:, None])
    at = at.clamp(max=answers.argmax.size(1) - 1)
    ids, probs, known = head_candidates(head.eagle, answers, num_candidates)
    chosen = (exists & known.gather(1, at)).nonzero(as_tuple=True)
    document, place = chosen[0], at[chosen]
    words = head.eagle.draft_to_target(ids)
    logits = F.linear(states[chosen], target.lm_head.weight[words]).float()
    cross = logits.logsumexp(-1) - (probs[document, place] * logits).sum(-1)
    weights = FORESIGHT_DECAY ** nth[chosen[1]].to(cross)
    nearest = nth[chosen[1]] == 0
    right = nearest & (words[logits.argmax(-1)] == answers.argmax[document, place])
    loss = (weights * cross).sum() / weights.sum().clamp(min=1.0)
    return Foresight(loss, int(right.sum()), int(nearest.sum()))


def future_columns(
    head: ConfuHead,
    con_features: Tensor,
    anchors: Anchors,
    fused_rows: Tensor,
    serving: Tensor,
    visible: Tensor,
    num_each: int = 1,
) -> list[FutureColumns]:
    """The future tokens of every row, ``num_each`` of them: f and position from the anchor that
    serves it, embedding from the fused feature of the row's own token, which is the last accepted
    one of a cycle that starts there.

    ``con_features`` [B, K, n * 3 * D]; ``fused_rows`` [B, R, D]; ``serving`` Long[B, R];
    ``visible`` Bool[B, R]: rows that have future tokens.
    """
    index = serving.clamp(min=0)
    embedding, _ = head.future_mixture(fused_rows)
    first = anchors.places.gather(1, index) + 1
    columns = []
    for nth, states in enumerate(con_features.chunk(num_each, dim=-1)):
        is_fused = states.size(-1) == head.config.eagle.hidden_size  # read after the last layer
        future = gather_rows(states if is_fused else head.eagle.fuse(states), index)
        _, keys, values = head.eagle.project(embedding, future, first + nth)
        columns.append(FutureColumns(keys, values, head.future_bias, visible & (serving >= 0)))
    return columns


def outlook_of(
    head: ConfuHead,
    target: LanguageModel,
    con: Contemplation,
    anchors: Anchors,
    rows: Tensor,
    serving: Tensor,
    visible: Tensor,
    num_steps: int,
) -> Outlook | None:
    """What a head with foresight weights adds to its logits; None for a head without. ``rows``
    and ``serving`` Long[B, R]; ``visible`` Bool[B, R]."""
    if head.foresight_weights is None:
        return None
    index = serving.clamp(min=0)
    # The [con] after x_a foresees x_{a+2}; step i from root row r drafts x_{r+2+i}.
    ahead = (rows - anchors.places.gather(1, index))[..., None] + torch.arange(
        num_steps, device=rows.device
    )
    num = len(head.foresight_weights)
    padded = torch.cat((head.foresight_weights, head.foresight_weights.new_zeros(1)))
    weights = padded[ahead.clamp(0, num)]
    served = (visible & (serving >= 0))[..., None]
    words = target.lm_head.weight[head.eagle.t2d].detach()
    states = head.foreseen_states(target.model.norm(con.hidden))
    return Outlook(states, words, index, ahead.clamp(0, num - 1), weights * served)


def changed_future(
    con: Contemplation, valid: Tensor, mode: FutureMode, generator: torch.Generator
) -> Contemplation:
    """The controls: as it is, zeroed, or shuffled among all valid anchors."""
    if mode == "zeroed":
        return Contemplation(torch.zeros_like(con.features), torch.zeros_like(con.hidden))
    if mode == "shuffled":
        num = int(valid.sum())
        order = torch.randperm(num, generator=generator, device=valid.device)
        return Contemplation(
            _reordered(con.features, valid, order),
            _reordered(con.hidden.view(*valid.shape, -1), valid, order).view_as(con.hidden),
        )
    return con


def _reordered(states: Tensor, valid: Tensor, order: Tensor) -> Tensor:
    changed = states.clone()
    changed[valid] = states[valid][order]
    return changed
