"""What a draft head is trained on: batches of own outputs, and the target's pass over them.

Owns batching and the labels; knows no head. The target is read without gradients, once a batch,
for features, labels and (ConFu) the keys and values that contemplate tokens will see.

A *root row* t is a row of the drafter from which a draft may start: x_t is the last token whose
target feature is known, x_{t+1} the root of the draft. It stands for a cycle of decoding whose
root is a completion token, so t >= num_prompt - 1.

Shape letters: B documents, S tokens, R root rows of a document, D hidden, V_d draft vocabulary.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from confu_demo.training.language_model import KeyValue, LanguageModel, causal_mask
from confu_demo.training.own_outputs import OwnOutput
from confu_demo.training.records import DocumentRecord, padded

POOL_DOCUMENTS = 256
"""Documents that are sorted by length together before they are cut into batches."""


@dataclass(slots=True)
class HeadBatch:
    token_ids: Tensor  # Long[B, S], padded on the right
    lengths: Tensor  # Long[B]
    num_prompt: Tensor  # Long[B]
    num_tokens: int  # without padding
    documents: list[OwnOutput]


def collate(documents: list[OwnOutput], device: torch.device) -> HeadBatch:
    length = max(len(document.token_ids) for document in documents)
    ids = np.zeros((len(documents), length), dtype=np.int64)
    for row, document in enumerate(documents):
        ids[row, : len(document.token_ids)] = document.token_ids
    lengths = torch.tensor([len(document.token_ids) for document in documents], device=device)
    num_prompt = torch.tensor([document.num_prompt for document in documents], device=device)
    tokens = torch.from_numpy(ids).to(device)
    return HeadBatch(tokens, lengths, num_prompt, int(lengths.sum()), documents)


def group_by_length(documents: list[OwnOutput], batch_tokens: int) -> list[list[OwnOutput]]:
    """Batches of similar lengths, at most ``batch_tokens`` tokens each with padding (a longer
    document is a batch of its own)."""
    groups: list[list[OwnOutput]] = []
    for document in sorted(documents, key=lambda document: len(document.token_ids)):
        if not groups or len(document.token_ids) * (len(groups[-1]) + 1) > batch_tokens:
            groups.append([])
        groups[-1].append(document)
    return groups


@dataclass(slots=True)
class HeadBatchSource:
    """Epochs over the documents in random order. ``drawn``, the number of batches handed out, is
    its whole state: the same seed and documents give the same batch at the same place."""

    documents: list[OwnOutput]
    batch_tokens: int
    seed: int
    drawn: int = 0
    _first: int = 0  # number of the first batch of this epoch
    _epoch: int = -1
    _plan: list[list[OwnOutput]] = field(default_factory=list)

    def next(self, device: torch.device) -> HeadBatch:
        while self.drawn >= self._first + len(self._plan):
            self._first += len(self._plan)
            self._epoch += 1
            self._plan = self._plan_epoch(self._epoch)
        documents = self._plan[self.drawn - self._first]
        self.drawn += 1
        return collate(documents, device)

    def _plan_epoch(self, epoch: int) -> list[list[OwnOutput]]:
        rng = random.Random(f"head batches:{self.seed}:{epoch}")
        documents = list(self.documents)
        rng.shuffle(documents)
        pools = range(0, len(documents), POOL_DOCUMENTS)
        plan = [
            group
            for start in pools
            for group in group_by_length(
                documents[start : start + POOL_DOCUMENTS], self.batch_tokens
            )
        ]
        rng.shuffle(plan)
        return plan


def root_rows(batch: HeadBatch) -> tuple[Tensor, Tensor]:
    """Root rows Long[B, R] from the prompt's last token to the last row that has something to
    predict (x_{t+2} must exist), and which of them are real, Bool[B, R]."""
    first = batch.num_prompt - 1
    counts = (batch.lengths - 2 - first).clamp(min=0)
    steps = torch.arange(max(1, int(counts.max())), device=first.device)
    valid = steps < counts[:, None]
    return torch.where(valid, first[:, None] + steps, 0), valid


@dataclass(slots=True)
class TargetPass:
    """The frozen target's answers to a batch. ``probs`` is its softmax restricted to the draft
    vocabulary and renormalised; ``in_vocabulary``: its argmax is a draft token."""

    embeddings: Tensor  # [B, S, D], of the tokens themselves
    features: Tensor  # [B, S, 3 * D], residual stream entering the feature layers
    probs: Tensor  # [B, S, V_d], of the token after each position
    argmax: Tensor  # Long[B, S], target ids; from records only of completions
    in_vocabulary: Tensor  # Bool[B, S]
    keys_values: list[KeyValue]  # per layer, [B, H_kv, S, head_dim] twice


@torch.no_grad()
def read_target(
    target: LanguageModel,
    batch: HeadBatch,
    feature_layers: tuple[int, ...],
    t2d: Tensor,
    *,
    with_keys_values: bool = True,
) -> TargetPass:
    """One pass, or none where every document has its record. ``t2d`` Bool[V] marks the draft
    vocabulary. Padding is on the right, so the causal mask alone keeps it out of every real row.

    From records, ``keys_values`` are read only ``with_keys_values`` (they are most of the bytes).
    """
    with torch.autocast(batch.token_ids.device.type, enabled=False):  # labels are exact
        return _read_target(target, batch, feature_layers, t2d, with_keys_values)


def _read_target(
    target: LanguageModel,
    batch: HeadBatch,
    feature_layers: tuple[int, ...],
    t2d: Tensor,
    with_keys_values: bool,
) -> TargetPass:
    records = [document.record for document in batch.documents]
    if records and all(record is not None for record in records):
        return _read_records(target, batch, records, t2d, with_keys_values)
    length, device = batch.token_ids.size(1), batch.token_ids.device
    embeddings = target.embed(batch.token_ids)
    positions = torch.arange(length, device=device)[None]
    output = target(
        embeddings, positions, causal_mask(length, device), feature_layers=feature_layers
    )
    logits = target.lm_head_logits(output.hidden)
    argmax = logits.argmax(dim=-1)
    probs = torch.softmax(logits[..., t2d].float(), dim=-1)
    return TargetPass(embeddings, output.features, probs, argmax, t2d[argmax], output.keys_values)


def _read_records(
    target: LanguageModel,
    batch: HeadBatch,
    records: Sequence[DocumentRecord | None],
    t2d: Tensor,
    with_keys_values: bool,
) -> TargetPass:
    kept = [record for record in records if record is not None]
    length, like = batch.token_ids.size(1), target.model.norm.weight
    hidden = padded([record.hidden() for record in kept], length, 0, like)
    features = padded([record.features() for record in kept], length, 0, like)
    # The output head over the whole vocabulary is a fifth of the target: its argmax is kept, and
    # prompts, about which nobody asks, get none (0).
    for row, (record, document) in enumerate(zip(kept, batch.documents, strict=True)):
        if record.argmax is None:
            first, end = document.num_prompt - 1, record.num_read
            record.argmax = torch.zeros_like(batch.token_ids[row, :end])
            if document.temperature == 0.0:  # what a greedy answer goes on with
                record.argmax[first:] = batch.token_ids[row, first + 1 : end + 1]
            else:
                logits = target.lm_head_logits(hidden[row, first:end])
                record.argmax[first:] = logits.argmax(dim=-1)
    argmax = padded([record.argmax for record in kept], length, 0, batch.token_ids)
    normed = target.model.norm(hidden)
    probs = torch.softmax(F.linear(normed, target.lm_head.weight[t2d]).float(), dim=-1)
    keys_values: list[KeyValue] = []
    if with_keys_values:
        both = padded([record.keys_values() for record in kept], length, 3, like)
        keys_values = [(both[:, layer, 0], both[:, layer, 1]) for layer in range(both.size(1))]
    embeddings = target.embed(batch.token_ids)
    return TargetPass(embeddings, features, probs, argmax, t2d[argmax], keys_values)


def token_counts(documents: list[OwnOutput], vocab_size: int) -> Tensor:
    """Long[V]: how often completions use each token; the draft vocabulary is made of the most
    frequent [E]."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for document in documents:
        counts += np.bincount(document.token_ids[document.num_prompt :], minlength=vocab_size)
    return torch.from_numpy(counts)


def prompt_counts(documents: list[OwnOutput], vocab_size: int) -> Tensor:
    """Long[V]: how often prompts use each token, without what all prompts begin with."""
    prompts = [document.token_ids[: document.num_prompt] for document in documents]
    shared = 0
    while all(len(p) > shared and p[shared] == prompts[0][shared] for p in prompts):
        shared += 1
    counts = np.zeros(vocab_size, dtype=np.int64)
    for prompt in prompts:
        counts += np.bincount(prompt[shared:], minlength=vocab_size)
    return torch.from_numpy(counts)
