"""ConfSpec: confidence-gated verification of reasoning steps (arXiv 2602.18447).

A round: the draft model writes k steps; the target writes its own step for every prefix, packed
into one sequence; the draft model judges the pairs; confident verdicts stand, uncertain ones
before the first confident reject go to the target. Accepted steps are committed, then the
target's own step at the first rejection, or its extra step after k accepts (the bonus).

Not lossless: the output keeps steps that the target did not write. Step boundary, judge, gate
end points and what is done with unfinished steps are our choices (steps.py, judge.py, gate.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from confu_demo.config import DecodeConfig
from confu_demo.decoding.base import BoundModel, Clock, DecodeRequest, Stop, on_clock
from confu_demo.decoding.judge import Judge, JudgeFormat, ModelJudge
from confu_demo.decoding.row_speculation import RowSpeculation
from confu_demo.decoding.run import Run, require_room
from confu_demo.decoding.step_rounds import StepRounds
from confu_demo.decoding.steps import StepBoundary
from confu_demo.trace import Event, ModelInfo

TARGET_JUDGES_ALL = 2.0
"""A threshold that no confidence reaches."""


class ConfspecDecoder:
    """ConfSpec over a target and a draft model with one tokenizer.

    The judges are the two models themselves unless given (tests script them). Raises
    ``ValueError`` when the tokenizers differ or a verdict word is not a single token.
    """

    lossless = False

    def __init__(
        self,
        target: BoundModel,
        draft: BoundModel,
        *,
        judge_format: JudgeFormat | None = None,
        draft_judge: Judge | None = None,
        target_judge: Judge | None = None,
        speculation: RowSpeculation | None = None,
    ) -> None:
        """``speculation``: token-level drafts inside the target's rows, which change no text."""
        if target.tokenizer.get_vocab() != draft.tokenizer.get_vocab():
            raise ValueError("the target and the draft model must have the same tokenizer")
        self.method = "confspec" if speculation is None else f"confspec+{speculation.name}"
        self._speculation = speculation
        self._target = target
        self._draft = draft
        self._draft_judge = draft_judge or ModelJudge(draft.model, draft.tokenizer, judge_format)
        self._target_judge = target_judge or ModelJudge(
            target.model, target.tokenizer, judge_format
        )
        self._boundary = StepBoundary(
            target.tokenizer, target.eos_ids, target.model.config.vocab_size
        )

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        """Raises ``ValueError`` at once when prompt and budget do not fit a model's context."""
        for model in (self._target, self._draft):
            require_room(request, config, model)
        return on_clock(clock, self._events(request, self._own(config), clock, stop))

    def _own(self, config: DecodeConfig) -> DecodeConfig:
        return config

    def _events(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        models: tuple[ModelInfo, ...] = (self._target.info, self._draft.info)
        if self._speculation is not None:
            models += self._speculation.models
        run = Run(self.method, models, self._target, request, config, clock)
        judges = self._draft_judge, self._target_judge
        rounds = StepRounds(run, self._draft.model, self._boundary, *judges, self._speculation)
        try:
            yield run.started()
            with run.prefill:
                rounds.prefill()
            yield run.prefilled()
            while run.reason is None:
                if stop():
                    run.reason = "cancelled"
                    break
                yield from rounds.round()
            yield run.finished()
        finally:
            del rounds  # both caches


class LookaheadDecoder(ConfspecDecoder):
    """Lookahead Reasoning (arXiv 2506.19830) with the target as its judge: ConfSpec whose every
    pair goes to the target, as with a threshold above 1 (tests/decoding/test_confspec.py). Its
    paper takes a third model or embeddings as the judge; this suite has none [O]."""

    def __init__(self, target: BoundModel, draft: BoundModel, **options: Any) -> None:
        super().__init__(target, draft, **options)
        self.method = "lookahead"

    def _own(self, config: DecodeConfig) -> DecodeConfig:
        own = replace(config.confspec, threshold=TARGET_JUDGES_ALL, audit=False)
        return replace(config, confspec=own)
