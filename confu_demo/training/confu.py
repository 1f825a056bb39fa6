"""Trains a ConFu head on top of an EAGLE-3 head: ``python -m confu_demo train confu``.

[P] marks the paper (arXiv 2603.08899), [O] our choice. The target and its embeddings stay frozen
[P]; the drafter, which starts as the trained EAGLE-3 head [P], learns on together with soft
prompts, both mixtures and the future bias. The exact recipe at the price of a few tokens [O]:

1. the target reads a document once without gradients; features, labels, keys and values stay;
2. soft prompts run through the frozen target at positions 0..s-1, with gradients;
3. K [con] tokens run through it against those keys and values, with gradients: soft prompts and
   [con] mixture learn through the frozen weights, and memory grows with K instead of S;
4. their features through EAGLE-3's own fusion are f; the drafter is unrolled with one more key and
   value for every row that an anchor serves. Same loss as EAGLE-3's, on those rows alone [P].

Controls [O]: f zeroed, f of other positions, no future token, and the EAGLE-3 head trained for
the same extra steps on the same batches (``control=True``).

Shape letters: B documents, S tokens, R rows, K anchors, s soft prompts, D hidden.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from confu_demo.engine.errors import UnsupportedModel
from confu_demo.heads.checkpoint import TargetInfo, load_head
from confu_demo.heads.confu import ConfuHead, ConfuHeadConfig
from confu_demo.heads.eagle import EagleHead
from confu_demo.training.anchors import (
    Anchors,
    AnchorSettings,
    draw_anchors,
    every_row,
    pack_rows,
    serving_anchor,
)
from confu_demo.training.confu_pass import (
    FUTURE_MODES,
    Contemplation,
    Foresight,
    FutureMode,
    FutureSource,
    changed_future,
    contemplate,
    foresight,
    future_columns,
    outlook_of,
)
from confu_demo.training.drafter_unroll import (
    FutureColumns,
    UnrollResult,
    gather_rows,
    unroll,
    unroll_loss,
)
from confu_demo.training.eagle3 import run_eagle3
from confu_demo.training.head_batches import (
    HeadBatch,
    HeadBatchSource,
    TargetPass,
    collate,
    group_by_length,
    read_target,
    root_rows,
)
from confu_demo.training.head_evaluation import score
from confu_demo.training.head_job import HeadJob, Material, load_material, publish
from confu_demo.training.head_trainer import HeadSettings, HeadTrainer
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.own_outputs import OwnOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfuSettings:
    """Start values [O]. ``num_experts`` 1 is the paper's static [con]; ``future_dropout`` is the
    share of rows that must do without f, so that the drafter stays an EAGLE-3 head."""

    training: HeadSettings
    anchors: AnchorSettings = field(default_factory=AnchorSettings)
    num_soft_prompts: int = 16
    num_experts: int = 8
    experts_per_token: int = 2
    future_dropout: float = 0.15
    future_source: FutureSource = "fused"
    num_contemplate_tokens: int = 1  # of an anchor; decoding knows one, more are an ablation
    initial_future_bias: float = 0.0  # at -6, f off in effect, no gradient ever switched it on
    future_bias_rate: float = 0.1  # a scalar with several units to travel
    contemplate_rate: float | None = None  # of soft prompts and [con] experts; None: AdamW's
    foresight_depths: int = 0  # of the head: how far its logits hear what [con] foresees
    foresight_rate: float = 0.02  # of the weights that do so
    foresight_weight: float = 0.0  # of what [con] foresees in the loss; the paper has none
    foresight_share: float = 0.0  # of the budget, spent first on what [con] foresees alone
    contemplate_dtype: Literal["float32", "bfloat16"] = "float32"  # of the target's pass over [con]
    frozen_drafter: bool = False  # learn only what EAGLE-3 lacks, so that f alone is the difference

    def __post_init__(self) -> None:
        if self.num_contemplate_tokens < 1:
            raise ValueError("an anchor has 1 contemplate token or more")
        if self.foresight_depths and self.num_contemplate_tokens != 1:
            raise ValueError("foresight in the logits knows one contemplate token an anchor")
        if not 0.0 <= self.foresight_share <= 1.0 or self.foresight_weight < 0.0:
            raise ValueError("foresight needs a weight of 0 or more and a share of 0 to 1")
        if self.foresight_share > 0.0 and self.foresight_weight == 0.0:
            raise ValueError("a share of the budget for foresight needs a foresight weight")


class ConfuObjective:
    """The training loss of a ConFu head, and its held-out scores with f and without."""

    def __init__(
        self,
        target: LanguageModel,
        head: ConfuHead,
        held_out: list[OwnOutput],
        settings: ConfuSettings,
    ) -> None:
        self.target, self.head, self.settings = target, head, settings
        self._thinker = target
        if settings.contemplate_dtype == "bfloat16":
            self._thinker = copy.deepcopy(target).bfloat16()
        head.eagle.row_dropout = settings.training.row_dropout
        self._held_out = group_by_length(held_out, settings.training.batch_tokens)

    def read(self, batch: HeadBatch) -> TargetPass:
        eagle = self.head.eagle
        return read_target(self.target, batch, eagle.config.feature_layers, eagle.t2d)

    def contemplated(
        self, batch: HeadBatch, answers: TargetPass, anchors: Anchors
    ) -> Contemplation:
        settings = self.settings
        return contemplate(
            self._thinker, self.head, batch, answers, anchors,
            settings.future_source, settings.num_contemplate_tokens,
        )  # fmt: skip

    def steps_at(self, share_spent: float) -> int:
        early = share_spent < self.settings.foresight_share
        return 0 if early else self.settings.training.steps_at(share_spent)

    def loss(self, batch: HeadBatch, generator: torch.Generator, num_steps: int) -> UnrollResult:
        """Random anchors; the rows that they serve; f hidden from some of these. With 0 steps
        only what the [con] foresee."""
        answers = self.read(batch)
        rows, valid = root_rows(batch)
        anchors = draw_anchors(rows, valid, self.settings.anchors, generator)
        rows, valid = pack_rows(rows, valid & (serving_anchor(anchors, rows) >= 0))
        draws = torch.rand(rows.shape, generator=generator, device=rows.device)
        visible = valid & (draws >= self.settings.future_dropout)
        con, candidates = (
            self.contemplated(batch, answers, anchors), self.settings.training.num_candidates,
        )  # fmt: skip
        weight = self.settings.foresight_weight
        foreseen = torch.zeros(())
        if weight > 0.0:
            foreseen = weight * self.foreseen(batch, answers, anchors, con, candidates).loss
        if num_steps == 0:
            none = torch.zeros(*rows.shape, 0, dtype=torch.bool, device=rows.device)
            return UnrollResult(foreseen, [], none, none)
        result = self.unrolled(
            batch, answers, anchors, con, rows, valid, visible, num_steps, candidates
        )
        return replace(result, loss=result.loss + foreseen) if weight > 0.0 else result

    def foreseen(
        self,
        batch: HeadBatch,
        answers: TargetPass,
        anchors: Anchors,
        con: Contemplation,
        num_candidates: int | None = None,
    ) -> Foresight:
        return foresight(
            self.target, self.head, con.hidden, batch, answers, anchors, num_candidates
        )

    def unrolled(
        self,
        batch: HeadBatch,
        answers: TargetPass,
        anchors: Anchors,
        con: Contemplation,
        rows: Tensor,
        valid: Tensor,
        visible: Tensor | None,
        num_steps: int | None = None,
        num_candidates: int | None = None,
    ) -> UnrollResult:
        """The loss over ``rows``; ``visible`` None leaves the future token out altogether."""
        eagle, training = self.head.eagle, self.settings.training
        fused = eagle.fuse(answers.features)
        steps = training.unroll_steps if num_steps is None else num_steps
        columns: list[FutureColumns] = []
        outlook = None
        if visible is not None:
            serving, starts = serving_anchor(anchors, rows), gather_rows(fused, rows)
            columns = future_columns(
                self.head, con.features, anchors, starts, serving, visible,
                self.settings.num_contemplate_tokens,
            )  # fmt: skip
            outlook = outlook_of(
                self.head, self.target, con, anchors, rows, serving, visible, steps
            )
        outputs = unroll(eagle, answers.embeddings, fused, rows, steps, columns)
        return unroll_loss(
            eagle, outputs, answers, rows, valid, batch.lengths,
            training.step_decay, num_candidates, outlook,
        )  # fmt: skip

    def evaluate(self) -> dict[str, Any]:
        scores, foreseen = self._scores(self._held_out)
        return scores | {"foreseen": foreseen}

    def scores_of(self, groups: list[list[OwnOutput]]) -> dict[str, Any]:
        """A [con] at every row with a random lag, as in decoding; all modes see the same."""
        return self._scores(groups)[0]

    @torch.no_grad()
    def _scores(self, groups: list[list[OwnOutput]]) -> tuple[dict[str, Any], float]:
        """The scores by mode, and the share of places whose [con] foresees what comes after the
        next token."""
        hits = places = 0
        results: dict[FutureMode, list[UnrollResult]] = {mode: [] for mode in FUTURE_MODES}
        device = self.head.future_bias.device
        generator = torch.Generator(device).manual_seed(0)
        for group in groups:
            batch = collate(group, device)
            answers = self.read(batch)
            rows, valid = root_rows(batch)
            anchors = every_row(rows, valid, self.settings.anchors.max_lag, generator)
            con = self.contemplated(batch, answers, anchors)
            seen = self.foreseen(batch, answers, anchors, con)
            hits, places = hits + seen.hits, places + seen.places
            for mode in FUTURE_MODES:
                changed = changed_future(con, valid, mode, generator)
                visible = None if mode == "hidden" else valid
                results[mode].append(
                    self.unrolled(batch, answers, anchors, changed, rows, valid, visible)
                )
        scores = {f"confu, f {mode}": asdict(score(results[mode])) for mode in FUTURE_MODES}
        return scores, hits / max(1, places)

    def own_rates(self) -> list[tuple[float, list[nn.Parameter]]]:
        rates = [(self.settings.future_bias_rate, [self.head.future_bias])]
        if self.head.foresight_weights is not None:
            rates.append((self.settings.foresight_rate, [self.head.foresight_weights]))
        if self.settings.contemplate_rate is not None:
            # What only the frozen target reads has far to go; the router is as quick as the rest.
            own = [self.head.soft_prompt.embeddings, self.head.con_mixture.experts]
            rates.append((self.settings.contemplate_rate, own))
        return rates


def initial_confu(
    target: LanguageModel, eagle: EagleHead, settings: ConfuSettings, generator: torch.Generator
) -> ConfuHead:
    """The trained EAGLE-3 head with f off in effect. Soft prompts and experts start as random
    tokens of the draft vocabulary, which lie where the target expects embeddings [O]."""
    config = ConfuHeadConfig(
        eagle=eagle.config,
        num_soft_prompts=settings.num_soft_prompts,
        num_experts=settings.num_experts,
        experts_per_token=settings.experts_per_token,
        foresight_depths=settings.foresight_depths,
    )
    head = ConfuHead.from_eagle(eagle, config)
    words = target.embed(eagle.t2d.nonzero().flatten()).detach()

    def some(count: int) -> Tensor:
        return words[torch.randint(len(words), (count,), generator=generator)]

    head.soft_prompt.initialise_from(some(settings.num_soft_prompts))
    with torch.no_grad():
        head.con_mixture.experts.copy_(some(settings.num_experts))
        head.future_mixture.experts.copy_(some(settings.num_experts))
        head.future_bias.fill_(settings.initial_future_bias)
    return head


def take_contemplation(head: ConfuHead, source: EagleHead | ConfuHead, folder: Path) -> None:
    """Copies everything but the drafter. UnsupportedModel where ``source``, from ``folder``, is
    no ConFu head or has other sizes."""
    if not isinstance(source, ConfuHead):
        raise UnsupportedModel(f"{folder} holds no ConFu head to take [con] from")
    own = {name: value for name, value in source.state_dict().items() if not _is_drafter(name)}
    mine = {name: value for name, value in head.state_dict().items() if not _is_drafter(name)}
    if {n: v.shape for n, v in own.items()} != {n: v.shape for n, v in mine.items()}:
        raise UnsupportedModel(f"the [con] of {folder} has other sizes than the settings ask for")
    head.load_state_dict(own, strict=False)


def _is_drafter(name: str) -> bool:
    return name.startswith("eagle.")


def train_confu(
    job: HeadJob,
    eagle_folder: Path,
    settings: ConfuSettings,
    say: Callable[[str], None] = print,
    *,
    control: bool = False,
    contemplation: Path | None = None,
) -> Path:
    """Trains (or goes on) from the EAGLE-3 head in ``eagle_folder`` and writes the head with its
    card; returns its folder. ``control`` trains the EAGLE-3 head itself for the same budget.
    ``contemplation`` holds a ConFu head of this target, of which all but the drafter is taken:
    what [con] foresees does not depend on who listens.

    Raises the loaders' errors, UnsupportedModel where a folder holds no head of its kind,
    ValueError for a head that decoding would not know how to use.
    """
    if settings.num_contemplate_tokens != 1 or settings.future_source != "fused":
        raise ValueError("decoding reads one [con] through the fusion; train others as ablations")
    material = load_material(job, settings.training, say)
    target = material.target
    info = TargetInfo.of(target.config, material.target_sha256)
    eagle = load_head(eagle_folder, info)
    if not isinstance(eagle, EagleHead):
        raise UnsupportedModel(f"{eagle_folder} holds no EAGLE-3 head to start from")
    torch.manual_seed(settings.training.seed)
    eagle.requires_grad_(True)
    if control:
        report = run_eagle3(job, material, eagle.to(job.device), settings.training, say)
        return publish(job, eagle, "eagle3-continued", asdict(settings.training), report)
    generator = torch.Generator().manual_seed(settings.training.seed)
    head = initial_confu(target.cpu(), eagle, settings, generator).to(job.device)
    if contemplation is not None:
        take_contemplation(head, load_head(contemplation, info), contemplation)
    target.to(job.device)
    report = run_confu(job, material, head, settings, say)
    return publish(job, head, "confu", asdict(settings), report)


def run_confu(
    job: HeadJob,
    material: Material,
    head: ConfuHead,
    settings: ConfuSettings,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Trains a head in place; what the card tells of it."""
    head.eagle.requires_grad_(not settings.frozen_drafter)
    objective = ConfuObjective(material.target, head, material.calibration, settings)
    training = settings.training
    source = HeadBatchSource(material.train, training.batch_tokens, training.seed)
    trainer = HeadTrainer(objective, source, training, job.work, torch.device(job.device), say)
    trainer.run()
    head.eval()
    held_out = group_by_length(material.heldout, training.batch_tokens)
    return material.report(trainer, objective.scores_of(held_out))
