"""ConfSpec: confidence-gated verification of reasoning steps (arXiv 2602.18447).

A round: the draft model writes k steps; the target writes its own step for every prefix, packed
into one sequence; the draft model judges the pairs; confident verdicts stand, uncertain ones
before the first confident reject go to the target. Accepted steps are committed, then the
target's own step at the first rejection, or its extra step after k accepts (the bonus).

Not lossless: the output keeps steps that the target did not write. Step boundary, judge, gate
end points and what is done with unfinished steps are our choices (steps.py, judge.py, gate.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from confu_demo.config import AUTO_STEPS, DecodeConfig
from confu_demo.decoding.base import BoundModel
from confu_demo.decoding.judge import Judge, JudgeFormat, ModelJudge
from confu_demo.decoding.row_speculation import RowSpeculation
from confu_demo.decoding.run import Run
from confu_demo.decoding.step_costs import step_costs
from confu_demo.decoding.step_decoder import StepDecoder
from confu_demo.decoding.step_plan import StepCosts
from confu_demo.decoding.step_rounds import StepRounds

TARGET_JUDGES_ALL = 2.0
"""A threshold that no confidence reaches."""


class ConfspecDecoder(StepDecoder):
    """ConfSpec over a target and a draft model with one tokenizer.

    The judges are the two models themselves unless given (tests script them). Raises
    ``ValueError`` when the tokenizers differ or a verdict word is not a single token.
    """

    def __init__(
        self,
        target: BoundModel,
        draft: BoundModel,
        *,
        judge_format: JudgeFormat | None = None,
        draft_judge: Judge | None = None,
        target_judge: Judge | None = None,
        speculation: RowSpeculation | None = None,
        temperatures: tuple[float, float] = (1.0, 1.0),
        costs: StepCosts | None = None,
    ) -> None:
        """``speculation``: token-level drafts inside the target's rows, which change no text;
        ``temperatures``: of the draft's judge and of the target's; ``costs``: what forwards cost;
        None: measured where a run leaves the number of draft steps to the machine."""
        method = "confspec" if speculation is None else f"confspec+{speculation.name}"
        heads = () if speculation is None else speculation.models
        super().__init__(method, target, draft, heads)
        self._speculation, self._costs = speculation, costs
        self._judges = (
            draft_judge or ModelJudge(draft.model, draft.tokenizer, judge_format, temperatures[0]),
            target_judge
            or ModelJudge(target.model, target.tokenizer, judge_format, temperatures[1]),
        )

    def rounds(self, run: Run) -> StepRounds:
        draft = self.draft.model
        return StepRounds(
            run, draft, self.boundary, *self._judges, self._speculation, self._step_costs
        )

    def prepare(self, config: DecodeConfig) -> None:
        steps = config.confspec.draft_steps
        if steps == AUTO_STEPS or (config.confspec.fallback and steps):
            self._step_costs()

    def _step_costs(self) -> StepCosts:
        if self._costs is None:
            self._costs = step_costs(self.target, self.draft)
        return self._costs


class LookaheadDecoder(ConfspecDecoder):
    """Lookahead Reasoning (arXiv 2506.19830) with the target as its judge: ConfSpec whose every
    pair goes to the target, as with a threshold above 1 (tests/decoding/test_confspec.py). Its
    paper takes a third model or embeddings as the judge; this suite has none [O]."""

    def __init__(self, target: BoundModel, draft: BoundModel, **options: Any) -> None:
        super().__init__(target, draft, **options)
        self.method = "lookahead"

    def own(self, config: DecodeConfig) -> DecodeConfig:
        own = replace(config.confspec, threshold=TARGET_JUDGES_ALL, audit=False)
        return replace(config, confspec=own)
