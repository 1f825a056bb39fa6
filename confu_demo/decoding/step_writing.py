"""What every method of reasoning steps writes with: both models, their caches, the commits.

Owns both caches of the run. Times: the milliseconds of every forward are in exactly one event,
and rows that share a forward share its time evenly, so that the sums of the events are the run's
``draft_ms`` and ``verify_ms``; cropping caches is "other".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch import Tensor

from confu_demo.decoding.branches import PackedRows
from confu_demo.decoding.row_drafter import RowDrafter
from confu_demo.decoding.row_speculation import RowSpeculation
from confu_demo.decoding.run import Run
from confu_demo.decoding.speculative_rows import SpeculativeRows
from confu_demo.decoding.step_drafter import StepDrafter
from confu_demo.decoding.steps import GrowingStep, StepBoundary, row_limits
from confu_demo.engine.sampling import PositionNoise, sample
from confu_demo.engine.target import LeanModel
from confu_demo.trace import Author, Event, StepDrafted, StepResolved, TokensCommitted

_DRAFT_STREAM = 2**63  # user seeds are smaller: the draft model never shares the target's noise


@dataclass(slots=True)
class StepRound:
    """What one round has written: draft steps 0..n-1, target rows 0..n or 0..n-1, their texts."""

    drafts: list[GrowingStep] = field(default_factory=list)
    draft_texts: list[str] = field(default_factory=list)
    rows: list[GrowingStep] = field(default_factory=list)
    row_texts: list[str] = field(default_factory=list)


class StepWriting:
    """Both caches hold the committed tokens without the last one (the root) between rounds; the
    draft model's may hold fewer. ``num_steps`` counts committed steps, ``draft_steps`` is how many
    the next round drafts."""

    def __init__(
        self,
        run: Run,
        draft: LeanModel,
        boundary: StepBoundary,
        *,
        draft_steps: int,
        speculation: RowSpeculation | None = None,
    ) -> None:
        """``draft_steps``: the most that a round ever drafts; ``speculation``: token-level drafts
        inside the target's rows."""
        self.num_steps = 0
        self.run, self._boundary, self.draft_steps = run, boundary, draft_steps
        self.config = run.config.confspec
        longest = run.num_prompt + run.config.max_new_tokens
        row_tokens = min(self.config.max_step_tokens, run.config.max_new_tokens)
        num_rows = draft_steps + 1
        self.target = run.target.model
        capacity = longest + num_rows * row_tokens
        self._row_drafter: RowDrafter | None = None
        if speculation is not None:
            self._row_drafter = speculation.new_drafter(run.config, num_rows, capacity)
            capacity += num_rows * self._row_drafter.slots_per_row
        self.cache = self.target.new_cache(capacity)
        self._sampling = run.config.sampling
        self._noise = PositionNoise(self._sampling.seed, self.target.config.vocab_size)
        # Models of one family may pad the vocabulary differently.
        self._draft_vocab = min(draft.config.vocab_size, self.target.config.vocab_size)
        self._draft_noise = PositionNoise(self._sampling.seed + _DRAFT_STREAM, self._draft_vocab)
        self.drafter = StepDrafter(draft, longest, self._sample_draft)

    def _sample_target(self, logits: Tensor, positions: list[int]) -> Tensor:
        return sample(logits, self._sampling, self._noise, positions)

    def _sample_draft(self, logits: Tensor, positions: list[int]) -> Tensor:
        logits = logits[:, : self._draft_vocab]
        return sample(logits, self._sampling, self._draft_noise, positions)

    def prefill(self) -> None:
        """The prompt without its last token, which is the root of the first round."""
        (self._row_drafter or RowDrafter()).prefill(self.target, self.cache, self.run.ids)
        prompt = self.run.ids[:-1]
        if self.draft_steps:
            self.drafter.prefill(prompt)

    def write_drafts(self, current: StepRound) -> Iterator[Event]:
        """Up to k steps, until one is cut or ends the answer, or the budget is used up."""
        run = self.run
        prefix = list(run.ids)
        for _ in range(self.draft_steps):
            left = run.num_left - (len(prefix) - len(run.ids))
            if left < 1 or (current.drafts and not current.drafts[-1].can_be_continued):
                return
            step = GrowingStep(self._boundary, min(left, self.config.max_step_tokens))
            with run.draft:
                self.drafter.write(prefix, step)
            run.draft_forwards += len(step.token_ids)
            prefix.extend(step.token_ids)
            current.draft_texts.append(self._text(step))
            current.drafts.append(step)
            index = len(current.drafts) - 1
            yield self.drafted(index, "draft", step, current.draft_texts[-1], run.draft.last_ms)

    def packed_rows(self, current: StepRound) -> PackedRows | SpeculativeRows:
        limits = row_limits(
            current.drafts, cap=self.config.max_step_tokens, remaining=self.run.num_left
        )
        current.rows = [GrowingStep(self._boundary, limit) for limit in limits]
        current.row_texts = [""] * len(limits)
        if self._row_drafter is not None:
            return SpeculativeRows(
                self.target,
                self.cache,
                known=self.run.ids,
                drafts=[step.token_ids for step in current.drafts[: len(limits)]],
                rows=current.rows,
                sampler=self._sample_target,
                drafter=self._row_drafter,
            )
        return PackedRows(
            self.target,
            self.cache,
            root=self.run.ids[-1],
            drafts=[step.token_ids for step in current.drafts[: len(limits) - 1]],
            rows=current.rows,
            sampler=self._sample_target,
        )

    def write_rows(
        self, current: StepRound, packed: PackedRows | SpeculativeRows
    ) -> Iterator[Event]:
        """Target rows in the order in which they end."""
        run = self.run
        ended = packed.write()
        own_forwards = self._row_drafter.num_forwards if self._row_drafter else 0
        share_ms = 0.0
        for num_live in range(len(current.rows), 0, -1):
            with run.verify:
                row = next(ended)
            share_ms += run.verify.last_ms / num_live
            step = current.rows[row]
            current.row_texts[row] = self._text(step)
            yield self.drafted(row, "target", step, current.row_texts[row], share_ms)
        if self._row_drafter is not None:
            run.draft_forwards += self._row_drafter.num_forwards - own_forwards
        run.target_forwards += packed.num_forwards
        run.target_tokens += packed.num_tokens

    def resolved(
        self, kept: Author, text: str, other_text: str | None, bonus: bool = False
    ) -> StepResolved:
        return StepResolved(
            t_ms=self.run.clock.now(),
            step=self.num_steps,
            kept=kept,
            text=text,
            other_text=other_text,
            bonus=bonus,
        )

    def commit(self, author: Author, step: GrowingStep) -> TokensCommitted:
        token_ids = step.token_ids[: self.run.cut(step.token_ids)]
        committed = self.run.commit(token_ids, [author] * len(token_ids))
        committed = replace(committed, step=self.num_steps)
        self.num_steps += 1
        return committed

    def drafted(
        self, index: int, author: Author, step: GrowingStep, text: str, ms: float
    ) -> StepDrafted:
        return StepDrafted(
            t_ms=self.run.clock.now(),
            step=self.num_steps + index,
            author=author,
            text=text,
            token_ids=tuple(step.token_ids),
            complete=step.complete,
            ms=ms,
        )

    def _text(self, step: GrowingStep) -> str:
        """The step without its boundary: what a judge reads and a card shows."""
        token_ids = step.token_ids[:-1] if step.ends_output else step.token_ids
        return self.run.target.detokenizer.decode(token_ids).strip()
