"""The promises of reasoning steps: drafted, gated, judged, resolved, committed.

A *round* drafts steps of both authors, then gates them in order, then resolves those that are
kept. Its end is seen when the next round drafts or the run finishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from confu_demo.findings import Findings
from confu_demo.trace import (
    MAX_SCORE,
    Author,
    Decision,
    RoundPlanned,
    RunFinished,
    StepDrafted,
    StepGated,
    StepJudged,
    StepResolved,
    TokensCommitted,
    Verdict,
)

_VERDICTS: Mapping[Decision, Verdict] = {"accept": "same", "reject": "different"}


@dataclass(slots=True)
class _Round:
    drafted: dict[tuple[Author, int], StepDrafted] = field(default_factory=dict)
    gates: dict[int, StepGated] = field(default_factory=dict)
    verdicts: dict[int, Verdict] = field(default_factory=dict)  # the target's, not in audit
    kept: list[StepDrafted] = field(default_factory=list)  # resolved, to be committed
    rejected: bool = False  # by a confident gate
    closed: bool = False  # the target's own step was kept: nothing follows it
    deciding: bool = False  # gating or resolving has begun


class StepCheck:
    """Follows one run's rounds of steps."""

    def __init__(self, findings: Findings, config: Mapping[str, str]) -> None:
        self._expect = findings.expect
        self._min_mass = _number(config.get("confspec.min_verdict_mass"))
        self._round = _Round()
        self._gated: set[int] = set()  # in any round
        self._last_resolved: int | None = None
        self._planned: RoundPlanned | None = None
        self._cut = False

    def plan(self, event: RoundPlanned) -> None:
        values = (event.expected_tokens, event.expected_ms, event.plain_ms)
        self._expect(
            event.draft_steps >= 0 and 0.0 <= event.acceptance <= 1.0 and min(values) >= 0.0,
            f"the plan of step {event.step} has impossible numbers",
        )
        self._expect(
            event.fell_back == (event.draft_steps == 0),
            f"the plan of step {event.step} falls back with {event.draft_steps} draft steps",
        )
        self._planned = event

    def draft(self, event: StepDrafted) -> None:
        plan = self._planned
        if plan is not None and event.author == "draft":
            self._expect(
                plan.step <= event.step < plan.step + plan.draft_steps,
                f"step {event.step} is drafted against the plan of {plan.draft_steps} steps "
                f"from step {plan.step} on",
            )
        if self._round.deciding:
            self._end_round()
            self._expect(not self._round.kept, "a resolved step before it was never committed")
            self._expect(not self._cut, "a step was committed only in part, and the run went on")
            self._round = _Round()
        last = self._last_resolved
        self._expect(
            event.step >= 0 and (last is None or event.step > last),
            f"step {event.step} is drafted after step {last} was resolved",
        )
        key = (event.author, event.step)
        self._expect(key not in self._round.drafted, f"step {event.step} is drafted twice at once")
        self._round.drafted[key] = event

    def gate(self, event: StepGated) -> None:
        current, step = self._round, event.step
        current.deciding = True
        ours, theirs = current.drafted.get(("draft", step)), current.drafted.get(("target", step))
        scored = event.score is not None
        self._expect(
            ours is not None and (scored or theirs is not None),
            f"step {step} is gated without a step of {'its author' if scored else 'both authors'}",
        )
        self._expect(step not in current.gates, f"step {step} is gated twice")
        if event.decision == "escalate":
            self._expect(not current.rejected, f"step {step} is escalated after a confident reject")
        incomplete = ours is not None and not ours.complete
        self._check_decision(event, incomplete=incomplete)
        cut_target = theirs is not None and not theirs.complete
        self._check_mass(event, unjudged=event.exact_match or incomplete or cut_target)
        current.rejected |= event.decision == "reject"
        current.gates[step] = event
        self._gated.add(step)

    def judge(self, event: StepJudged) -> None:
        step = event.step
        self._expect(0.0 <= event.confidence <= 1.0, f"confidence is {event.confidence}")
        if event.audit:
            self._expect(step in self._gated, f"step {step} is audited without having been gated")
            return
        gate = self._round.gates.get(step)
        self._expect(
            gate is not None and gate.decision == "escalate",
            f"step {step} is judged though it was not escalated",
        )
        self._expect(step not in self._round.verdicts, f"step {step} is judged twice")
        self._round.verdicts[step] = event.verdict

    def resolve(self, event: StepResolved) -> None:
        current, step, last = self._round, event.step, self._last_resolved
        current.deciding = True
        self._expect(last is None or step == last + 1, f"step {step} is resolved after step {last}")
        self._expect(not current.closed, f"step {step} is resolved after the target's own step")
        self._check_kept(event)
        if event.bonus:
            self._expect(event.kept == "target", f"bonus step {step} is not the target's")
            self._expect(not current.rejected, f"bonus step {step} comes after a rejection")
        kept = current.drafted.get((event.kept, step))
        self._expect(kept is not None, f"step {step} keeps a text that nobody drafted")
        if kept is not None:
            self._expect(
                kept.text.startswith(event.text), f"step {step} is not the text that was drafted"
            )
            current.kept.append(kept)
        current.closed |= event.kept == "target"
        self._last_resolved = step if last is None else max(last, step)

    def commit(self, event: TokensCommitted) -> None:
        kept = self._round.kept
        if not kept or kept[0].step != event.step:
            self._expect(False, f"step {event.step} is committed without being resolved before")
            return
        step = kept.pop(0)
        count = len(event.token_ids)
        self._expect(
            event.token_ids == step.token_ids[:count],
            f"the tokens are not those of step {step.step} by the {step.author}",
        )
        by_draft = step.author == "draft"
        self._expect(
            event.cycle is not None
            or all((origin == "draft") == by_draft for origin in event.origins),
            f"step {step.step} was written by the {step.author}, its origins say otherwise",
        )
        self._expect(not self._cut, "a step was committed only in part, and the run went on")
        self._cut = count < len(step.token_ids)

    def finish(self, event: RunFinished) -> None:
        if event.reason in ("eos", "length"):
            self._end_round()
        else:
            self._expect(not self._cut, "a step was committed only in part, without EOS or limit")

    def _end_round(self) -> None:
        for step, gate in self._round.gates.items():
            self._expect(
                gate.decision != "escalate" or step in self._round.verdicts,
                f"step {step} was escalated but never judged",
            )

    def _check_decision(self, event: StepGated, *, incomplete: bool) -> None:
        step, decision = event.step, event.decision
        self._expect(0.0 <= event.confidence <= 1.0, f"confidence is {event.confidence}")
        if incomplete:
            self._expect(decision == "reject", f"step {step} is unfinished but not rejected")
        elif event.exact_match:
            self._expect(decision == "accept", f"step {step} matches exactly but is not accepted")
        elif event.score is not None:
            self._check_score(event, event.score)
        else:
            wanted = _VERDICTS.get(decision, event.verdict)
            self._expect(event.verdict == wanted, f"step {step}: {event.verdict}, yet {decision}")
            self._check_threshold(event)

    def _check_score(self, event: StepGated, score: int) -> None:
        """The target's score of 0 to 9 decides; there is nobody to escalate to."""
        self._expect(0 <= score <= MAX_SCORE, f"score is {score}")
        self._expect(
            abs(event.confidence - score / MAX_SCORE) < 1e-9,
            f"step {event.step}: confidence {event.confidence} is not score {score} of {MAX_SCORE}",
        )
        wanted: Decision = "accept" if event.confidence >= event.threshold - 1e-9 else "reject"
        self._expect(
            event.decision == wanted and event.verdict == _VERDICTS[wanted],
            f"step {event.step}: score {score} against {event.threshold:.3f}, "
            f"yet {event.verdict} and {event.decision}",
        )

    def _check_threshold(self, event: StepGated) -> None:
        if event.verdict_mass is None:
            return
        sure = event.confidence >= event.threshold
        if event.decision != "escalate":
            self._expect(sure, f"step {event.step} passes below its threshold")
        elif self._min_mass is not None:
            self._expect(
                not sure or event.verdict_mass < self._min_mass,
                f"step {event.step} is escalated though its verdict is confident",
            )

    def _check_mass(self, event: StepGated, *, unjudged: bool) -> None:
        """The verdict's mass is there exactly if the draft model was asked; above a threshold of
        1 it need not be, as its answer cannot count."""
        mass, step = event.verdict_mass, event.step
        if mass is not None:
            self._expect(0.0 <= mass <= 1.001, f"verdict mass is {mass}")
            self._expect(not event.exact_match, f"step {step} matches exactly but was judged")
        else:
            skipped = (
                unjudged
                or event.score is not None
                or (event.decision == "escalate" and event.threshold > 1.0)
            )
            self._expect(skipped, f"step {step} has no verdict mass")

    def _check_kept(self, event: StepResolved) -> None:
        gate, step = self._round.gates.get(event.step), event.step
        if gate is None:
            self._expect(event.kept == "target", f"step {step} keeps the draft without a gate")
            return
        accepted = gate.decision == "accept"
        if gate.decision == "escalate":
            verdict = self._round.verdicts.get(step)
            self._expect(verdict is not None, f"step {step} is resolved before it is judged")
            if verdict is None:
                return
            accepted = verdict == "same"
        self._expect(
            (event.kept == "draft") == accepted,
            f"step {step} keeps the {event.kept}'s text against its verdict",
        )


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
