"""Does [con]'s state know more of what comes than the ordinary state? ``train probe`` measures it.

For places t of the target's own answers, linear probes predict the token k after x_t, k = 1..8,
from the three-layer features of (a) the ordinary row of x_t, (b) the trained head's [con] after
x_t, (c) the [con] of a head that was never trained, and (d) both (a) and (b). If f carries the
future, (b) or (d) beats (a) at the larger k; (d) has twice the inputs of the others, so it has to
beat them by more than that is worth. All choices here are ours [O]: a probe is one matrix from
the standardised features to the target's width, read through the target's own frozen last norm
and the output head's rows of the draft vocabulary; all probes see the same places, in the same
order, for the same number of steps. Places whose token is outside are left out at that offset.

Shape letters: B documents, K anchors, M places of a batch, D hidden, C draft vocabulary,
O offsets, N documents of a split.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from confu_demo.engine.errors import UnsupportedModel
from confu_demo.heads.checkpoint import TargetInfo, load_head
from confu_demo.heads.confu import ConfuHead
from confu_demo.training.anchors import AnchorSettings
from confu_demo.training.confu import ConfuSettings, initial_confu
from confu_demo.training.head_batches import (
    HeadBatchSource,
    collate,
    group_by_length,
)
from confu_demo.training.head_job import HeadJob, load_material
from confu_demo.training.head_trainer import HeadSettings
from confu_demo.training.own_outputs import OwnOutput
from confu_demo.training.probe_places import ORDINARY, OutputHead, PlaceReader, Probe
from confu_demo.training.probe_scores import ProbeScores, probe_table


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """Small batches, because probes need steps more than places a step."""

    num_tokens: int = 400_000  # of the answers with their prompts, read for training
    statistics_share: float = 0.1  # of these tokens, read before for means and deviations
    offsets: int = 8
    anchors: int = 32  # places of a document
    max_lag: int = AnchorSettings().max_lag
    batch_tokens: int = 1200
    rate: float = 0.001
    weight_decay: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.num_tokens, self.offsets, self.anchors) < 1:
            raise ValueError("tokens, offsets and anchors must be 1 or more")


def start_probes(
    reader: PlaceReader, source: HeadBatchSource, head: OutputHead, settings: ProbeSettings
) -> dict[str, Probe]:
    """A probe for every source of features, which it standardises with means and deviations over
    the first training places. ValueError where these answers have no places."""
    generator = torch.Generator(head.words.device).manual_seed(settings.seed)
    sums: dict[str, list[Tensor]] = {}
    seen, count = 0, 0
    while seen < max(1, settings.num_tokens * settings.statistics_share):
        batch = source.next(head.words.device)
        places = reader.read(batch, generator)
        for name, found in places.features.items():
            x = found.double()
            own = sums.setdefault(name, [x.new_zeros(x.size(1)), x.new_zeros(x.size(1))])
            own[0] += x.sum(0)
            own[1] += x.square().sum(0)
        seen, count = seen + batch.num_tokens, count + len(places.documents)
    if count < 2:
        raise ValueError("the answers are too short to probe, or too few")
    torch.manual_seed(settings.seed)
    probes = {}
    for name, (total, squares) in sums.items():
        mean = total / count
        scale = (squares / count - mean.square()).clamp(min=1e-8).sqrt()
        like, hidden = head.words, head.words.size(1)
        probes[name] = Probe(mean.to(like), scale.to(like), hidden, settings.offsets).to(like)
    return probes


def train_probes(
    reader: PlaceReader,
    documents: list[OwnOutput],
    head: OutputHead,
    settings: ProbeSettings,
    say: Callable[[str], None],
) -> dict[str, Probe]:
    """A probe for every source, all on the same places. AdamW, the rate falling linearly."""
    first = HeadBatchSource(documents, settings.batch_tokens, settings.seed)
    probes = start_probes(reader, first, head, settings)
    source = HeadBatchSource(documents, settings.batch_tokens, settings.seed)
    generator = torch.Generator(head.words.device).manual_seed(settings.seed)
    optimiser = torch.optim.AdamW(
        [weight for probe in probes.values() for weight in probe.parameters()],
        lr=settings.rate,
        weight_decay=settings.weight_decay,
    )
    seen, step = 0, 0
    while seen < settings.num_tokens:
        batch = source.next(head.words.device)
        places = reader.read(batch, generator)
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * max(0.02, 1.0 - seen / settings.num_tokens)
        losses = {
            name: add_gradients(probe, places.features[name], places.labels, head)
            for name, probe in probes.items()
        }
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        seen, step = seen + batch.num_tokens, step + 1
        if step % 20 == 0:
            shown = "  ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
            say(f"probes: {seen / 1e3:.0f}k tokens, loss {shown}")
    return probes


def add_gradients(probe: Probe, features: Tensor, labels: Tensor, head: OutputHead) -> float:
    """One graph at a time; returns the offsets' mean cross-entropy, nats."""
    losses = []
    for offset, wanted in enumerate(labels):
        known = wanted >= 0
        if known.any():
            loss = F.cross_entropy(probe(features[known], offset, head), wanted[known])
            loss.backward()
            losses.append(float(loss.detach()))
    return sum(losses) / max(1, len(losses))


@torch.no_grad()
def score_probes(
    reader: PlaceReader,
    probes: dict[str, Probe],
    documents: list[OwnOutput],
    head: OutputHead,
    settings: ProbeSettings,
) -> dict[str, ProbeScores]:
    """Sums by source, offset and document, documents in one order for all sources."""
    device = head.words.device
    generator = torch.Generator(device).manual_seed(settings.seed + 1)
    parts: dict[str, list[Tensor]] = {name: [] for name in probes}  # [3, O, documents] each
    for group in group_by_length(documents, settings.batch_tokens):
        places = reader.read(collate(group, device), generator)
        for name, probe in probes.items():
            sums = torch.zeros(3, settings.offsets, len(group), dtype=torch.float64)
            for offset, wanted in enumerate(places.labels):
                known = wanted >= 0
                logits, right = probe(places.features[name][known], offset, head), wanted[known]
                losses = F.cross_entropy(logits, right, reduction="none")
                found = torch.stack((logits.argmax(-1) == right, losses, torch.ones_like(losses)))
                sums[:, offset].index_add_(1, places.documents[known].cpu(), found.double().cpu())
            parts[name].append(sums)
    joined = {name: torch.cat(found, dim=-1).numpy() for name, found in parts.items()}
    return {name: ProbeScores(*np.ascontiguousarray(sums)) for name, sums in joined.items()}


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
    trained = load_head(confu_folder, TargetInfo.of(target.config, material.target_sha256))
    if not isinstance(trained, ConfuHead):
        raise UnsupportedModel(f"{confu_folder} holds no ConFu head to probe")
    config, generator = trained.config, torch.Generator().manual_seed(settings.seed)
    start = ConfuSettings(
        training=training,
        num_soft_prompts=config.num_soft_prompts,
        num_experts=config.num_experts,
        experts_per_token=config.experts_per_token,
    )
    # Its drafter is the trained one: what [con] makes of the target does not depend on it.
    untrained = initial_confu(target.cpu(), trained.eagle, start, generator)
    target.to(job.device)
    trained, untrained = (
        each.to(job.device).eval().requires_grad_(False) for each in (trained, untrained)
    )
    words = target.lm_head.weight.detach()[trained.eagle.t2d]
    head = OutputHead(target.model.norm, words).requires_grad_(False)
    anchors = AnchorSettings(num_anchors=settings.anchors, max_lag=settings.max_lag)
    reader = PlaceReader(target, trained, untrained, settings.offsets, anchors)
    probes = train_probes(reader, material.train, head, settings, say)
    scores = score_probes(reader, probes, material.heldout, head, settings)
    table, figures = probe_table(scores, ORDINARY)
    job.work.mkdir(parents=True, exist_ok=True)
    (job.work / "table.md").write_text(table + "\n", encoding="utf-8")
    record = {
        "settings": asdict(settings),
        "documents": len(material.train),
        "heldout_documents": len(material.heldout),
        "sources": figures,
    }
    (job.work / "probe.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return table
