"""How many steps a round drafts ahead (k), by what a round costs on this machine and what this
run has accepted so far.

The arithmetic is the one that ConfSpec's users do on paper: with acceptance a a round of k draft
steps keeps (1 - a^(k+1)) / (1 - a) steps in the mean, and costs k drafted steps, k + 1 target rows
in one packed sequence, and the judging. Costs are measured once a machine; acceptance, the length
of a step and the share of escalations are counted while the run goes on, from priors that weigh as
much as a round or two. Nothing here reads a clock, so the same costs, prompt and seed give the
same plans. All of it is our choice [O].
"""

from __future__ import annotations

from dataclasses import dataclass

from confu_demo.engine.forward_cost import CostCurve

JUDGE_TOKENS = 48
"""Of a judge's prompt about two steps, behind the beginning that all prompts share."""
HOPED_ACCEPTANCE, HOPED_WEIGHT = 0.9, 2.0
"""Before there is evidence. Hopeful, because an answer has few rounds: a run that begins with one
draft step at a time has hardly learned that more would be kept when it ends. Measured on the
bundled pair: 0.945; a prior of 0.7 with the weight of 4 steps held k at 1 to the end."""
LEAST_ROUNDS = 3
"""Rounds of evidence before a run may fall back to plain decoding."""


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Milliseconds of a forward against its rows, of the target and of the draft model."""

    target: CostCurve
    draft: CostCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """``expected_tokens`` of a round in ``expected_ms``; ``plain_ms`` is what plain decoding
    needs for as many. ``acceptance`` is the run's so far. ``fell_back``: the target writes alone,
    because no k was worth it."""

    draft_steps: int
    acceptance: float
    expected_tokens: float
    expected_ms: float
    plain_ms: float
    fell_back: bool = False


class _Mean:
    """A running share that begins at ``prior`` with so much ``weight``."""

    def __init__(self, prior: float, weight: float) -> None:
        self._total, self._count = prior * weight, weight

    def add(self, total: float, count: float) -> None:
        self._total, self._count = self._total + total, self._count + count

    @property
    def value(self) -> float:
        return self._total / self._count


class StepPlanner:
    """Chooses among ``choices`` of k. With ``may_fall_back`` a round may be without drafts once
    there is evidence, and stays so: without drafts there is nothing to learn from."""

    def __init__(
        self,
        costs: StepCosts,
        choices: range,
        *,
        may_fall_back: bool = False,
        draft_judges: bool = True,
    ) -> None:
        """``draft_judges`` False: every verdict is the target's (gamma above 1)."""
        if not choices or choices[0] < 1:
            raise ValueError("a plan needs at least one number of draft steps of 1 or more")
        self._costs, self._choices = costs, choices
        self._may_fall_back, self._draft_judges = may_fall_back, draft_judges
        self._rounds, self._fell_back = 0, False
        self._accepted = _Mean(
            HOPED_ACCEPTANCE, HOPED_WEIGHT
        )  # of steps whose predecessors were kept
        self._length = _Mean(16.0, 2.0)  # tokens of a step
        self._judged = _Mean(0.6, 4.0)  # of gated steps: the others match or are unfinished
        self._escalated = _Mean(0.2 if draft_judges else 1.0, 4.0)  # of judged ones
        self._forwards = _Mean(1.0, 16.0)  # of the target a token of the longest row
        self._width = _Mean(1.0, 16.0)  # tokens a row and forward: drafts inside the rows

    def plan(self) -> StepPlan:
        """For the next round."""
        best = max(map(self._expected, self._choices), key=_rate)
        worth_it = best.expected_ms < best.plain_ms
        if self._may_fall_back and self._rounds >= LEAST_ROUNDS and not worth_it:
            self._fell_back = True
        if not self._fell_back:
            return best
        length = self._length.value
        plain = self._costs.target.ms(1) * length
        return StepPlan(
            draft_steps=0,
            acceptance=self._accepted.value,
            expected_tokens=length,
            expected_ms=plain,
            plain_ms=plain,
            fell_back=True,
        )

    def _expected(self, k: int) -> StepPlan:
        accepted, length = self._accepted.value, self._length.value
        target, draft = self._costs.target, self._costs.draft
        kept = sum(accepted**i for i in range(k + 1))
        judged = k * self._judged.value
        escalated = judged * self._escalated.value
        rows = (k + 1) * self._width.value
        drafting = k * length * draft.ms(1)
        reading = target.ms(1 + k * length) - target.ms(1)  # the draft steps, in the first forward
        writing = length * self._forwards.value * target.ms(rows)
        judging = min(1.0, judged) * draft.ms(JUDGE_TOKENS * max(1.0, judged))
        asking = min(1.0, escalated) * target.ms(JUDGE_TOKENS * max(1.0, escalated))
        return StepPlan(
            draft_steps=k,
            acceptance=accepted,
            expected_tokens=length * kept,
            expected_ms=drafting + reading + writing + judging * self._draft_judges + asking,
            plain_ms=length * kept * target.ms(1),
        )

    def learn(self, *, gated: int, accepted: int, judged: int, escalated: int) -> None:
        """A round's gates. Those behind the first rejection say nothing about acceptance: they
        were dropped with it, whatever their verdict."""
        self._rounds += 1
        self._accepted.add(accepted, min(gated, accepted + 1))
        self._judged.add(judged, gated)
        self._escalated.add(escalated, judged)

    def learn_lengths(self, lengths: list[int]) -> None:
        """Tokens of the target's rows of a round."""
        self._length.add(sum(lengths), len(lengths))

    def learn_rows(self, longest: int, forwards: int, row_forwards: int, tokens: int) -> None:
        """How the rows were written: ``forwards`` for a longest row of so many tokens, and
        ``tokens`` computed over ``row_forwards``, rows times forwards."""
        self._forwards.add(forwards, longest)
        self._width.add(tokens, row_forwards)


def _rate(plan: StepPlan) -> float:
    return plan.expected_tokens / max(1e-9, plan.expected_ms)
