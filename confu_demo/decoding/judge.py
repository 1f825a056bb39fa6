"""The judge: does a draft step mean the same as the target's step, and how sure is the model.

The verdict is one token behind a prompt that shows both steps. Confidence is the probability of
the chosen verdict renormalised over the two verdict tokens; their un-renormalised sum is kept as
the verdict mass (our choices: the paper's formula and prompt are not public to us). All prompts
of a round go through one packed forward: their common beginning once, then one branch each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from confu_demo.engine.target import LeanModel
from confu_demo.trace import Verdict

StepPair = tuple[str, str]
"""Texts of the draft step and of the target step, white space stripped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFormat:
    """How the question is put. The defaults are the document type that the bundled models are
    trained on; a chat model's format replaces the three pieces and the two words."""

    before_draft: str = "Compare:\nA: "
    before_target: str = "\nB: "
    before_verdict: str = "\nVerdict:"
    same: str = " same"
    different: str = " different"

    def prompt(self, pair: StepPair) -> str:
        draft, target = pair
        return f"{self.before_draft}{draft}{self.before_target}{target}{self.before_verdict}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """One verdict with its confidence (0.5 to 1) and verdict mass (0 to 1)."""

    verdict: Verdict
    confidence: float
    mass: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The opinions about the pairs that were asked for, and the cost: the tokens of one forward."""

    opinions: tuple[Opinion, ...]
    num_tokens: int


class Judge(Protocol):
    """Anything that compares steps; tests script it."""

    def compare(self, pairs: Sequence[StepPair]) -> Judgement: ...


class ModelJudge:
    """A model as a judge. Stateless: each call has its own scratch cache.

    Raises ``ValueError`` when a verdict word is not exactly one token behind the prompt.
    """

    def __init__(
        self,
        model: LeanModel,
        tokenizer: Any,
        judge_format: JudgeFormat | None = None,
        temperature: float = 1.0,
    ) -> None:
        """``temperature`` (above 0) divides the log-odds of the verdict: how sure the judge is,
        never what it says. ``python -m confu_demo calibrate`` fits it."""
        self._model, self._temperature = model, temperature
        self._encoder = tokenizer.backend_tokenizer
        self._format = judge_format or JudgeFormat()
        bos = tokenizer.bos_token_id
        self._bos: list[int] = [] if bos is None else [bos]
        words = (self._format.same, self._format.different)
        verdict_ids = [self._single_token(word) for word in words]
        self._verdict_ids = torch.tensor(verdict_ids, device=model.device)

    def _single_token(self, word: str) -> int:
        prompt = self._format.prompt(("1 + 1 = 2.", "1 + 1 = 2."))
        before, after = self._encode(prompt), self._encode(prompt + word)
        if len(after) != len(before) + 1 or after[:-1] != before:
            raise ValueError(
                f"the verdict {word!r} must be one token of the judge's tokenizer, "
                f"not {len(after) - len(before)}; give the judge format another word"
            )
        return after[-1]

    def _encode(self, text: str) -> list[int]:
        # The whole prompt at once, not piece by piece: tokens may join at the seams, and the
        # model was trained on whole documents.
        return [*self._bos, *self._encoder.encode(text, add_special_tokens=False).ids]

    def compare(self, pairs: Sequence[StepPair]) -> Judgement:
        """One packed forward for all pairs (none for an empty sequence)."""
        prompts = [self._encode(self._format.prompt(pair)) for pair in pairs]
        fits = [len(prompt) <= self._model.config.max_positions for prompt in prompts]
        readable = [prompt for prompt, fit in zip(prompts, fits, strict=True) if fit]
        packed = pack_prompts(readable) if readable else None
        answers = iter([] if packed is None else self._ask(packed))
        # A pair beyond the judge's context cannot be read: no mass, hence never confident.
        unread = Opinion(verdict="different", confidence=0.5, mass=0.0)
        return Judgement(
            opinions=tuple(next(answers) if fit else unread for fit in fits),
            num_tokens=0 if packed is None else len(packed.token_ids),
        )

    def _ask(self, packed: PackedPrompts) -> list[Opinion]:
        device = self._model.device
        output = self._model.forward(
            self._model.new_cache(len(packed.token_ids)),
            token_ids=packed.token_ids.to(device),
            positions=packed.positions.to(device),
            mask=packed.mask.to(device),
            logits_rows=packed.last_rows.to(device),
        )
        probs = output.logits.softmax(-1)[:, self._verdict_ids]
        return [_opinion(same, other, self._temperature) for same, other in probs.tolist()]


def _opinion(same: float, different: float, temperature: float = 1.0) -> Opinion:
    """From the two verdict tokens' probabilities; a tie counts as different (nothing is gained
    by keeping a step that the judge cannot tell apart)."""
    mass = same + different
    verdict: Verdict = "same" if same > different else "different"
    confidence = max(same, different) / mass if mass > 0.0 else 0.5
    if temperature != 1.0 and 0.5 < confidence < 1.0:
        confidence = 1.0 / (1.0 + (confidence / (1.0 - confidence)) ** (-1.0 / temperature))
    return Opinion(verdict=verdict, confidence=confidence, mass=min(mass, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPrompts:
    """Several prompts as branches behind their common beginning.

    token_ids Long[S], positions Long[S] (each prompt counts from 0), mask Bool[S, S] (True = may
    attend), last_rows Long[prompts] (the row whose logits are a prompt's answer).
    """

    token_ids: Tensor
    positions: Tensor
    mask: Tensor
    last_rows: Tensor


def pack_prompts(prompts: Sequence[Sequence[int]]) -> PackedPrompts:
    """Packs non-empty prompts. For (r a b) and (r c) behind the common beginning r:

    r a b c    positions 0 1 2 1, last rows 2 and 3
    1 . . .    r
    1 1 . .    a
    1 1 1 .    b
    1 . . 1    c
    """
    shared = _common_prefix_length(prompts)
    tokens = list(prompts[0][:shared])
    positions = list(range(shared))
    owners = [-1] * shared  # -1: everybody's
    last_rows = []
    for i, prompt in enumerate(prompts):
        tokens.extend(prompt[shared:])
        positions.extend(range(shared, len(prompt)))
        owners.extend([i] * (len(prompt) - shared))
        last_rows.append(len(tokens) - 1)
    owner = torch.tensor(owners)
    visible = (owner[None, :] == -1) | (owner[None, :] == owner[:, None])
    return PackedPrompts(
        token_ids=torch.tensor(tokens),
        positions=torch.tensor(positions),
        mask=visible.tril(),
        last_rows=torch.tensor(last_rows),
    )


def _common_prefix_length(prompts: Sequence[Sequence[int]]) -> int:
    """Length of the common beginning, at least one token short of the shortest prompt, so that
    every branch has a row of its own to answer from."""
    longest = min(len(prompt) for prompt in prompts) - 1
    for length in range(longest):
        if any(prompt[length] != prompts[0][length] for prompt in prompts):
            return length
    return longest
