"""Does [con]'s state know more of what comes than the ordinary state? ``train probe`` measures it.

For places t of the target's own answers, linear probes predict the token k after x_t, k = 1..8,
from the three-layer features of (a) the ordinary row of x_t, (b) the trained head's [con] after
x_t, (c) the [con] of a head that was never trained, and (d) both (a) and (b). If f carries the
future, (b) or (d) beats (a) at the larger k. All choices here are ours [O]: a probe is one matrix
from the standardised features to the target's width, read through the target's own output head;
all probes see the same places, in the same order, for the same number of steps.

Shape letters: B documents, K anchors, M places of a batch, D hidden, C classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from confu_demo.comparison import NUM_RESAMPLES, Walks
from confu_demo.engine.errors import UnsupportedModel
from confu_demo.heads.checkpoint import TargetInfo, load_head
from confu_demo.heads.confu import ConfuHead
from confu_demo.training.anchors import Anchors, draw_anchors
from confu_demo.training.confu import ConfuSettings, initial_confu
from confu_demo.training.confu_pass import contemplate
from confu_demo.training.drafter_unroll import gather_rows
from confu_demo.training.head_batches import (
    HeadBatch,
    HeadBatchSource,
    collate,
    group_by_length,
    read_target,
    root_rows,
    token_counts,
)
from confu_demo.training.head_job import HeadJob, load_material
from confu_demo.training.head_trainer import HeadSettings
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.own_outputs import OwnOutput

ORDINARY, CON, UNTRAINED, BOTH = "ordinary", "[con]", "untrained [con]", "ordinary and [con]"
SOURCES = (ORDINARY, CON, UNTRAINED, BOTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """``num_classes``: the probes know the tokens that the answers use most; places whose token
    is another one are left out at that offset."""

    num_tokens: int = 60_000  # of the answers, read for training
    offsets: int = 8
    num_classes: int = 1024
    anchors: int = 16  # places of a document
    batch_tokens: int = 2400
    rate: float = 0.001
    weight_decay: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.num_tokens, self.offsets, self.num_classes, self.anchors) < 1:
            raise ValueError("tokens, offsets, classes and anchors must be 1 or more")


class Probe(nn.Module):
    """One matrix an offset, [width, D], on features standardised by the first batch it saw."""

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int, hidden: int, offsets: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(offsets, width, hidden) * 0.1 * width**-0.5)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.zeros(0))

    def forward(self, features: Tensor, vocabulary: Tensor) -> Tensor:
        """features [M, width], vocabulary [C, D] -> logits [offsets, M, C]."""
        if not len(self.scale):
            self.mean = features.mean(0)
            self.scale = features.std(0).clamp(min=1e-4)
        x = (features - self.mean) / self.scale
        states = torch.einsum("mw,owd->omd", x, self.weight)
        return F.linear(states, vocabulary)


@dataclass(frozen=True, slots=True)
class Places:
    """Features by source [M, width], classes Long[offsets, M] (-1: not a class or beyond the
    end), and the document of each place Long[M]."""

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
        class_of: Tensor,
        settings: ProbeSettings,
        source: ConfuSettings,
    ) -> None:
        """``class_of`` Long[V]: class of every target token, -1 for none."""
        self._target, self._trained, self._untrained = target, trained, untrained
        self._class_of, self._settings = class_of, settings
        self._anchors = replace(source.anchors, num_anchors=settings.anchors)

    @torch.no_grad()
    def read(self, batch: HeadBatch, generator: torch.Generator) -> Places:
        eagle = self._trained.eagle
        answers = read_target(self._target, batch, eagle.config.feature_layers, eagle.t2d)
        rows, valid = root_rows(batch)
        anchors: Anchors = draw_anchors(rows, valid, self._anchors, generator)
        con, untrained = (
            contemplate(self._target, head, batch, answers, anchors)
            for head in (self._trained, self._untrained)
        )
        ordinary = gather_rows(answers.features, anchors.places)
        real = anchors.valid
        features = {ORDINARY: ordinary[real], CON: con[real], UNTRAINED: untrained[real]}
        features[BOTH] = torch.cat((features[ORDINARY], features[CON]), dim=-1)
        labels = future_labels(batch, anchors.places, self._settings.offsets, self._class_of)
        documents = torch.arange(len(real), device=real.device)[:, None].expand_as(real)
        return Places(features, labels[:, real], documents[real])


def future_labels(batch: HeadBatch, places: Tensor, offsets: int, class_of: Tensor) -> Tensor:
    """Long[offsets, B, K]: class of the token 1..offsets after each place [B, K], -1 where there
    is none."""
    last = batch.token_ids.size(1) - 1
    labels = []
    for offset in range(1, offsets + 1):
        at = places + offset
        token = batch.token_ids.gather(1, at.clamp(max=last))
        labels.append(torch.where(at < batch.lengths[:, None], class_of[token], -1))
    return torch.stack(labels)


def probe_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the places that have a label."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)


def train_probes(
    reader: PlaceReader,
    documents: list[OwnOutput],
    vocabulary: Tensor,
    settings: ProbeSettings,
    say: Callable[[str], None],
) -> dict[str, Probe]:
    """A probe for every source, all on the same places."""
    batches = HeadBatchSource(documents, settings.batch_tokens, settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    hidden, probes, seen, step = vocabulary.size(1), {}, 0, 0
    optimiser: torch.optim.Optimizer | None = None
    while seen < settings.num_tokens:
        batch = batches.next(vocabulary.device)
        places = reader.read(batch, generator)
        if optimiser is None:
            torch.manual_seed(settings.seed)
            probes = {
                name: Probe(found.size(1), hidden, settings.offsets).to(found)
                for name, found in places.features.items()
            }
            optimiser = torch.optim.AdamW(
                [weight for probe in probes.values() for weight in probe.parameters()],
                lr=settings.rate,
                weight_decay=settings.weight_decay,
            )
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * max(0.02, 1.0 - seen / settings.num_tokens)
        losses = {}
        for name, probe in probes.items():  # one graph at a time
            loss = probe_loss(probe(places.features[name], vocabulary), places.labels)
            loss.backward()
            losses[name] = float(loss.detach())
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        seen, step = seen + batch.num_tokens, step + 1
        if step % 10 == 0:
            shown = "  ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
            say(f"probes: {seen / 1e3:.0f}k tokens, loss {shown}")
    return probes


@torch.no_grad()
def score_probes(
    reader: PlaceReader,
    probes: dict[str, Probe],
    documents: list[OwnOutput],
    vocabulary: Tensor,
    settings: ProbeSettings,
) -> dict[str, list[Walks]]:
    """(hits, places) of every document by source and offset, documents in one order for all."""
    generator = torch.Generator().manual_seed(settings.seed + 1)
    hits: dict[str, list[list[tuple[int, int]]]] = {
        name: [[] for _ in range(settings.offsets)] for name in probes
    }
    for group in group_by_length(documents, settings.batch_tokens):
        places = reader.read(collate(group, vocabulary.device), generator)
        for name, probe in probes.items():
            right = probe(places.features[name], vocabulary).argmax(-1) == places.labels
            known = places.labels >= 0
            for offset in range(settings.offsets):
                for document in range(len(group)):
                    here = known[offset] & (places.documents == document)
                    hits[name][offset].append((int((right[offset] & here).sum()), int(here.sum())))
    return {name: list(found) for name, found in hits.items()}


def difference_interval(own: Walks, base: Walks, seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the difference of two accuracies, over documents (paired)."""
    both = np.array([own, base], dtype=float)  # [2, documents, (hits, places)]
    draws = np.random.default_rng(seed).integers(both.shape[1], size=(NUM_RESAMPLES, both.shape[1]))
    sums = both[:, draws].sum(axis=2)  # [2, resamples, 2]
    shares = sums[..., 0] / np.maximum(sums[..., 1], 1)
    low, high = np.quantile(shares[0] - shares[1], (0.025, 0.975))
    return float(low), float(high)


def probe_table(hits: dict[str, list[Walks]]) -> tuple[str, dict[str, Any]]:
    """Markdown of the top-1 accuracy by offset, and of how much more each state knows than the
    ordinary one (95 % intervals over documents); the same as figures by source."""
    offsets = len(next(iter(hits.values())))
    lines = [
        "| state |" + "".join(f" {k} ahead |" for k in range(1, offsets + 1)),
        "|---|" + "---:|" * offsets,
    ]
    figures: dict[str, Any] = {}
    for name, found in hits.items():
        rows = []
        for own, base in zip(found, hits[ORDINARY], strict=True):
            places = sum(count for _, count in own)
            accuracy = sum(count for count, _ in own) / max(1, places)
            more = difference_interval(own, base)
            rows.append({"accuracy": accuracy, "places": places, "more_than_ordinary": more})
        figures[name] = rows
        lines.append(f"| {name} |" + "".join(f" {row['accuracy']:.3f} |" for row in rows))
    for name in hits:
        if name != ORDINARY:
            cells = "".join(
                " {:+.3f} to {:+.3f} |".format(*row["more_than_ordinary"]) for row in figures[name]
            )
            lines.append(f"| {name} - {ORDINARY} (95 %) |{cells}")
    return "\n".join(lines), figures


def run_probe(
    job: HeadJob,
    confu_folder: Path,
    settings: ProbeSettings,
    training: HeadSettings,
    say: Callable[[str], None] = print,
) -> str:
    """Trains and scores the probes of the ConFu head in ``confu_folder``; returns the table,
    which is also written to ``table.md`` and ``probe.json`` under ``job.work``.

    Raises the loaders' errors, UnsupportedModel where the folder holds no ConFu head.
    """
    material = load_material(job, training, say)
    target = material.target
    head = load_head(confu_folder, TargetInfo.of(target.config, material.target_sha256))
    if not isinstance(head, ConfuHead):
        raise UnsupportedModel(f"{confu_folder} holds no ConFu head to probe")
    config, generator = head.config, torch.Generator().manual_seed(settings.seed)
    confu = ConfuSettings(
        training=training,
        num_soft_prompts=config.num_soft_prompts,
        num_experts=config.num_experts,
        experts_per_token=config.experts_per_token,
    )
    untrained = initial_confu(target.cpu(), head.eagle, confu, generator).to(job.device)
    target.to(job.device)
    counts = token_counts(material.train, target.config.vocab_size)
    classes = counts.topk(min(settings.num_classes, len(counts))).indices.sort().values
    class_of = torch.full((len(counts),), -1)
    class_of[classes] = torch.arange(len(classes))
    vocabulary = (target.lm_head.weight.detach()[classes] * target.model.norm.weight.detach()).to(
        job.device
    )
    reader = PlaceReader(
        target, head.to(job.device).eval(), untrained.eval(), class_of.to(job.device), settings,
        confu,
    )  # fmt: skip
    probes = train_probes(reader, material.train, vocabulary, settings, say)
    hits = score_probes(reader, probes, material.heldout, vocabulary, settings)
    table, figures = probe_table(hits)
    job.work.mkdir(parents=True, exist_ok=True)
    (job.work / "table.md").write_text(table + "\n", encoding="utf-8")
    (job.work / "probe.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return table
