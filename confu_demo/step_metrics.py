"""The numbers of step-level runs (ConfSpec): what the gate decided and whether it was right.

A *round* drafts some steps, gates them in order and resolves those that are kept. A gate is
*judged* if the draft model gave a verdict about it; exact matches and unfinished steps are gated
without one (their ``verdict_mass`` is None). Pure: events in, numbers out; also of a run that is
still going on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from confu_demo.trace import (
    Event,
    RunFinished,
    StepDrafted,
    StepGated,
    StepJudged,
    StepResolved,
    TokensCommitted,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What happened to the steps of one run. Rates are None where nothing can be divided by.

    * ``step_acceptance``: draft steps that were kept / draft steps that were gated and whose
      round is over. A step that was gated but dropped, because an earlier one was rejected by
      the judge, counts as not kept.
    * ``escalation_rate``: escalated gates / judged gates. Exact matches and unfinished steps are
      in neither, as no model had to decide about them.
    * ``exact_match_rate``: exact matches / all gates.
    * ``steps_by_*`` count kept steps, ``tokens_by_*`` committed tokens of steps.
    * ``lost_ms``: what went into steps that came to nothing: draft steps that were not kept, and
      target steps that were neither kept nor compared with a draft step that was.
    * ``bonus_steps``: steps that the target added after a fully accepted round; they are among
      ``steps_by_target`` and were never gated.
    """

    num_drafted: int = 0
    num_gated: int = 0
    num_judged: int = 0
    num_escalated: int = 0
    num_exact_matches: int = 0
    num_accepted: int = 0
    steps_by_draft: int = 0
    steps_by_target: int = 0
    bonus_steps: int = 0
    tokens_by_draft: int = 0
    tokens_by_target: int = 0
    lost_ms: float = 0.0
    step_acceptance: float | None = None
    escalation_rate: float | None = None
    exact_match_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictPair:
    """One gate with the draft's verdict and, where the target was asked too, the target's."""

    step: int
    verdict: Verdict
    confidence: float
    verdict_mass: float
    threshold: float
    escalated: bool
    target_verdict: Verdict | None
    audit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How often confident draft verdicts equal the target's; rate is None if none was checked."""

    agreed: int
    checked: int

    @property
    def rate(self) -> float | None:
        return self.agreed / self.checked if self.checked else None


class StepTally:
    """Counts steps event by event; ``result`` may be asked for at any time."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._open: set[int] = set()  # gated in this round and not resolved yet
        self._written: dict[tuple[str, int], float] = {}  # ms of steps that may come to nothing
        self._lost_ms = 0.0
        self._resolving = False
        self._seen = False

    def add(self, event: Event) -> None:
        if isinstance(event, StepDrafted):
            self._add_drafted(event)
        elif isinstance(event, StepGated):
            self._add_gate(event)
        elif isinstance(event, StepResolved):
            self._add_resolved(event)
        elif isinstance(event, TokensCommitted) and event.step is not None:
            by_draft = event.origins.count("draft")
            self._counts["tokens_by_draft"] += by_draft
            self._counts["tokens_by_target"] += len(event.origins) - by_draft
        elif isinstance(event, RunFinished) and event.reason in ("eos", "length"):
            self._end_round()

    def result(self) -> StepMetrics | None:
        """None for a run without steps."""
        if not self._seen:
            return None
        shown = {item.name for item in fields(StepMetrics)}
        counts = Counter({name: n for name, n in self._counts.items() if name in shown})
        return StepMetrics(
            **counts,
            lost_ms=self._lost_ms,
            step_acceptance=ratio(counts["num_accepted"], self._counts["num_closed"]),
            escalation_rate=ratio(counts["num_escalated"], counts["num_judged"]),
            exact_match_rate=ratio(counts["num_exact_matches"], counts["num_gated"]),
        )

    def _add_drafted(self, event: StepDrafted) -> None:
        self._seen = True
        if self._resolving:
            self._end_round()
        self._counts["num_drafted"] += event.author == "draft"
        self._written[event.author, event.step] = event.ms

    def _add_gate(self, event: StepGated) -> None:
        self._open.add(event.step)
        self._counts["num_gated"] += 1
        self._counts["num_exact_matches"] += event.exact_match
        self._counts["num_escalated"] += event.decision == "escalate"
        self._counts["num_judged"] += event.verdict_mass is not None or event.decision == "escalate"

    def _add_resolved(self, event: StepResolved) -> None:
        self._resolving = True
        self._counts[f"steps_by_{event.kept}"] += 1
        self._written.pop(("target", event.step), None)
        if event.kept == "draft":
            self._written.pop(("draft", event.step), None)
        self._counts["bonus_steps"] += event.bonus
        if event.step in self._open:
            self._open.remove(event.step)
            self._counts["num_closed"] += 1
            self._counts["num_accepted"] += event.kept == "draft"

    def _end_round(self) -> None:
        self._counts["num_closed"] += len(self._open)
        self._open.clear()
        self._lost_ms += sum(self._written.values())
        self._written.clear()
        self._resolving = False


def verdict_pairs(events: Iterable[Event]) -> tuple[VerdictPair, ...]:
    """Every gate that the draft model judged, in order, with the target's verdict if there is
    one: after an escalation, or in audit mode."""
    pairs: list[VerdictPair] = []
    latest: dict[int, int] = {}  # step -> index in pairs; a later round may gate a step again
    for event in events:
        if isinstance(event, StepGated):
            latest.pop(event.step, None)
            if event.verdict_mass is not None:
                latest[event.step] = len(pairs)
                pairs.append(_pair(event, event.verdict_mass))
        elif isinstance(event, StepJudged) and event.step in latest:
            index = latest[event.step]
            pairs[index] = replace(pairs[index], target_verdict=event.verdict, audit=event.audit)
    return tuple(pairs)


def coverage(
    pairs: Iterable[VerdictPair], threshold: float, min_verdict_mass: float = 0.0
) -> float | None:
    """The share of verdicts that a gate with this threshold would let stand without the target.

    The threshold need not be the run's own (what-if). None without verdicts.
    """
    confident = [_confident(pair, threshold, min_verdict_mass) for pair in pairs]
    return ratio(sum(confident), len(confident))


def confident_agreement(
    pairs: Iterable[VerdictPair], threshold: float, min_verdict_mass: float = 0.0
) -> Agreement:
    """How often the verdicts that would stand at this threshold equal the target's, over those
    about which the target was asked. Needs audit mode to speak of the run's own threshold."""
    checked = [
        pair.verdict == pair.target_verdict
        for pair in pairs
        if pair.target_verdict is not None and _confident(pair, threshold, min_verdict_mass)
    ]
    return Agreement(agreed=sum(checked), checked=len(checked))


def ratio(part: float, whole: float) -> float | None:
    """``part / whole``, None where the whole is nothing."""
    return part / whole if whole > 0 else None


def _confident(pair: VerdictPair, threshold: float, min_verdict_mass: float) -> bool:
    return pair.confidence >= threshold and pair.verdict_mass >= min_verdict_mass


def _pair(gate: StepGated, verdict_mass: float) -> VerdictPair:
    return VerdictPair(
        step=gate.step,
        verdict=gate.verdict,
        confidence=gate.confidence,
        verdict_mass=verdict_mass,
        threshold=gate.threshold,
        escalated=gate.decision == "escalate",
        target_verdict=None,
        audit=False,
    )
