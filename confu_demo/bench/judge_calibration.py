"""Both judges about the steps that ConfSpec really meets, against the machine-readable meaning.

The pairs come from runs in which the target judges everything (Lookahead Reasoning), so that they
depend on no threshold; the draft judge's opinion is recorded beside it, off the clock. Both judges
answer at temperature 1 here, whatever the suite has fitted. Steps that match word for word need no
judge and are only counted. Temperatures are fitted on one split and reported on another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from confu_demo.calibration_statistics import (
    Verdicts,
    accuracy,
    at_temperature,
    expected_calibration_error,
    fit_temperature,
    gate_figures,
    reliability,
)
from confu_demo.config import DecodeConfig
from confu_demo.data.meaning import same_meaning
from confu_demo.data.prompts import find_prompt
from confu_demo.decoding.confspec import LookaheadDecoder
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.race import Lane, race
from confu_demo.trace import Event, RunFinished, StepDrafted, StepGated, StepJudged

GAMMAS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPairs:
    """``verdicts`` where a judge was needed, and how many pairs matched word for word."""

    verdicts: tuple[Verdicts, ...]
    exact_matches: int


def collect_pairs(
    suite: LoadedSuite,
    split: str,
    indices: Iterable[int],
    config: DecodeConfig,
    progress: Callable[[int], None] = lambda index: None,
) -> JudgedPairs:
    """Every pair of steps of these problems that both judges saw.

    Raises ``ValueError`` where a run fails."""
    decoder = LookaheadDecoder(suite.target, suite.draft)
    verdicts: list[Verdicts] = []
    exact = 0
    for index in indices:
        request = suite.request(find_prompt(suite.suite.name, split, index).text)
        fitting = suite.fit(config, request, ["lookahead"], may_shorten=True)
        lane = Lane(name="lookahead", decoder=decoder, request=request)
        events = [event for _, event in race([lane], fitting, new_clock=suite.new_clock)]
        last = events[-1]
        if isinstance(last, RunFinished) and last.reason == "error":
            raise ValueError(f"{split}:{index} failed: {last.message}")
        found, matches = pairs_of(events)
        verdicts += found
        exact += matches
        progress(index)
    return JudgedPairs(verdicts=tuple(verdicts), exact_matches=exact)


def pairs_of(events: Sequence[Event]) -> tuple[list[Verdicts], int]:
    """The pairs of one run that both judges saw, and its exact matches."""
    texts: dict[tuple[str, int], str] = {}
    open_gates: dict[int, Verdicts] = {}
    verdicts: list[Verdicts] = []
    exact = 0
    for event in events:
        if isinstance(event, StepDrafted):
            texts[event.author, event.step] = event.text
        elif isinstance(event, StepGated):
            exact += event.exact_match
            if event.verdict_mass is not None:
                open_gates[event.step] = Verdicts(
                    is_same=same_meaning(texts["draft", event.step], texts["target", event.step]),
                    draft_p_same=_p_same(event),
                    target_p_same=0.5,
                    mass=event.verdict_mass,
                )
        elif isinstance(event, StepJudged) and event.step in open_gates:
            known = open_gates.pop(event.step)
            verdicts.append(replace(known, target_p_same=_p_same(event)))
    return verdicts, exact


def _p_same(event: StepGated | StepJudged) -> float:
    return event.confidence if event.verdict == "same" else 1.0 - event.confidence


def fitted(pairs: Sequence[Verdicts]) -> dict[str, float]:
    """One temperature a judge."""
    return {name: fit_temperature(_known(pairs, name)) for name in ("draft", "target")}


def calibration_report(
    pairs: JudgedPairs, temperatures: dict[str, float], min_mass: float
) -> dict[str, Any]:
    """The figures of pairs that the temperatures were not fitted on."""
    verdicts = pairs.verdicts
    scaled = [
        replace(
            pair,
            draft_p_same=at_temperature(pair.draft_p_same, temperatures["draft"]),
            target_p_same=at_temperature(pair.target_p_same, temperatures["target"]),
        )
        for pair in verdicts
    ]
    judges = {}
    for name in ("draft", "target"):
        before, after = reliability(_known(verdicts, name)), reliability(_known(scaled, name))
        judges[name] = {
            "temperature": temperatures[name],
            "accuracy": accuracy(_known(verdicts, name)),
            "ece": expected_calibration_error(after),
            "ece_at_temperature_1": expected_calibration_error(before),
            "reliability": [asdict(each) for each in after],
        }
    gates = [gate_figures(scaled, gamma, min_mass) for gamma in GAMMAS]
    return {
        "pairs": len(verdicts),
        "same": sum(pair.is_same for pair in verdicts),
        "exact_matches": pairs.exact_matches,
        "judges": judges,
        "gates": [
            asdict(gate)
            | {
                "coverage": gate.coverage,
                "confident_accuracy": gate.confident_accuracy,
                "interval": gate.interval,
            }
            for gate in gates
        ],
    }


def _known(pairs: Sequence[Verdicts], judge: str) -> list[tuple[float, bool]]:
    return [(getattr(pair, f"{judge}_p_same"), pair.is_same) for pair in pairs]
