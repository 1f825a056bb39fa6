"""The drafter unrolled over a whole document: EAGLE-3's training-time test, and its loss [E].

Pure functions of a head and tensors. Row t of step 0 holds the embedding of x_{t+1} and the fused
feature of x_t at position t and predicts x_{t+2}. Step i continues every row by one teacher-forced
token: the embedding of x_{t+1+i}, the row's own output of step i - 1 as the feature, position
t + i; it predicts x_{t+2+i}. It sees the step-0 keys of rows 0..t and its own keys of steps 1..i,
which is what the drafter sees at depth i of a chain whose root row is t. For S = 5, rows 1 and 3::

               step-0 rows   own rows of steps
               0 1 2 3       1 2 3
    t=1 step 0 1 1 0 0       0 0 0
        step 2 1 1 0 0       1 1 0
    t=3 step 0 1 1 1 1       0 0 0
        step 2 1 1 1 1       1 1 0

ConFu's future token is one more key and value of each row's own, seen at every step.

Shape letters: B documents, S tokens, R rows, D hidden, H and H_kv heads, ``hd`` head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from confu_demo.heads.eagle import EagleHead
from confu_demo.training.head_batches import TargetPass


@dataclass(frozen=True, slots=True)
class FutureColumns:
    """ConFu's extra key and value of every row; rows that are not ``visible`` have none."""

    keys: Tensor  # [B, H_kv, R, hd], rotated
    values: Tensor  # [B, H_kv, R, hd]
    bias: Tensor  # scalar, added to the score
    visible: Tensor  # Bool[B, R]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the [con] foresee, to be added to the drafter's logits (``foresight_weights`` of
    :class:`~confu_demo.heads.confu.ConfuHead`)."""

    states: Tensor  # [B, K, n, D], of the [con], for the tokens that it foresees
    words: Tensor  # [V_d, D], the target's output head on the draft vocabulary
    serving: Tensor  # Long[B, R], the [con] of every row, in 0..K - 1
    ahead: Tensor  # Long[B, R, steps], which of the n a step drafts, clamped to them
    weights: Tensor  # [B, R, steps], 0 where a row has none

    def logits(self, ids: Tensor) -> Tensor:
        """[B, K, n, C] of the draft ids Long[C]."""
        words = self.words if len(ids) == len(self.words) else self.words[ids]
        return F.linear(self.states, words)


def gather_rows(source: Tensor, rows: Tensor) -> Tensor:
    """source [B, S, N], rows Long[B, R] -> [B, R, N]."""
    return source.gather(1, rows[..., None].expand(-1, -1, source.size(-1)))


def unroll(
    head: EagleHead,
    embeddings: Tensor,
    fused: Tensor,
    rows: Tensor,
    num_steps: int,
    columns: Sequence[FutureColumns] = (),
) -> list[Tensor]:
    """Un-normalised outputs [B, R, D] of every step.

    ``embeddings`` [B, S, D] of the tokens x_0..x_{S-1}; ``fused`` [B, S, D], their fused target
    features; ``rows`` Long[B, R], the root rows. Tokens beyond the document's end read its last
    token: the loss must leave those steps out.
    """
    last = embeddings.size(1) - 1
    keys_at = torch.arange(last, device=rows.device)
    queries, keys, values = head.project(embeddings[:, 1:], fused[:, :-1], keys_at)
    width = rows[:, None, :, None].expand(-1, queries.size(1), -1, queries.size(-1))
    queries, features = queries.gather(2, width), gather_rows(fused, rows)
    lowest = torch.finfo(fused.dtype).min
    hidden = (keys_at > rows[..., None])[:, None]  # [B, 1, R, S - 1]
    bias = torch.zeros_like(hidden, dtype=fused.dtype).masked_fill(hidden, lowest)
    own: list[tuple[Tensor, Tensor, Tensor | None]] = []
    for column in columns:
        seen = torch.where(column.visible, column.bias, lowest)[:, None]  # [B, 1, R]
        own.append((column.keys, column.values, seen))
    outputs = []
    for step in range(num_steps):
        if step > 0:
            tokens = gather_rows(embeddings, (rows + 1 + step).clamp(max=last))
            queries, key, value = head.project(tokens, features, rows + step)
            own.append((key, value, None))
        features = head.finish(features, _attend(queries, keys, values, bias, own))
        outputs.append(features)
    return outputs


def _attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor,
    own: list[tuple[Tensor, Tensor, Tensor | None]],
) -> Tensor:
    """queries [B, H, R, hd] on shared keys [B, H_kv, S, hd] with bias [B, 1, R, S], and on each
    row's own keys [B, H_kv, R, hd] with scores' bias [B, 1, R] -> [B, R, H * hd]."""
    num_rows, head_dim = queries.shape[2:]
    group = queries.size(1) // keys.size(1)

    def expand(x: Tensor) -> Tensor:
        return x.repeat_interleave(group, dim=1) if group > 1 else x

    queries = queries * (1.0 / math.sqrt(head_dim))
    scores = [torch.matmul(queries, expand(keys).transpose(2, 3)) + bias]
    for key, _, added in own:
        score = (queries * expand(key)).sum(-1)
        scores.append((score if added is None else score + added)[..., None])
    weights = torch.softmax(torch.cat(scores, dim=-1), dim=-1)
    num_shared = keys.size(2)
    attended = torch.matmul(weights[..., :num_shared], expand(values))
    for place, (_, value, _) in enumerate(own, start=num_shared):
        attended = attended + weights[..., place : place + 1] * expand(value)
    return attended.transpose(1, 2).reshape(len(queries), num_rows, -1)


def head_candidates(
    head: EagleHead, answers: TargetPass, num_candidates: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Draft ids Long[C] that a batch's loss is taken over, increasing; the target's distribution
    renormalised on them [B, S, C]; and where the target's argmax is one of them, Bool[B, S]."""
    size = answers.probs.size(-1)
    if num_candidates is None or num_candidates >= size:
        ids = torch.arange(size, device=answers.probs.device)
        return ids, answers.probs, answers.in_vocabulary
    best = head.target_to_draft(answers.argmax)
    mass = answers.probs.sum((0, 1))
    # One more for every argmax, so that hardly any row has to be left out.
    mass += torch.bincount(best[best >= 0], minlength=size)
    ids = mass.topk(num_candidates).indices.sort().values
    probs = answers.probs[..., ids]
    probs = probs / probs.sum(-1, keepdim=True).clamp(min=1e-9)
    is_candidate = torch.zeros(size, dtype=torch.bool, device=ids.device)
    is_candidate[ids] = True
    return ids, probs, answers.in_vocabulary & is_candidate[best.clamp(min=0)]


@dataclass(frozen=True, slots=True)
class UnrollResult:
    """``loss``: the steps' cross-entropies, weighted decay^i and divided by the weights' sum;
    steps with nothing to predict count as zero. ``matches``: the drafter's likeliest token is
    the target's; only where ``has_label`` (the token exists in a completion)."""

    loss: Tensor
    step_losses: list[float]
    matches: Tensor  # Bool[B, R, steps]
    has_label: Tensor  # Bool[B, R, steps]


def unroll_loss(
    head: EagleHead,
    outputs: list[Tensor],
    answers: TargetPass,
    rows: Tensor,
    valid: Tensor,
    lengths: Tensor,
    decay: float = 0.8,
    num_candidates: int | None = None,
    outlook: Outlook | None = None,
) -> UnrollResult:
    """Cross-entropy against the target's distribution on the draft vocabulary, left out where
    the target's argmax is not in it [E]. ``rows``, ``valid`` [B, R]; ``lengths`` Long[B].

    ``num_candidates`` (training only) takes the softmax over that many draft tokens, those with
    the most probability in this batch [O]. Where the target's argmax is not among them the row
    is left out as well, and ``matches`` compares the candidates alone."""
    total, matches, labelled = outputs[0].new_zeros(()), [], []
    step_losses: list[float] = []
    ids, probs, known = head_candidates(head, answers, num_candidates)
    weight = head.lm_head.weight if num_candidates is None else head.lm_head.weight[ids]
    foreseen = None if outlook is None else outlook.logits(ids)
    for step, hidden in enumerate(outputs):
        has_label = valid & (rows + 2 + step < lengths[:, None])
        at = (rows + 1 + step).clamp(max=answers.argmax.size(1) - 1)  # whose logits predict it
        chosen = (has_label & known.gather(1, at)).nonzero(as_tuple=True)
        document, place = chosen[0], at[chosen]
        logits = F.linear(head.norm(hidden[chosen]), weight).float()  # [M, candidates]
        if outlook is not None and foreseen is not None:
            own = outlook.weights[chosen][:, step, None].to(logits)
            of = (document, outlook.serving[chosen], outlook.ahead[chosen][:, step])
            logits = logits + own * foreseen[of].to(logits)
        cross = logits.logsumexp(-1) - (probs[document, place] * logits).sum(-1)
        mean = cross.sum() / max(1, len(cross))
        total = total + decay**step * mean
        right = head.draft_to_target(ids[logits.argmax(-1)]) == answers.argmax[document, place]
        match = torch.zeros_like(has_label)
        match[chosen] = right
        matches.append(match)
        labelled.append(has_label)
        step_losses.append(float(mean.detach()))
    weights = sum(decay**step for step in range(len(outputs)))
    return UnrollResult(
        total / weights, step_losses, torch.stack(matches, -1), torch.stack(labelled, -1)
    )
