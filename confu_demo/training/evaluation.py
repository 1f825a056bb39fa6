"""Held-out figures of a language model: answers, steps, verdicts.

An answer is right when the ``Answer: N`` line is; a step is right when its meaning equals the
reference step at the same place. Judge figures are over machine-made pairs of the calibration
split: accuracy, and accuracy and coverage of verdicts with confidence 0.9 or more.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerFast

from confu_demo.data.documents import (
    VERDICT_WORDS,
    JudgePair,
    judge_pair,
    judge_prompt,
    prompt_text,
)
from confu_demo.data.problems import Problem
from confu_demo.data.splits import problem
from confu_demo.data.steps import parse_answer, parse_step
from confu_demo.training.generation import generate_batch
from confu_demo.training.language_model import LanguageModel, causal_mask


@dataclass(frozen=True, slots=True)
class ProblemScore:
    answers: float  # share of problems with the right answer
    steps: float  # share of reference steps written with the right meaning at their place
    problems: int


@dataclass(frozen=True, slots=True)
class JudgeScore:
    accuracy: float
    confident_accuracy: float | None  # of verdicts with confidence >= 0.9; None without any
    coverage: float  # share of verdicts with confidence >= 0.9
    pairs: int


def right_steps(text: str, reference: Problem) -> int:
    parts = text.split("\n\n")
    count = 0
    for part, step in zip(parts, reference.steps, strict=False):
        written = parse_step(part)
        count += written is not None and written.means_the_same(step)
    return count


def score_problems(
    model: LanguageModel, tokenizer: PreTrainedTokenizerFast, split: str, count: int, start: int = 0
) -> ProblemScore:
    problems = [problem(split, index) for index in range(start, start + count)]
    bos = tokenizer.bos_token_id
    encoded = tokenizer([prompt_text(p.text) for p in problems], add_special_tokens=False)[
        "input_ids"
    ]
    answers = steps = total = 0
    for first in range(0, count, 64):
        chunk = [[bos, *ids] for ids in encoded[first : first + 64]]
        outputs = generate_batch(model, chunk, max_new_tokens=320, eos_id=tokenizer.eos_token_id)
        for reference, ids in zip(problems[first : first + 64], outputs, strict=True):
            text = tokenizer.decode(ids, skip_special_tokens=True)
            answers += parse_answer(text) == reference.answer
            steps += right_steps(text, reference)
            total += len(reference.steps)
    return ProblemScore(answers / count, steps / total, count)


@torch.no_grad()
def verdict_probs(
    model: LanguageModel, tokenizer: PreTrainedTokenizerFast, pairs: list[tuple[str, str]]
) -> list[tuple[float, float]]:
    """(probability of same among the two verdicts, probability of either verdict) per pair."""
    bos = tokenizer.bos_token_id
    words = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in VERDICT_WORDS]
    same_id, different_id = (ids[0] for ids in words)
    results = []
    for first in range(0, len(pairs), 64):
        chunk = pairs[first : first + 64]
        encoded = tokenizer([judge_prompt(a, b) for a, b in chunk], add_special_tokens=False)[
            "input_ids"
        ]
        length = max(map(len, encoded)) + 1
        ids = torch.zeros(len(chunk), length, dtype=torch.long)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens) + 1] = torch.tensor([bos, *tokens])
        output = model(model.embed(ids), torch.arange(length)[None], causal_mask(length))
        last = output.hidden[torch.arange(len(chunk)), torch.tensor([len(t) for t in encoded])]
        probs = torch.softmax(model.lm_head_logits(last).float(), dim=-1)
        same, different = probs[:, same_id], probs[:, different_id]
        results += list(
            zip((same / (same + different)).tolist(), (same + different).tolist(), strict=True)
        )
    return results


def score_judge(
    model: LanguageModel, tokenizer: PreTrainedTokenizerFast, pairs: list[JudgePair]
) -> JudgeScore:
    probs = verdict_probs(model, tokenizer, [(pair.first, pair.second) for pair in pairs])
    right = [(p > 0.5) == pair.same for (p, _), pair in zip(probs, pairs, strict=True)]
    sure = [max(p, 1 - p) >= 0.9 for p, _ in probs]
    confident = [ok for ok, certain in zip(right, sure, strict=True) if certain]
    accuracy = sum(confident) / len(confident) if confident else None
    return JudgeScore(sum(right) / len(pairs), accuracy, sum(sure) / len(pairs), len(pairs))


def synthetic_pairs(count: int, split: str = "calibration") -> list[JudgePair]:
    """Machine-made pairs about the problems of a split."""
    rng = random.Random(f"judge:{split}")
    return [judge_pair(problem(split, index), rng) for index in range(count)]
