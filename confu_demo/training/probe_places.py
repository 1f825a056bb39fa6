"""What a foresight probe reads, and what one is: places of answers, their features, one matrix.

Owns the reading of places with the target and two ConFu heads, and the probe's form; how probes
are trained and scored is told in :mod:`confu_demo.training.foresight_probe`. All choices are ours.

Shape letters: B documents, K anchors, M places of a batch, D hidden, C draft vocabulary,
O offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from confu_demo.heads.confu import ConfuHead
from confu_demo.training.anchors import AnchorSettings, draw_anchors
from confu_demo.training.confu_pass import contemplate
from confu_demo.training.drafter_unroll import gather_rows
from confu_demo.training.head_batches import HeadBatch, read_target, root_rows
from confu_demo.training.language_model import LanguageModel

ORDINARY, CON, UNTRAINED, BOTH = "ordinary", "[con]", "untrained [con]", "ordinary and [con]"
SOURCES = (ORDINARY, CON, UNTRAINED, BOTH)


class OutputHead(nn.Module):
    """The target's frozen last norm and its output head's rows of the draft vocabulary."""

    def __init__(self, norm: nn.Module, words: Tensor) -> None:
        """``words`` [C, D]."""
        super().__init__()
        self.norm = norm
        self.register_buffer("words", words)
        self.words: Tensor

    def forward(self, states: Tensor) -> Tensor:
        """[M, D] -> logits [M, C]."""
        return F.linear(self.norm(states), self.words)


class Probe(nn.Module):
    """One matrix an offset, [width, D], on standardised features [M, width]."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor, hidden: int, offsets: int) -> None:
        """``mean``, ``scale`` [width], of the training places."""
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        start = torch.randn(offsets, len(mean), hidden) * len(mean) ** -0.5
        self.weight = nn.Parameter(start.to(mean))

    def standardised(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale

    def forward(self, features: Tensor, offset: int, head: OutputHead) -> Tensor:
        """Logits [M, C] of the token ``offset`` + 1 ahead; one offset at a time, because those
        of all would be the largest tensor by far."""
        return head(self.standardised(features) @ self.weight[offset])


@dataclass(frozen=True, slots=True)
class Places:
    """Features by source [M, width], draft ids Long[O, M] (-1: not in the draft vocabulary or
    beyond the end), and the document of each place Long[M]."""

    features: dict[str, Tensor]
    labels: Tensor
    documents: Tensor


class PlaceReader:
    """Reads places of a batch with the target and two ConFu heads, without gradients."""

    def __init__(
        self,
        target: LanguageModel,
        trained: ConfuHead,
        untrained: ConfuHead,
        offsets: int,
        anchors: AnchorSettings,
    ) -> None:
        self._target, self._trained, self._untrained = target, trained, untrained
        self._offsets, self._anchors = offsets, anchors

    @torch.no_grad()
    def read(self, batch: HeadBatch, generator: torch.Generator) -> Places:
        """Random root rows; their [con] are routed with the lag of decoding."""
        eagle = self._trained.eagle
        answers = read_target(self._target, batch, eagle.config.feature_layers, eagle.t2d)
        rows, valid = root_rows(batch)
        anchors = draw_anchors(rows, valid, self._anchors, generator)
        con, untrained = (
            contemplate(self._target, head, batch, answers, anchors).features
            for head in (self._trained, self._untrained)
        )
        ordinary = gather_rows(answers.features, anchors.places)
        real = anchors.valid
        features = {ORDINARY: ordinary[real], CON: con[real], UNTRAINED: untrained[real]}
        features[BOTH] = torch.cat((features[ORDINARY], features[CON]), dim=-1)
        draft_ids = eagle.target_to_draft(batch.token_ids)
        labels = future_labels(draft_ids, batch.lengths, anchors.places, self._offsets)
        documents = torch.arange(len(real), device=real.device)[:, None].expand_as(real)
        return Places(features, labels[:, real], documents[real])


def future_labels(draft_ids: Tensor, lengths: Tensor, places: Tensor, offsets: int) -> Tensor:
    """Long[O, B, K]: draft id of the token 1..O after each place [B, K], -1 where there is none.
    ``draft_ids`` Long[B, S], of the documents' tokens; ``lengths`` Long[B]."""
    last = draft_ids.size(1) - 1
    labels = []
    for offset in range(1, offsets + 1):
        at = places + offset
        ids = draft_ids.gather(1, at.clamp(max=last))
        labels.append(torch.where(at < lengths[:, None], ids, -1))
    return torch.stack(labels)
