"""Batches of ragged documents, and the curriculum that chooses them.

Documents of one batch have similar lengths, so little is padded. The curriculum is a pure
function of the tokens seen, so a resumed run draws what an unbroken one would.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from confu_demo.training.corpus import Corpus, Document


@dataclass(frozen=True, slots=True)
class Phase:
    """Until ``until`` (a share of all tokens) draw streams with these weights (by documents)."""

    until: float
    mix: dict[str, float]


CURRICULUM = (
    Phase(0.06, {"short": 0.5, "easy-judge": 0.4, "drill": 0.1}),
    Phase(0.22, {"medium": 0.4, "judge": 0.15, "easy-judge": 0.35, "drill": 0.1}),
    Phase(1.01, {"full": 0.35, "judge": 0.3, "easy-judge": 0.3, "drill": 0.05}),
)


@dataclass(slots=True)
class Batch:
    token_ids: Tensor  # [B, S], padded on the right
    weights: Tensor  # [B, S], zero on padding and on the first token
    num_tokens: int
    verdicts: Tensor | None = None  # [B, S], 0 or 1 where a verdict on the way counts, else -1

    def to(self, device: torch.device) -> Batch:
        verdicts = None if self.verdicts is None else self.verdicts.to(device)
        return Batch(self.token_ids.to(device), self.weights.to(device), self.num_tokens, verdicts)


def collate(documents: list[Document], pad_id: int) -> Batch:
    length = max(len(document.token_ids) for document in documents)
    ids = np.full((len(documents), length), pad_id, dtype=np.int64)
    weights = np.zeros((len(documents), length), dtype=np.float32)
    for row, document in enumerate(documents):
        ids[row, : len(document.token_ids)] = document.token_ids
        weights[row, 1 : len(document.token_ids)] = document.weights[1:]
    verdicts = None
    if any(document.verdicts is not None for document in documents):
        verdicts = torch.full((len(documents), length), -1, dtype=torch.long)
        for row, document in enumerate(documents):
            if document.verdicts is not None:
                verdicts[row, : len(document.verdicts)] = torch.from_numpy(document.verdicts)
    total = sum(len(document.token_ids) for document in documents)
    return Batch(torch.from_numpy(ids), torch.from_numpy(weights), total, verdicts)


@dataclass(slots=True)
class BatchSource:
    """Draws a pool of documents by the curriculum, sorts it by length, cuts it into batches and
    hands them out in random order. ``positions`` (documents drawn of each stream) is its state."""

    corpus: Corpus
    pad_id: int
    batch_tokens: int
    total_tokens: int
    curriculum: tuple[Phase, ...] = CURRICULUM
    pool_documents: int = 512
    positions: dict[str, int] = field(default_factory=dict)
    _queue: list[Batch] = field(default_factory=list)

    def next(self, tokens_seen: int) -> Batch:
        if not self._queue:
            self._fill(tokens_seen)
        return self._queue.pop()

    def _fill(self, tokens_seen: int) -> None:
        share = tokens_seen / max(1, self.total_tokens)
        phase = next((p for p in self.curriculum if share < p.until), self.curriculum[-1])
        rng = random.Random(f"pool:{sorted(self.positions.items())}")
        names = rng.choices(list(phase.mix), list(phase.mix.values()), k=self.pool_documents)
        pool: list[Document] = []
        for name in phase.mix:
            count, start = names.count(name), self.positions.get(name, 0)
            pool.extend(self.corpus.documents(name, start, count))
            self.positions[name] = start + count
        rng.shuffle(pool)
        pool.sort(key=lambda document: len(document.token_ids))
        group: list[Document] = []
        for document in pool:
            if group and len(document.token_ids) * (len(group) + 1) > self.batch_tokens:
                self._queue.append(collate(group, self.pad_id))
                group = []
            group.append(document)
        self._queue.append(collate(group, self.pad_id))
        rng.shuffle(self._queue)
