"""SpecReason (arXiv 2504.07891): the target scores one draft step at a time.

A round: the draft model writes one step; the target reads it in one forward and scores it 0 to 9;
from the threshold on (7, as in its public code) the step is kept, else the target writes its own.
The target's keys and values of a kept step stay, so nothing is read twice. Nobody compares the
step with what the target would have written: that is what ConfSpec adds, and pays for.

Not lossless. How the score is made is told in step_scorer.py; unfinished steps are rejected
unread, as in the other step methods [O].
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import torch

from confu_demo.decoding.base import BoundModel
from confu_demo.decoding.run import Run
from confu_demo.decoding.step_decoder import StepDecoder
from confu_demo.decoding.step_scorer import LikelihoodScorer, StepScorer
from confu_demo.decoding.step_writing import StepRound, StepWriting
from confu_demo.decoding.steps import GrowingStep, StepBoundary
from confu_demo.engine.target import LeanModel
from confu_demo.trace import MAX_SCORE, Event, StepGated


class ScoredRounds(StepWriting):
    """SpecReason's rounds. With ``confspec.draft_steps`` 0 the target writes alone."""

    def __init__(
        self, run: Run, draft: LeanModel, boundary: StepBoundary, scorer: StepScorer
    ) -> None:
        super().__init__(
            run, draft, boundary, draft_steps=1 if run.config.confspec.draft_steps else 0
        )
        self._scorer = scorer
        self._threshold = run.config.specreason.threshold

    def round(self) -> Iterator[Event]:
        """One round; commits one step. The run must not be over."""
        current = StepRound()
        yield from self.write_drafts(current)
        if current.drafts and (yield from self._passes(current.drafts[0])):
            num_known = len(self.run.ids) + len(current.drafts[0].token_ids)
            yield self.resolved("draft", current.draft_texts[0], None)
            yield self.commit("draft", current.drafts[0])
            self.drafter.crop(self.run.ids, num_known)
        else:
            yield from self._own_step(current)

    def _passes(self, step: GrowingStep) -> Generator[Event, None, bool]:
        """Reads and scores a draft step. If it passes, the target's cache holds it without its
        last token, which is the next root; else the cache is as it was."""
        run, score, ms = self.run, 0, 0.0
        if step.complete:
            known = self.cache.length
            tokens = [run.ids[-1], *step.token_ids[:-1]]
            with run.verify:
                ids = torch.tensor(tokens, device=self.target.device)
                logits = self.target.forward(self.cache, token_ids=ids).logits
                score = self._scorer.score(logits, step.token_ids)
            run.count_verify(len(tokens))
            ms = run.verify.last_ms
            if score < self._threshold:
                self.cache.rollback(known)
        passes = step.complete and score >= self._threshold
        yield StepGated(
            t_ms=run.clock.now(),
            step=self.num_steps,
            verdict="same" if passes else "different",
            confidence=score / MAX_SCORE,
            verdict_mass=None,
            threshold=self._threshold / MAX_SCORE,
            decision="accept" if passes else "reject",
            exact_match=False,
            ms=ms,
            score=score,
        )
        return passes

    def _own_step(self, current: StepRound) -> Iterator[Event]:
        """The target's step instead of the draft's, or in a run without drafts."""
        own = StepRound()
        packed = self.packed_rows(own)
        yield from self.write_rows(own, packed)
        other = current.draft_texts[0] if current.drafts else None
        yield self.resolved("target", own.row_texts[0], other)
        num_known = len(self.run.ids)
        yield self.commit("target", own.rows[0])
        packed.keep(0)
        self.drafter.crop(self.run.ids, num_known)


class SpecreasonDecoder(StepDecoder):
    """SpecReason over a target and a draft model with one tokenizer."""

    def __init__(
        self, target: BoundModel, draft: BoundModel, *, scorer: StepScorer | None = None
    ) -> None:
        super().__init__("specreason", target, draft)
        self._scorer = scorer or LikelihoodScorer()

    def rounds(self, run: Run) -> ScoredRounds:
        return ScoredRounds(run, self.draft.model, self.boundary, self._scorer)
