"""``python -m confu_demo race``: one prompt, several methods, a table and, if asked, files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confu_demo.cli.errors import LANE_FAILED, UserError, report, user_errors
from confu_demo.cli.fetch_command import provide_weights
from confu_demo.cli.files import check_json, check_trace, write_json
from confu_demo.cli.options import (
    add_decode_options,
    add_model_options,
    decode_config,
    method_names,
)
from confu_demo.cli.tables import format_table
from confu_demo.config import DecodeConfig
from confu_demo.data.prompts import parse_prompt_name
from confu_demo.decoding.base import DecodeRequest
from confu_demo.decoding.registry import check_methods
from confu_demo.loaded_suite import LoadedSuite, check_text
from confu_demo.metrics import RunMetrics, summary
from confu_demo.provenance import collect
from confu_demo.race import race
from confu_demo.race_report import TABLE_HEADER, race_report, table_rows
from confu_demo.recording import Recording
from confu_demo.suites import Suite, default_methods, find_suite
from confu_demo.trace import Event, Provenance, RunFinished
from confu_demo.trace_io import write_recording
from confu_demo.trace_validation import validate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--problem", metavar="SPLIT:N", help="a problem by name, like heldout:7")
    prompt.add_argument("--prompt", metavar="TEXT", help="a question or text of your own")
    parser.add_argument(
        "--methods",
        type=method_names,
        default=None,
        metavar="M,M",
        help="lanes in their order (default: the four of the suite)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers as JSON")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE.jsonl.gz", help="write every event as a recording"
    )
    add_model_options(parser)
    add_decode_options(parser)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Everything that could be refused has been accepted."""

    suite: LoadedSuite
    methods: tuple[str, ...]
    request: DecodeRequest
    config: DecodeConfig
    title: str
    answer: int | None


def run(args: argparse.Namespace) -> int:
    with user_errors():
        plan = _plan(args)
        plan.suite.warm_up(plan.methods, plan.config)
    provenance = collect(plan.suite.device, plan.suite.dtype, plan.suite.threads, sys.argv)
    events = _race(plan, provenance)
    lanes = {method: summary(events[method]) for method in plan.methods}
    result = race_report(plan.suite.suite.name, provenance, lanes, plan.answer)
    with user_errors():
        if args.trace is not None:
            _write_trace(args.trace, plan.title, provenance, events)
        if args.json is not None:
            write_json(args.json, result)
    _print(plan, lanes, result)
    return _status(events)


def _plan(args: argparse.Namespace) -> _Plan:
    check_json(args.json)
    check_trace(args.trace)
    config = decode_config(args)
    suite = find_suite(args.suite)
    methods = default_methods(suite) if args.methods is None else args.methods
    check_methods(methods)
    problem = None if args.problem is None else parse_prompt_name(suite.name, args.problem)
    text: str = args.prompt if problem is None else problem.text
    check_text(text)
    provide_weights(suite, methods)
    loaded = LoadedSuite(suite, device=args.device, dtype=args.dtype, threads=args.threads)
    for method in methods:
        loaded.decoder(method)
    request = loaded.request(text)
    return _Plan(
        suite=loaded,
        methods=methods,
        request=request,
        config=loaded.fit(config, request, methods, may_shorten=args.max_new_tokens is None),
        title=_title(suite, args.problem),
        answer=None if problem is None else problem.answer,
    )


def _title(suite: Suite, problem: str | None) -> str:
    """A name that says which prompt it was; only word problems go by their bare name."""
    if problem is None:
        return "a prompt of one's own"
    return f"{suite.name} {problem}" if suite.free_text else problem


def _race(plan: _Plan, provenance: Provenance) -> dict[str, tuple[Event, ...]]:
    events: dict[str, list[Event]] = {method: [] for method in plan.methods}
    lanes = plan.suite.lanes(plan.methods, plan.request)
    running = race(lanes, plan.config, new_clock=plan.suite.new_clock, provenance=provenance)
    for method, event in running:
        events[method].append(event)
    return {method: tuple(of_lane) for method, of_lane in events.items()}


def _write_trace(
    path: Path, title: str, provenance: Provenance, events: Mapping[str, tuple[Event, ...]]
) -> None:
    """Validates before writing. Raises :class:`UserError` with the first broken promise."""
    for method, of_lane in events.items():
        broken = validate(of_lane)
        if broken:
            raise UserError(f"the trace of {method} is not written, it is broken: {broken[0]}")
    write_recording(path, Recording(title=title, created=provenance.created, lanes=events))


def _print(plan: _Plan, lanes: Mapping[str, RunMetrics], result: Mapping[str, Any]) -> None:
    print(
        f"{plan.title}, suite {result['suite']}, {result['device']}, {result['dtype']}, "
        f"{result['threads']} threads\n"
    )
    print(plan.request.text.strip() + "\n")
    shown: dict[str, list[str]] = {}
    for method, lane in lanes.items():
        shown.setdefault(lane.text.strip(), []).append(method)
    for text, methods in shown.items():
        print(f"[{', '.join(methods)}]\n{text}\n")
    print(format_table(TABLE_HEADER, table_rows(result)))


def _status(events: Mapping[str, tuple[Event, ...]]) -> int:
    failed = False
    for method, of_lane in events.items():
        last = of_lane[-1]
        if isinstance(last, RunFinished) and last.reason == "error":
            report("race", f"{method} failed: {last.message}")
            failed = True
    return LANE_FAILED if failed else 0
