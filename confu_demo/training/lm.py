"""Trains the bundled target and draft models: ``python -m confu_demo train target`` (or draft).

Muon for matrices, AdamW for embeddings, head and norms; constant learning rate after a short
warm-up, linear decay over the last part; a progress line, held-out evaluations on the way, and
a checkpoint that a later run continues from. The same trainer runs the judge's second round
(:mod:`confu_demo.training.judge`) from given weights, with another curriculum.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from confu_demo.engine.model_config import ModelConfig
from confu_demo.training.batching import CURRICULUM, Batch, BatchSource, Phase
from confu_demo.training.corpus import Corpus, Document, DocumentEncoder
from confu_demo.training.evaluation import score_judge, score_problems, synthetic_pairs
from confu_demo.training.language_model import LanguageModel, causal_mask
from confu_demo.training.lm_setup import grow_layers, make_optimisers, share_digit_embeddings


@dataclass(frozen=True, slots=True, kw_only=True)
class LmSettings:
    """``grow_at`` maps a share of the tokens to the number of layers from there on."""

    hidden_size: int
    num_heads: int
    intermediate_size: int
    num_layers: int
    total_tokens: int
    grow_at: tuple[tuple[float, int], ...] = ()
    batch_tokens: int = 2400
    muon_rate: float = 0.003
    adam_rate: float = 0.003
    warmup_steps: int = 60
    decay_share: float = 0.3
    seed: int = 0
    eval_every_tokens: int = 500_000
    eval_problems: int = 64
    save_every_s: float = 120.0

    def model_config(self, vocab_size: int) -> ModelConfig:
        return ModelConfig(
            family="qwen3",
            vocab_size=vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            head_dim=self.hidden_size // self.num_heads,
            rms_norm_eps=1e-6,
            rope_theta=10_000.0,
            rope_scaling=None,
            max_positions=1024,
            tie_embeddings=False,
            attention_bias=False,
            qk_norm=True,
        )


@dataclass(frozen=True, slots=True)
class Objective:
    """The loss. ``digits`` bool[V] marks digit tokens; ``verdict_ids`` are same and different."""

    digits: Tensor
    verdict_ids: list[int]

    @classmethod
    def of(cls, encoder: DocumentEncoder, device: torch.device) -> Objective:
        digits = torch.from_numpy(encoder.token_weights == 3.0).to(device)
        return cls(digits, encoder.verdict_ids)

    def __call__(self, model: LanguageModel, batch: Batch) -> tuple[Tensor, float]:
        """(weighted mean cross-entropy, plain mean cross-entropy of the digits that count).

        Verdicts on the way add a two-way cross-entropy between the head's two verdict rows.
        """
        ids = batch.token_ids
        length = ids.size(1)
        positions = torch.arange(length, device=ids.device)[None]
        hidden = model(model.embed(ids), positions, causal_mask(length, ids.device)).hidden
        weights, targets = batch.weights[:, 1:], ids[:, 1:]
        chosen = weights > 0
        logits = model.lm_head_logits(hidden[:, :-1][chosen])
        losses = F.cross_entropy(logits.float(), targets[chosen], reduction="none")
        loss = (losses * weights[chosen]).sum() / weights[chosen].sum()
        if batch.verdicts is not None:
            labelled = batch.verdicts >= 0
            rows = model.lm_head.weight[self.verdict_ids]
            pair = F.linear(model.model.norm(hidden[labelled]), rows)
            loss = loss + F.cross_entropy(pair.float(), batch.verdicts[labelled])
        is_digit = self.digits[targets[chosen]] & (weights[chosen] >= 1.0)
        return loss, losses.detach()[is_digit].mean().item() if is_digit.any() else math.nan


@dataclass(slots=True)
class LmTrainer:
    settings: LmSettings
    tokenizer: PreTrainedTokenizerFast
    folder: Path  # checkpoint and log
    corpus_folder: Path | None
    device: torch.device
    say: Callable[[str], None]
    initial: LanguageModel | None = None  # weights to start from instead of random ones
    extra_streams: dict[str, list[Document]] = field(default_factory=dict)
    curriculum: tuple[Phase, ...] = CURRICULUM
    model: LanguageModel | None = None  # the trained model, after run()
    tokens: int = 0
    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> LanguageModel:
        torch.manual_seed(self.settings.seed)
        encoder = DocumentEncoder(self.tokenizer)
        objective = Objective.of(encoder, self.device)
        source = BatchSource(
            Corpus(encoder, self.corpus_folder, self.extra_streams),
            self.tokenizer.pad_token_id,
            self.settings.batch_tokens,
            self.settings.total_tokens,
            self.curriculum,
        )
        model, optimisers = self._start_or_resume(source)
        started, saved, evaluated = time.monotonic(), time.monotonic(), self.tokens
        tokens_at_start, recent = self.tokens, []
        while self.tokens < self.settings.total_tokens:
            if self._layers_due() > model.config.num_layers:
                model = grow_layers(model, self._layers_due()).to(self.device)
                optimisers = self._optimisers(model)
                self.say(f"grown to {model.config.num_layers} layers")
            recent.append(self._update(model, optimisers, source.next(self.tokens), objective))
            if self.step % 25 == 0:
                self._progress(recent, started, tokens_at_start)
                recent = []
            if self.tokens - evaluated >= self.settings.eval_every_tokens:
                evaluated = self.tokens
                self._evaluate(model)
            if time.monotonic() - saved > self.settings.save_every_s:
                saved = time.monotonic()
                self._save(model, optimisers, source)
        if not self.history or self.history[-1]["tokens"] != self.tokens:
            self._evaluate(model)
        self._save(model, optimisers, source)
        self.model = model
        return model

    def _update(
        self,
        model: LanguageModel,
        optimisers: list[torch.optim.Optimizer],
        batch: Batch,
        objective: Objective,
    ) -> tuple[float, float]:
        """One step on one batch: (weighted loss, digit loss)."""
        self._set_rates(optimisers)
        loss, digit_loss = objective(model, batch.to(self.device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.tokens += batch.num_tokens
        self.step += 1
        return loss.item(), digit_loss

    def _layers_due(self) -> int:
        share = self.tokens / self.settings.total_tokens
        due = [layers for at, layers in self.settings.grow_at if share >= at]
        return max([self.settings.num_layers, *due])

    def _set_rates(self, optimisers: list[torch.optim.Optimizer]) -> None:
        warm = min(1.0, (self.step + 1) / self.settings.warmup_steps)
        left = 1.0 - self.tokens / self.settings.total_tokens
        factor = warm * min(1.0, 0.02 + 0.98 * left / self.settings.decay_share)
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = group["base_rate"] * factor

    def _progress(
        self, recent: list[tuple[float, float]], started: float, tokens_before: int
    ) -> None:
        elapsed = time.monotonic() - started
        rate = (self.tokens - tokens_before) / elapsed
        left = (self.settings.total_tokens - self.tokens) / rate
        digit = [d for _, d in recent if not math.isnan(d)]
        self.say(
            f"step {self.step}  tokens {self.tokens / 1e6:.2f}M  {rate:.0f} tokens/s  "
            f"loss {sum(r[0] for r in recent) / len(recent):.3f}  "
            f"digits {sum(digit) / max(1, len(digit)):.3f}  left {left / 60:.0f} min"
        )

    def _evaluate(self, model: LanguageModel) -> None:
        model.eval()
        problems = score_problems(model, self.tokenizer, "calibration", self.settings.eval_problems)
        judge = score_judge(model, self.tokenizer, synthetic_pairs(256))
        model.train()
        row = {"tokens": self.tokens, "layers": model.config.num_layers}
        row |= {f"problem_{k}": v for k, v in asdict(problems).items()}
        row |= {f"judge_{k}": v for k, v in asdict(judge).items()}
        self.history.append(row)
        with (self.folder / "history.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        sure = "-" if judge.confident_accuracy is None else f"{judge.confident_accuracy:.3f}"
        self.say(
            f"  evaluation at {self.tokens / 1e6:.2f}M tokens: answers {problems.answers:.3f}  "
            f"steps {problems.steps:.3f}  judge {judge.accuracy:.3f}  sure {judge.coverage:.2f} "
            f"of which right {sure}"
        )

    def _save(self, model: LanguageModel, optimisers: list[Any], source: BatchSource) -> None:
        state = {
            "model": model.state_dict(),
            "num_layers": model.config.num_layers,
            "optimisers": [optimiser.state_dict() for optimiser in optimisers],
            "tokens": self.tokens,
            "step": self.step,
            "positions": source.positions,
            "history": self.history,
        }
        path = self.folder / "checkpoint.pt"
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def _start_or_resume(
        self, source: BatchSource
    ) -> tuple[LanguageModel, list[torch.optim.Optimizer]]:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "checkpoint.pt"
        config = self.settings.model_config(len(self.tokenizer))
        if not path.is_file():
            model = self.initial or LanguageModel(config)
            if self.initial is None:
                share_digit_embeddings(model, self.tokenizer)
            model.to(self.device)
            return model, self._optimisers(model)
        state = torch.load(path, map_location=self.device, weights_only=True)
        model = LanguageModel(replace(config, num_layers=state["num_layers"])).to(self.device)
        model.load_state_dict(state["model"])
        optimisers = self._optimisers(model)
        for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.tokens, self.step, self.history = state["tokens"], state["step"], state["history"]
        source.positions = dict(state["positions"])
        self.say(f"resuming at {self.tokens / 1e6:.2f}M tokens")
        return model, optimisers

    def _optimisers(self, model: LanguageModel) -> list[torch.optim.Optimizer]:
        settings = self.settings
        return make_optimisers(model, muon_rate=settings.muon_rate, adam_rate=settings.adam_rate)
