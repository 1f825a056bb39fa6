"""The rounds of one ConfSpec run: draft, write, gate, resolve, crop."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

from confu_demo.config import AUTO_STEPS, MAX_AUTO_STEPS
from confu_demo.decoding.branches import PackedRows
from confu_demo.decoding.gate import Comparison, Gatekeeper
from confu_demo.decoding.judge import Judge
from confu_demo.decoding.row_speculation import RowSpeculation
from confu_demo.decoding.run import Run
from confu_demo.decoding.speculative_rows import SpeculativeRows
from confu_demo.decoding.step_plan import StepCosts, StepPlan, StepPlanner
from confu_demo.decoding.step_writing import StepRound, StepWriting
from confu_demo.decoding.steps import StepBoundary
from confu_demo.engine.target import LeanModel
from confu_demo.trace import Event, RoundPlanned, StepGated


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
        costs: Callable[[], StepCosts] | None = None,
    ) -> None:
        """``speculation``: token-level drafts inside the target's rows; ``costs`` of this machine,
        asked for where the run leaves the number of draft steps to it."""
        config = run.config.confspec
        most = MAX_AUTO_STEPS if config.draft_steps == AUTO_STEPS else config.draft_steps
        super().__init__(run, draft, boundary, draft_steps=most, speculation=speculation)
        self._gatekeeper = Gatekeeper(run, draft_judge, target_judge)
        self._planner: StepPlanner | None = None
        if most and (config.draft_steps == AUTO_STEPS or config.fallback):
            if costs is None:
                raise ValueError("the machine cannot choose draft steps without its costs")
            self._planner = StepPlanner(
                costs(),
                range(1, most + 1) if config.draft_steps == AUTO_STEPS else range(most, most + 1),
                may_fall_back=config.fallback,
                draft_judges=config.threshold <= 1.0,
            )

    def round(self) -> Iterator[Event]:
        """One round; commits at least one token. The run must not be over."""
        current = StepRound()
        if self._planner is not None:
            yield self._planned(self._planner.plan())
        yield from self.write_drafts(current)
        packed = self.packed_rows(current)
        yield from self.write_rows(current, packed)
        gates: list[StepGated] = []
        accepted = yield from _noting(
            gates, self._gatekeeper.decide(self.num_steps, comparisons(current))
        )
        if self._planner is not None:
            _learn(self._planner, current, packed, gates, accepted)
        yield from self._resolve(current, accepted, packed)

    def _planned(self, plan: StepPlan) -> RoundPlanned:
        self.draft_steps = plan.draft_steps
        return RoundPlanned(
            t_ms=self.run.clock.now(), step=self.num_steps,
            draft_steps=plan.draft_steps, acceptance=plan.acceptance,
            expected_tokens=plan.expected_tokens, expected_ms=plan.expected_ms,
            plain_ms=plan.plain_ms, fell_back=plan.fell_back,
        )  # fmt: skip

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


def _noting(
    gates: list[StepGated], events: Generator[Event, None, int]
) -> Generator[Event, None, int]:
    """The same events and result; gates are kept on the way."""
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            return int(end.value)
        if isinstance(event, StepGated):
            gates.append(event)
        yield event


def _learn(
    planner: StepPlanner,
    current: StepRound,
    packed: PackedRows | SpeculativeRows,
    gates: Sequence[StepGated],
    accepted: int,
) -> None:
    lengths = [len(step.token_ids) for step in current.rows]
    planner.learn_lengths(lengths)
    written = packed.num_tokens - sum(len(step.token_ids) for step in current.drafts)
    row_forwards = packed.num_forwards * len(lengths)
    planner.learn_rows(max(lengths), packed.num_forwards, row_forwards, max(1, written))
    if not current.drafts:
        return
    escalated = sum(gate.decision == "escalate" for gate in gates)
    judged = sum(gate.verdict_mass is not None or gate.decision == "escalate" for gate in gates)
    planner.learn(gated=len(gates), accepted=accepted, judged=judged, escalated=escalated)
