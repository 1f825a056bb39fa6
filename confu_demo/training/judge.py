"""The judge's second round: on-policy pairs, ``python -m confu_demo train judge``.

In ConfSpec the judge compares the draft model's step with the target's step after the same
prefix; synthetic negatives do not cover the mistakes that models make. Here both models write,
the machine-readable meaning labels each pair, and both models are trained further on these
pairs, synthetic ones and solutions (so that nothing is forgotten). Our own choice (models.md).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from confu_demo.data.documents import JudgePair, prompt_text
from confu_demo.data.meaning import same_meaning
from confu_demo.data.problems import Problem
from confu_demo.data.splits import problem, training_problem
from confu_demo.training.batching import Phase
from confu_demo.training.corpus import DocumentEncoder
from confu_demo.training.generation import generate_batch
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.lm import LmSettings, LmTrainer


@dataclass(slots=True)
class PairMaker:
    """Lets the target solve problems and the draft model write one step after the same prefix."""

    target: LanguageModel
    draft: LanguageModel
    tokenizer: PreTrainedTokenizerFast
    say: Callable[[str], None]
    max_step_tokens: int = 48

    def pairs(
        self, problems: list[Problem], seed: int, temperature: float = 0.0
    ) -> list[JudgePair]:
        """One pair a problem, at a random step; pairs with equal words are left out."""
        rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
        rows: list[JudgePair] = []
        for first in range(0, len(problems), 64):
            chunk = problems[first : first + 64]
            rows += self._chunk(chunk, rng, generator, temperature)
            if first % 512 == 0:
                self.say(f"on-policy pairs: {first + len(chunk)} of {len(problems)} problems")
        return rows

    def _chunk(
        self,
        problems: list[Problem],
        rng: random.Random,
        generator: torch.Generator,
        temperature: float,
    ) -> list[JudgePair]:
        tokenizer = self.tokenizer
        bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
        (blank,) = tokenizer("\n\n", add_special_tokens=False)["input_ids"]
        texts = [prompt_text(p.text) for p in problems]
        prompts = [[bos, *ids] for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
        solutions = generate_batch(
            self.target,
            prompts,
            max_new_tokens=320,
            eos_id=eos,
            temperature=temperature,
            generator=generator,
        )
        prefixes, target_steps = [], []
        for prompt, solution in zip(prompts, solutions, strict=True):
            starts = [0] + [place + 1 for place, token in enumerate(solution) if token == blank]
            start = rng.choice([place for place in starts if place < len(solution)])
            end = next((p for p in starts if p > start), len(solution))
            prefixes.append(prompt + solution[:start])
            target_steps.append(
                tokenizer.decode(solution[start:end], skip_special_tokens=True).strip()
            )
        drafts = generate_batch(
            self.draft,
            prefixes,
            max_new_tokens=self.max_step_tokens,
            eos_id=eos,
            extra_stop_ids=(blank,),
            temperature=temperature,
            generator=generator,
        )
        rows = []
        for ids, target_step in zip(drafts, target_steps, strict=True):
            draft_step = tokenizer.decode(ids, skip_special_tokens=True).strip()
            if draft_step != target_step:
                same = same_meaning(draft_step, target_step)
                rows.append(JudgePair(draft_step, target_step, same, "on-policy"))
        return rows


def training_pairs(maker: PairMaker, count: int, seed: int) -> list[JudgePair]:
    """Pairs on fresh training problems: half greedy, half sampled at temperature 0.7."""
    rng = random.Random(f"on-policy:{seed}")
    problems = [training_problem(rng, min_steps=3, max_steps=9) for _ in range(count)]
    half = count // 2
    return maker.pairs(problems[:half], seed) + maker.pairs(problems[half:], seed + 1, 0.7)


def calibration_problems(count: int) -> list[Problem]:
    return [problem("calibration", index) for index in range(count)]


ROUND_TWO = (Phase(1.01, {"full": 0.4, "judge": 0.25, "on-policy": 0.35}),)


def second_round_settings(
    settings: dict[str, Any], model: LanguageModel, tokens: int
) -> LmSettings:
    """The first round's settings at a third of its rates, decaying to zero over the whole round."""
    return LmSettings(
        hidden_size=settings["hidden_size"],
        num_heads=settings["num_heads"],
        intermediate_size=settings["intermediate_size"],
        num_layers=model.config.num_layers,
        total_tokens=tokens,
        batch_tokens=settings["batch_tokens"],
        muon_rate=settings["muon_rate"] / 3,
        adam_rate=settings["adam_rate"] / 3,
        decay_share=1.0,
        eval_every_tokens=max(tokens // 3, 1),
    )


@dataclass(slots=True)
class SecondRound:
    """Trains one of the two models further. ``pairs`` are labelled on-policy pairs."""

    tokenizer: PreTrainedTokenizerFast
    pairs: list[JudgePair]
    work: Path
    device: torch.device
    say: Callable[[str], None]

    def run(self, name: str, model: LanguageModel, settings: LmSettings) -> LmTrainer:
        encoder = DocumentEncoder(self.tokenizer)
        both_orders = [(p.first, p.second, p.same) for p in self.pairs]
        both_orders += [(p.second, p.first, p.same) for p in self.pairs]
        trainer = LmTrainer(
            settings,
            self.tokenizer,
            self.work / f"{name}-judge",
            self.work / "corpus",
            self.device,
            self.say,
            initial=model,
            extra_streams={"on-policy": encoder.judgements(both_orders)},
            curriculum=ROUND_TWO,
        )
        trainer.run()
        return trainer


def load_or_make_pairs(path: Path, make: Callable[[], list[JudgePair]]) -> list[JudgePair]:
    """Pairs from a JSON Lines file, made and written there first if it is not there yet."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(asdict(pair)) for pair in make()]
        path.with_suffix(".part").write_text("\n".join(lines) + "\n", encoding="utf-8")
        path.with_suffix(".part").replace(path)
    return [JudgePair(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
