"""What a race tells: the JSON object of the ``race`` command and its table, from events alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confu_demo.data.steps import parse_answer
from confu_demo.metrics import RunMetrics, identical_text, speedup
from confu_demo.trace import Provenance

BASELINE = "autoregressive"


def lane_report(
    lane: RunMetrics, baseline: RunMetrics | None, answer: int | None
) -> dict[str, Any]:
    """The numbers of one lane; None where a number has no meaning.

    ``ms`` is the decode time (the prefill excluded), the sum of the three parts, and
    ``tokens_per_s`` is ``num_tokens`` in that time. ``baseline`` is the plain lane of the same
    race, ``answer`` what a right text ends with.
    """
    is_plain = lane.method == BASELINE
    compared = None if is_plain or baseline is None else baseline
    return {
        "text": lane.text,
        "num_tokens": lane.num_tokens,
        "ms": lane.decode_ms,
        "tokens_per_s": lane.tokens_per_s,
        "speedup": None if baseline is None else speedup(lane, baseline),
        "acceptance_length": lane.acceptance_length,
        "target_forwards": lane.target_forwards,
        "target_tokens": lane.target_tokens,
        "draft_ms": None if is_plain else lane.draft_ms,
        "verify_ms": lane.verify_ms,
        "other_ms": lane.other_ms,
        "identical_to_target": None if compared is None else identical_text(lane, compared),
        "answer_correct": None if answer is None else parse_answer(lane.text) == answer,
        "finish_reason": lane.finish_reason,
    }


def race_report(
    suite: str, provenance: Provenance, lanes: Mapping[str, RunMetrics], answer: int | None
) -> dict[str, Any]:
    """The JSON object of a race, lanes in their order."""
    baseline = lanes.get(BASELINE)
    return {
        "suite": suite,
        "device": provenance.device,
        "dtype": provenance.dtype,
        "threads": provenance.threads,
        "versions": dict(provenance.versions),
        "lanes": {name: lane_report(lane, baseline, answer) for name, lane in lanes.items()},
    }


TABLE_HEADER = (
    "lane", "tokens", "ms", "tokens/s", "speedup", "accepted", "target fwd", "target tok",
    "draft ms", "verify ms", "other ms", "same text", "answer", "ended by",
)  # fmt: skip


def table_rows(report: Mapping[str, Any]) -> list[Sequence[str]]:
    """The lanes of a race report as rows under :data:`TABLE_HEADER`."""
    return [_row(name, lane) for name, lane in report["lanes"].items()]


def _row(name: str, lane: Mapping[str, Any]) -> Sequence[str]:
    return (
        name,
        str(lane["num_tokens"]),
        number(lane["ms"], 1),
        number(lane["tokens_per_s"], 0),
        number(lane["speedup"], 2, "x"),
        number(lane["acceptance_length"], 2),
        number(lane["target_forwards"], 0),
        number(lane["target_tokens"], 0),
        number(lane["draft_ms"], 1),
        number(lane["verify_ms"], 1),
        number(lane["other_ms"], 1),
        word(lane["identical_to_target"], "yes", "no"),
        _answer_word(lane),
        lane["finish_reason"] or "-",
    )


def _answer_word(lane: Mapping[str, Any]) -> str:
    """A run that the length limit cut before its answer is not a wrong answer."""
    if lane["answer_correct"] is False and lane["finish_reason"] == "length":
        return "cut at the limit"
    return word(lane["answer_correct"], "right", "wrong")


def number(value: float | None, digits: int, unit: str = "") -> str:
    """A number for a table; ``-`` where there is none."""
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def word(value: bool | None, yes: str, no: str) -> str:
    if value is None:
        return "-"
    return yes if value else no
