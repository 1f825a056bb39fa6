"""The rounds of one ConfSpec run: draft, write, gate, resolve, crop."""

from __future__ import annotations

from collections.abc import Iterator

from confu_demo.decoding.branches import PackedRows
from confu_demo.decoding.gate import Comparison, Gatekeeper
from confu_demo.decoding.judge import Judge
from confu_demo.decoding.row_speculation import RowSpeculation
from confu_demo.decoding.run import Run
from confu_demo.decoding.speculative_rows import SpeculativeRows
from confu_demo.decoding.step_writing import StepRound, StepWriting
from confu_demo.decoding.steps import StepBoundary
from confu_demo.engine.target import LeanModel
from confu_demo.trace import Event


def comparisons(current: StepRound) -> list[Comparison]:
    """Every draft step of a round beside the target's at the same place."""
    return [
        Comparison(
            pair=(current.draft_texts[i], current.row_texts[i]),
            finished=draft.complete and current.rows[i].complete,
        )
        for i, draft in enumerate(current.drafts)
    ]


class StepRounds(StepWriting):
    """ConfSpec's rounds over :class:`StepWriting`."""

    def __init__(
        self,
        run: Run,
        draft: LeanModel,
        boundary: StepBoundary,
        draft_judge: Judge,
        target_judge: Judge,
        speculation: RowSpeculation | None = None,
    ) -> None:
        """``speculation``: token-level drafts inside the target's rows."""
        steps = run.config.confspec.draft_steps
        super().__init__(run, draft, boundary, draft_steps=steps, speculation=speculation)
        self._gatekeeper = Gatekeeper(run, draft_judge, target_judge)

    def round(self) -> Iterator[Event]:
        """One round; commits at least one token. The run must not be over."""
        current = StepRound()
        yield from self.write_drafts(current)
        packed = self.packed_rows(current)
        yield from self.write_rows(current, packed)
        accepted = yield from self._gatekeeper.decide(self.num_steps, comparisons(current))
        yield from self._resolve(current, accepted, packed)

    def _resolve(
        self, current: StepRound, accepted: int, packed: PackedRows | SpeculativeRows
    ) -> Iterator[Event]:
        """Commits the accepted draft steps and the target's step behind them; crops the caches."""
        num_known = len(self.run.ids)
        events: list[Event] = []
        for i in range(accepted):
            texts = current.draft_texts[i], current.row_texts[i]
            events.append(self.resolved("draft", *texts))
            events.append(self.commit("draft", current.drafts[i]))
            num_known += len(current.drafts[i].token_ids)
        row = accepted if accepted < len(current.rows) else None
        if row is not None:
            is_bonus = row == len(current.drafts) > 0
            other = current.draft_texts[row] if row < len(current.drafts) else None
            events.append(self.resolved("target", current.row_texts[row], other, is_bonus))
            events.append(self.commit("target", current.rows[row]))
        packed.keep(row)
        self.drafter.crop(self.run.ids, num_known)
        yield from events
