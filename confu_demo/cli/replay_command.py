"""``python -m confu_demo replay FILE``: a recording in the terminal, event by event."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from confu_demo.cli.errors import UserError, user_errors
from confu_demo.cli.tables import format_table
from confu_demo.data.splits import parse_problem_name
from confu_demo.metrics import summary
from confu_demo.race_report import TABLE_HEADER, race_report, table_rows
from confu_demo.recording import Recording, paced
from confu_demo.trace import (
    MAX_SCORE,
    DraftProposed,
    DraftVerified,
    Event,
    PrefillFinished,
    Provenance,
    RoundPlanned,
    RunFinished,
    RunStarted,
    StepDrafted,
    StepGated,
    StepJudged,
    StepResolved,
    TokensCommitted,
)
from confu_demo.trace_io import read_recording
from confu_demo.trace_validation import validate

_UNKNOWN = Provenance(
    commit="unknown",
    device="unknown device",
    dtype="unknown dtype",
    threads=0,
    versions=(),
    command="",
    created="",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="*.jsonl.gz or *.jsonl")
    parser.add_argument(
        "--speed",
        type=float,
        default=math.inf,
        metavar="X",
        help="1 waits as long as it took, 0.1 ten times as long (default: no waits)",
    )
    parser.add_argument("--table-only", action="store_true", help="the numbers without the events")


def run(args: argparse.Namespace) -> int:
    with user_errors():
        if not args.speed > 0:
            raise ValueError(f"speed must be above 0, not {args.speed}")
        recording = read_recording(args.file)
        _check(args.file, recording)
    print(_title(recording))
    if not args.table_only:
        width = max((len(lane) for lane in recording.lanes), default=0)
        for wait_ms, lane, event in paced(recording, args.speed):
            time.sleep(wait_ms / 1000.0)
            print(f"{event.t_ms:9.1f} ms  {lane:<{width}}  {describe(event)}", flush=True)
        print()
    lanes = {lane: summary(events) for lane, events in recording.lanes.items()}
    result = race_report("recorded", _provenance(recording) or _UNKNOWN, lanes, _answer(recording))
    print(format_table(TABLE_HEADER, table_rows(result)))
    return 0


def _answer(recording: Recording) -> int | None:
    """The right answer where the recording's title names one of our problems."""
    try:
        return parse_problem_name(recording.title).answer
    except ValueError:
        return None


def describe(event: Event) -> str:
    """One line for one event; text is quoted, so that nothing in it can steer a terminal."""
    match event:
        case RunStarted():
            return f"starts, prompt of {len(event.prompt_token_ids)} tokens"
        case PrefillFinished():
            return f"has read the prompt ({event.ms:.1f} ms)"
        case DraftProposed():
            return f"drafts a tree of {len(event.tree.token_ids)} nodes ({event.ms:.1f} ms)"
        case DraftVerified():
            return (
                f"accepts {len(event.accepted)}, then {event.token_origin} "
                f"{event.token_text!a} ({event.ms:.1f} ms)"
            )
        case RoundPlanned():
            gain = event.plain_ms / event.expected_ms if event.expected_ms else 1.0
            what = "falls back to plain decoding" if event.fell_back else f"k = {event.draft_steps}"
            return f"plans from step {event.step}: {what} ({gain:.2f}x plain decoding expected)"
        case StepDrafted():
            return f"step {event.step} by the {event.author}: {event.text!a}"
        case StepGated() if event.score is not None:
            least = round(event.threshold * MAX_SCORE)
            return f"step {event.step}: {event.decision} (score {event.score}, {least} needed)"
        case StepGated():
            return (
                f"step {event.step}: {event.decision} ({event.verdict}, "
                f"confidence {event.confidence:.2f}, threshold {event.threshold:g})"
            )
        case StepJudged():
            why = "audit" if event.audit else "escalated"
            return f"step {event.step}: the target says {event.verdict} ({why})"
        case StepResolved():
            return f"step {event.step}: keeps the {event.kept}'s{' bonus' * event.bonus} text"
        case TokensCommitted():
            return f"+{len(event.token_ids)} {event.text!a}"
        case RunFinished():
            return f"ends: {event.reason}{', ' + ascii(event.message) if event.message else ''}"


def _check(path: Path, recording: Recording) -> None:
    for lane, events in recording.lanes.items():
        broken = validate(events)
        if broken:
            raise UserError(f"{path.name}: lane {lane!a} breaks a promise: {broken[0]}")


def _provenance(recording: Recording) -> Provenance | None:
    started = (events[0] for events in recording.lanes.values() if events)
    found = (event.provenance for event in started if isinstance(event, RunStarted))
    return next((provenance for provenance in found if provenance is not None), None)


def _title(recording: Recording) -> str:
    provenance = _provenance(recording)
    lines = [f"recording of {recording.title!a}, {recording.created or 'undated'}"]
    if provenance is not None:
        lines.append(
            f"commit {provenance.commit}, {provenance.device}, {provenance.dtype}, "
            f"{provenance.threads} threads"
        )
    return "\n".join([*lines, *(ascii(note) for note in recording.notes), ""])
