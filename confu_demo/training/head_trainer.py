"""The training loop that both heads share: budget, optimisers, progress, checkpoints, history.

Muon for matrices, AdamW for the rest, warm-up, then linear decay to zero [O]. The budget is a
number of tokens, of seconds, or both (whichever is spent first); the learning rate follows the
share of it that is spent. What is learned is an :class:`Objective`'s business.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from confu_demo.training.drafter_unroll import UnrollResult
from confu_demo.training.head_batches import HeadBatch, HeadBatchSource
from confu_demo.training.muon import Muon


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSettings:
    """``unroll_steps`` and ``step_decay`` as in EAGLE-3 [E]; the rest is our choice.

    ``shorter_unrolls``: (share of the budget, steps) pairs; until that share is spent only so
    many steps are unrolled, which is cheaper. ``num_candidates`` draft tokens of a batch get
    logits (None: the whole draft vocabulary): with 8,192 of them the output head is half of the
    drafter's work. ``row_dropout``: of the drafter's normed inputs, against learning few answers
    by heart. ``dtype``: of the matrix products of training; scores and labels are float32.
    """

    total_tokens: int | None = None
    max_seconds: float | None = None
    unroll_steps: int = 7
    step_decay: float = 0.8
    shorter_unrolls: tuple[tuple[float, int], ...] = ()
    num_candidates: int | None = None
    row_dropout: float = 0.0
    batch_tokens: int = 2400
    muon_rate: float = 0.01
    adam_rate: float = 0.003
    warmup_steps: int = 20
    evaluations: int = 6  # on the way
    eval_documents: int = 48
    save_every_s: float = 60.0
    seed: int = 0
    dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        if not self.total_tokens and not self.max_seconds:
            raise ValueError("a head needs a budget: total tokens or seconds above zero")
        if self.unroll_steps < 1 or self.evaluations < 1 or self.eval_documents < 1:
            raise ValueError("unroll steps, evaluations and their documents must be 1 or more")
        if not 0.0 <= self.row_dropout < 1.0:
            raise ValueError(f"the dropout must be 0 or more and below 1, not {self.row_dropout}")
        if self.num_candidates is not None and self.num_candidates < 1:
            raise ValueError(f"the loss needs 1 candidate or more, not {self.num_candidates}")

    def steps_at(self, share_spent: float) -> int:
        """How many steps are unrolled when that share of the budget is spent."""
        for share, steps in self.shorter_unrolls:
            if share_spent < share:
                return min(steps, self.unroll_steps)
        return self.unroll_steps


class Objective(Protocol):
    """What the loop needs to know of a head. ``steps_at``: how many steps are unrolled when that
    share of the budget is spent (0: the drafter does not learn yet). ``own_rates``: AdamW's rate
    for parameters that need another one than the rest. ``evaluate`` returns scores by name."""

    @property
    def head(self) -> nn.Module: ...

    def steps_at(self, share_spent: float) -> int: ...

    def loss(
        self, batch: HeadBatch, generator: torch.Generator, num_steps: int
    ) -> UnrollResult: ...

    def evaluate(self) -> dict[str, Any]: ...

    def own_rates(self) -> list[tuple[float, list[nn.Parameter]]]: ...


def make_optimisers(objective: Objective, settings: HeadSettings) -> list[torch.optim.Optimizer]:
    """Muon for ``fc``, the matrices of the draft layer and the foresight maps; AdamW for norms,
    output head and everything else that ConFu adds; frozen parameters belong to neither."""
    own = objective.own_rates()
    special = {id(parameter) for _, parameters in own for parameter in parameters}
    learning = [(n, p) for n, p in objective.head.named_parameters() if p.requires_grad]
    named = [(n, p) for n, p in learning if id(p) not in special]

    def for_muon(name: str, parameter: Tensor) -> bool:
        return parameter.dim() == 2 and (
            "midlayer." in name or "foresight_maps." in name or name.endswith("fc.weight")
        )

    adam_groups: list[dict[str, Any]] = [
        {"params": [p for n, p in named if not for_muon(n, p)], "lr": settings.adam_rate}
    ]
    adam_groups += [{"params": parameters, "lr": rate} for rate, parameters in own]
    dtype = torch.bfloat16 if settings.dtype == "bfloat16" else None
    matrices = [p for n, p in named if for_muon(n, p)]
    optimisers: list[torch.optim.Optimizer] = []
    if matrices:  # none with a frozen drafter and no foresight maps
        optimisers.append(Muon(matrices, lr=settings.muon_rate, dtype=dtype))
    optimisers.append(torch.optim.AdamW(adam_groups, betas=(0.9, 0.98), weight_decay=0.0))
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["base_rate"] = group["lr"]
    return optimisers


@dataclass(slots=True)
class HeadTrainer:
    """One training run. ``folder`` holds checkpoint and history, and a later run goes on."""

    objective: Objective
    source: HeadBatchSource
    settings: HeadSettings
    folder: Path
    device: torch.device
    say: Callable[[str], None]
    tokens: int = 0
    step: int = 0
    seconds: float = 0.0
    evaluated: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> None:
        """Trains the objective's head in place."""
        optimisers = make_optimisers(self.objective, self.settings)
        self._resume(optimisers)
        if not self.history:
            self._evaluate()
        since = time.monotonic() - self.seconds
        saved, recent = time.monotonic(), []
        while self.share_spent() < 1.0:
            batch = self.source.next(self.device)
            recent.append(self._update(optimisers, batch))
            self.seconds = time.monotonic() - since
            if self.step % 20 == 0:
                self._progress(recent)
                recent = []
            due = int(self.share_spent() * self.settings.evaluations)
            if due > self.evaluated:
                self.evaluated = due
                before = time.monotonic()
                self._evaluate()
                since += time.monotonic() - before  # the budget is for training alone
            if time.monotonic() - saved > self.settings.save_every_s:
                saved = time.monotonic()
                self._save(optimisers)
        self._save(optimisers)

    def share_spent(self) -> float:
        settings = self.settings
        shares = [self.tokens / settings.total_tokens] if settings.total_tokens else []
        shares += [self.seconds / settings.max_seconds] if settings.max_seconds else []
        return min(1.0, max(shares))

    def _update(self, optimisers: list[torch.optim.Optimizer], batch: HeadBatch) -> UnrollResult:
        settings = self.settings
        # One generator a step, so that a resumed run draws what an unbroken one would.
        generator = torch.Generator(self.device).manual_seed(settings.seed * 1_000_003 + self.step)
        warm = min(1.0, (self.step + 1) / settings.warmup_steps)
        factor = warm * max(0.01, 1.0 - self.share_spent())
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = group["base_rate"] * factor
        num_steps = self.objective.steps_at(self.share_spent())
        torch.manual_seed(settings.seed * 1_000_003 + self.step)  # of the dropout
        rough = settings.dtype == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=rough):
            result = self.objective.loss(batch, generator, num_steps)
        result.loss.backward()
        nn.utils.clip_grad_norm_(self.objective.head.parameters(), 1.0)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.tokens += batch.num_tokens
        self.step += 1
        return result

    def _progress(self, recent: list[UnrollResult]) -> None:
        share, rate = self.share_spent(), self.tokens / max(1e-9, self.seconds)
        loss = sum(float(result.loss.detach()) for result in recent) / len(recent)
        shown = min(result.matches.shape[-1] for result in recent)
        matches = sum(result.matches[..., :shown].flatten(0, 1).sum(0) for result in recent)
        labels = sum(result.has_label[..., :shown].flatten(0, 1).sum(0) for result in recent)
        shares = (matches / labels.clamp(min=1)).tolist()  # type: ignore[union-attr]
        accepted = (
            f"accepted at depth 1 {shares[0]:.3f}, {len(shares)} {shares[-1]:.3f}  "
            if shares
            else ""
        )
        self.say(
            f"step {self.step}  tokens {self.tokens / 1e3:.0f}k  {rate:.0f} tokens/s  "
            f"loss {loss:.3f}  {accepted}"
            f"left {self.seconds * (1 / max(1e-6, share) - 1) / 60:.1f} min"
        )

    def _evaluate(self) -> None:
        self.objective.head.eval()
        row = {"tokens": self.tokens, "steps": self.step, "seconds": round(self.seconds, 1)}
        row |= self.objective.evaluate()
        self.objective.head.train()
        self.history.append(row)
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in self.history)
        (self.folder / "history.jsonl").write_text(lines, encoding="utf-8")
        self.say(f"  held out at {self.tokens / 1e3:.0f}k tokens: " + describe(row))

    def _save(self, optimisers: list[torch.optim.Optimizer]) -> None:
        state = {
            "head": self.objective.head.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in optimisers],
            "counts": [self.tokens, self.step, self.evaluated, self.source.drawn],
            "seconds": self.seconds,
            "history": self.history,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "checkpoint.pt"
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def _resume(self, optimisers: list[torch.optim.Optimizer]) -> None:
        path = self.folder / "checkpoint.pt"
        if not path.is_file():
            return
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.objective.head.load_state_dict(state["head"])
        for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.tokens, self.step, self.evaluated, self.source.drawn = state["counts"]
        self.seconds, self.history = state["seconds"], state["history"]
        self.say(f"resuming at step {self.step}, {self.tokens / 1e3:.0f}k tokens")


def describe(row: dict[str, Any]) -> str:
    """One line of an evaluation's scores (dictionaries with a mean accepted length)."""
    scores = {name: score for name, score in row.items() if isinstance(score, dict)}
    return "  ".join(
        f"{name}: length {score['walked_length']:.2f}, by depth "
        + "/".join(f"{share:.3f}" for share in score["acceptance"])
        for name, score in scores.items()
    )
