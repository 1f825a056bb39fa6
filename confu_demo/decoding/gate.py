"""ConfSpec's confidence gate: which verdicts of the draft judge stand, and which go up.

A verdict with confidence >= threshold (gamma) stands [paper]. Our choices: a low verdict mass
counts as uncertain; at gamma <= 0.5 the draft judge decides alone, above 1 the target decides
all; literally equal steps are accepted and unfinished ones rejected without any judge.

Judges share one forward for all pairs of a round, and its milliseconds evenly. Verdicts that
decide nothing (audit mode, and the draft judge above threshold 1) are asked for while the run's
clock stands still and are not counted as forwards.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from confu_demo.config import ConfspecConfig
from confu_demo.decoding.judge import Judge, Opinion, StepPair
from confu_demo.decoding.run import Run
from confu_demo.trace import Decision, Event, StepGated, StepJudged, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A draft step beside the target's at the same place; ``finished`` if both are complete."""

    pair: StepPair
    finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What was decided about one draft step. ``mass`` is None when no judge was asked."""

    verdict: Verdict
    confidence: float
    mass: float | None
    decision: Decision
    exact_match: bool = False


EXACT_MATCH = Gate(verdict="same", confidence=1.0, mass=None, decision="accept", exact_match=True)
UNFINISHED = Gate(verdict="different", confidence=1.0, mass=None, decision="reject")


def normalised(text: str) -> str:
    """The text without differences of white space and case: equal means an exact match."""
    return " ".join(text.split()).casefold()


def unjudged_gates(comparisons: Sequence[Comparison]) -> list[Gate | None]:
    """The gates that need no judge, None where one has to say. Ends with the first unfinished
    step: nothing behind it can be kept."""
    gates: list[Gate | None] = []
    for comparison in comparisons:
        draft, target = comparison.pair
        if not comparison.finished:
            return [*gates, UNFINISHED]
        gates.append(EXACT_MATCH if normalised(draft) == normalised(target) else None)
    return gates


def judged_gate(opinion: Opinion, config: ConfspecConfig) -> Gate:
    """The gate for the draft judge's opinion."""
    draft_judge_only = config.threshold <= 0.5
    confident = opinion.confidence >= config.threshold and opinion.mass >= config.min_verdict_mass
    decision: Decision = "escalate"
    if draft_judge_only or confident:
        decision = "accept" if opinion.verdict == "same" else "reject"
    return Gate(
        verdict=opinion.verdict,
        confidence=opinion.confidence,
        mass=opinion.mass,
        decision=decision,
    )


def until_reject(gates: Sequence[Gate]) -> list[Gate]:
    """The gates that are looked at: the first confident reject is the last of them."""
    for i, gate in enumerate(gates):
        if gate.decision == "reject":
            return list(gates[: i + 1])
    return list(gates)


def num_accepted(gates: Sequence[Gate], target_verdicts: Mapping[int, Verdict]) -> int:
    """How many leading steps are kept. ``target_verdicts[i]`` answers gate i's escalation."""
    for i, gate in enumerate(gates):
        verdict = target_verdicts[i] if gate.decision == "escalate" else gate.verdict
        if verdict == "different":
            return i
    return len(gates)


class Gatekeeper:
    """Decides how many draft steps of a round are kept, and reports every verdict."""

    def __init__(self, run: Run, draft_judge: Judge, target_judge: Judge) -> None:
        self._run, self._config = run, run.config.confspec
        self._draft_judge, self._target_judge = draft_judge, target_judge

    def decide(
        self, first_step: int, comparisons: Sequence[Comparison]
    ) -> Generator[Event, None, int]:
        """Gates the steps in order, asks the target about uncertain ones; returns how many
        leading steps are kept. ``first_step`` is the index of the first comparison's step."""
        gates = yield from self._gate(first_step, comparisons)
        pairs = [comparison.pair for comparison in comparisons]
        verdicts = yield from self._escalate(first_step, pairs, gates)
        if self._config.audit:
            yield from self._audit(first_step, pairs, gates)
        return num_accepted(gates, verdicts)

    def _gate(
        self, first_step: int, comparisons: Sequence[Comparison]
    ) -> Generator[Event, None, list[Gate]]:
        known = unjudged_gates(comparisons)
        asked = [
            comparison.pair
            for comparison, gate in zip(comparisons, known, strict=False)
            if gate is None
        ]
        opinions, total_ms = self._ask_draft(asked)
        answers = iter(opinions)
        gates = until_reject([gate or judged_gate(next(answers), self._config) for gate in known])
        num_judged = sum(gate.mass is not None for gate in gates)
        for step, gate in enumerate(gates, first_step):
            yield StepGated(
                t_ms=self._run.clock.now(),
                step=step,
                verdict=gate.verdict,
                confidence=gate.confidence,
                verdict_mass=gate.mass,
                threshold=self._config.threshold,
                decision=gate.decision,
                exact_match=gate.exact_match,
                ms=0.0 if gate.mass is None else total_ms / num_judged,
            )
        return gates

    def _ask_draft(self, pairs: Sequence[StepPair]) -> tuple[tuple[Opinion, ...], float]:
        """The draft judge's opinions, and their milliseconds on the run's clock."""
        run = self._run
        if not pairs:
            return (), 0.0
        if self._config.threshold > 1.0:  # the target decides all; these are for the record
            run.clock.pause()
            opinions = self._draft_judge.compare(pairs).opinions
            run.clock.resume()
            return opinions, 0.0
        with run.draft:
            judgement = self._draft_judge.compare(pairs)
        run.draft_forwards += judgement.num_tokens > 0
        return judgement.opinions, run.draft.last_ms

    def _escalate(
        self, first_step: int, pairs: Sequence[StepPair], gates: Sequence[Gate]
    ) -> Generator[Event, None, dict[int, Verdict]]:
        """The target's verdicts about all uncertain steps, from one forward."""
        run = self._run
        asked = [i for i, gate in enumerate(gates) if gate.decision == "escalate"]
        if not asked:
            return {}
        with run.verify:
            judgement = self._target_judge.compare([pairs[i] for i in asked])
        if judgement.num_tokens:
            run.count_verify(judgement.num_tokens)
        ms = run.verify.last_ms / len(asked)
        for i, opinion in zip(asked, judgement.opinions, strict=True):
            yield self._judged(first_step + i, opinion, audit=False, ms=ms)
        return {i: op.verdict for i, op in zip(asked, judgement.opinions, strict=True)}

    def _audit(
        self, first_step: int, pairs: Sequence[StepPair], gates: Sequence[Gate]
    ) -> Iterator[Event]:
        """The target's verdicts about confident steps, off the run's clock (``ms`` is real)."""
        asked = [
            i
            for i, gate in enumerate(gates)
            if gate.mass is not None and gate.decision != "escalate"
        ]
        if not asked:
            return
        self._run.clock.pause()
        since = time.perf_counter()
        opinions = self._target_judge.compare([pairs[i] for i in asked]).opinions
        ms = (time.perf_counter() - since) * 1e3 / len(asked)
        self._run.clock.resume()
        for i, opinion in zip(asked, opinions, strict=True):
            yield self._judged(first_step + i, opinion, audit=True, ms=ms)

    def _judged(self, step: int, opinion: Opinion, *, audit: bool, ms: float) -> StepJudged:
        return StepJudged(
            t_ms=self._run.clock.now(),
            step=step,
            verdict=opinion.verdict,
            confidence=opinion.confidence,
            audit=audit,
            ms=ms,
        )
