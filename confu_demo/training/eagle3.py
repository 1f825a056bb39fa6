"""Trains an EAGLE-3 head on its target's own outputs: ``python -m confu_demo train eagle3``.

[E] is EAGLE-3 (arXiv 2503.01840) as its public code does it: training-time test over several
unrolled steps, cross-entropy on the reduced vocabulary. Our choices: Muon, and a start from what
the target knows (output head, norm, and the last tapped layer's feature through ``fc``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from confu_demo.engine.model_config import ModelConfig, default_feature_layers
from confu_demo.heads.eagle import EagleConfig, EagleHead
from confu_demo.training.drafter_unroll import UnrollResult, unroll, unroll_loss
from confu_demo.training.head_batches import (
    HeadBatch,
    HeadBatchSource,
    collate,
    group_by_length,
    prompt_counts,
    read_target,
    root_rows,
    token_counts,
)
from confu_demo.training.head_evaluation import score
from confu_demo.training.head_job import HeadJob, Material, load_material, publish
from confu_demo.training.head_trainer import HeadSettings, HeadTrainer
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.own_outputs import OwnOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class EagleSettings:
    """None means the target's own (intermediate size, all of its vocabulary) or the default
    layers of EAGLE-3."""

    training: HeadSettings
    draft_vocab_size: int | None = 512
    intermediate_size: int | None = None
    feature_layers: tuple[int, ...] | None = None


class EagleObjective:
    """The training loss of an EAGLE-3 head, and its held-out score."""

    def __init__(
        self,
        target: LanguageModel,
        head: EagleHead,
        held_out: list[OwnOutput],
        settings: HeadSettings,
    ) -> None:
        self.target, self.head, self.settings = target, head, settings
        head.row_dropout = settings.row_dropout
        self._held_out = group_by_length(held_out, settings.batch_tokens)

    def steps_at(self, share_spent: float) -> int:
        return self.settings.steps_at(share_spent)

    def loss(self, batch: HeadBatch, generator: torch.Generator, num_steps: int) -> UnrollResult:
        return self.unrolled(batch, num_steps, self.settings.num_candidates)

    def unrolled(
        self,
        batch: HeadBatch,
        num_steps: int,
        num_candidates: int | None = None,
    ) -> UnrollResult:
        """The loss over all root rows of a batch."""
        head, settings = self.head, self.settings
        layers = head.config.feature_layers
        answers = read_target(self.target, batch, layers, head.t2d, with_keys_values=False)
        rows, valid = root_rows(batch)
        fused = head.fuse(answers.features)
        outputs = unroll(head, answers.embeddings, fused, rows, num_steps)
        return unroll_loss(
            head, outputs, answers, rows, valid, batch.lengths,
            settings.step_decay, num_candidates,
        )  # fmt: skip

    @torch.no_grad()
    def evaluate(self) -> dict[str, Any]:
        return {"eagle3": self.score_of(self._held_out)}

    @torch.no_grad()
    def score_of(self, groups: list[list[OwnOutput]]) -> dict[str, Any]:
        device = self.head.fc.weight.device
        return asdict(
            score(
                self.unrolled(collate(group, device), self.settings.unroll_steps)
                for group in groups
            )
        )

    def own_rates(self) -> list[tuple[float, list[nn.Parameter]]]:
        return []


def head_config(target: ModelConfig, settings: EagleSettings, target_sha256: str) -> EagleConfig:
    """A draft layer of the target's own width, heads and rotary base."""
    return EagleConfig(
        hidden_size=target.hidden_size,
        intermediate_size=settings.intermediate_size or target.intermediate_size,
        num_heads=target.num_heads,
        num_kv_heads=target.num_kv_heads,
        head_dim=target.head_dim,
        rms_norm_eps=target.rms_norm_eps,
        rope_theta=target.rope_theta,
        max_positions=target.max_positions,
        target_hidden_size=target.hidden_size,
        target_vocab_size=target.vocab_size,
        draft_vocab_size=min(settings.draft_vocab_size or target.vocab_size, target.vocab_size),
        feature_layers=settings.feature_layers or default_feature_layers(target.num_layers),
        target_sha256=target_sha256,
    )


def initial_head(target: LanguageModel, config: EagleConfig, counts: Tensor) -> EagleHead:
    """Output head and norm are the target's; the other matrices are random, the output
    projections shrunk, so that an untrained row hands its fused feature on."""
    head = EagleHead.initial(config, target.lm_head.weight.detach(), counts)
    layer, width = head.midlayer, config.hidden_size
    with torch.no_grad():
        head.norm.weight.copy_(target.model.norm.weight)
        for parameter in layer.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.5 / width**0.5)
        for output in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight):
            output.mul_(0.5)
        nn.init.normal_(head.fc.weight, std=0.1 / width**0.5)
        head.fc.weight[:, -width:] += torch.eye(width)
    return head


def train_eagle3(job: HeadJob, settings: EagleSettings, say: Callable[[str], None] = print) -> Path:
    """Makes or reads the own outputs, trains (or goes on), and writes the head with its card.

    Returns the folder of the finished head. Raises the loaders' errors for a missing target.
    """
    material = load_material(job, settings.training, say)
    torch.manual_seed(settings.training.seed)
    target = material.target
    config = head_config(target.config, settings, material.target_sha256)
    counts = token_counts(material.train, config.target_vocab_size)
    if job.chat is not None:
        # What the few answers never said: the prompts' words, then the tokenizer's commonest.
        counts = counts + prompt_counts(material.train, config.target_vocab_size)
    head = initial_head(target.cpu(), config, counts).to(job.device)
    target.to(job.device)
    report = run_eagle3(job, material, head, settings.training, say)
    report["draft_vocabulary_coverage"] = float(counts[head.t2d.cpu()].sum() / counts.sum())
    return publish(job, head, "eagle3", asdict(settings), report)


def run_eagle3(
    job: HeadJob,
    material: Material,
    head: EagleHead,
    settings: HeadSettings,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Trains a head in place; what the card tells of it."""
    objective = EagleObjective(material.target, head, material.calibration, settings)
    source = HeadBatchSource(material.train, settings.batch_tokens, settings.seed)
    trainer = HeadTrainer(objective, source, settings, job.work, torch.device(job.device), say)
    trainer.run()
    head.eval()
    held_out = group_by_length(material.heldout, settings.batch_tokens)
    final = {"eagle3": objective.score_of(held_out)}
    return material.report(trainer, final)
