"""``python -m confu_demo calibrate``: are ConfSpec's judges right as often as they are sure?"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from typing import Any

from confu_demo.bench.judge_calibration import calibration_report, collect_pairs, fitted
from confu_demo.bench.settings import BenchSettings
from confu_demo.cli.errors import user_errors
from confu_demo.cli.fetch_command import provide_weights
from confu_demo.cli.files import check_json, write_json
from confu_demo.cli.options import (
    add_decode_options,
    add_model_options,
    add_prompt_options,
    bench_settings,
    decode_config,
)
from confu_demo.cli.progress import Progress
from confu_demo.cli.tables import format_table
from confu_demo.config import flatten
from confu_demo.judge_temperatures import FILE_NAME, FIT_SPLIT, write_temperatures
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.provenance import collect
from confu_demo.race_report import number
from confu_demo.suites import find_suite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--fit-problems",
        type=int,
        default=200,
        metavar="N",
        help=f"problems of {FIT_SPLIT} that the temperatures are fitted on (default: 200)",
    )
    add(
        "--write",
        action="store_true",
        help="keep the temperatures in the suite's folder, where ConfSpec's judges take them from",
    )
    add_prompt_options(parser, problems=150)
    add_model_options(parser)
    add_decode_options(parser)


def run(args: argparse.Namespace) -> int:
    with user_errors():
        check_json(args.json)
        config = decode_config(args)
        found = find_suite(args.suite)
        settings = bench_settings(args, found.name, ("lookahead",))
        if settings.split == FIT_SPLIT:
            raise ValueError(f"{FIT_SPLIT} is what temperatures are fitted on: report another")
        fit = replace(settings, split=FIT_SPLIT, start=0, problems=args.fit_problems)
        provide_weights(found, ["lookahead"])
        suite = LoadedSuite(found, device=args.device, dtype=args.dtype, threads=args.threads)
        suite.decoder("lookahead")
        suite.warm_up(["lookahead"], config)
        progress = Progress(fit.problems + settings.problems)
        pairs = {
            each.split: collect_pairs(suite, each.split, each.indices, config, progress)
            for each in (fit, settings)
        }
    temperatures = fitted(pairs[FIT_SPLIT].verdicts)
    minimum = config.confspec.min_verdict_mass
    report = calibration_report(pairs[settings.split], temperatures, minimum)
    provenance = collect(suite.device, suite.dtype, suite.threads, sys.argv)
    output = {
        "settings": _settings(settings, fit, suite) | dict(flatten(config)),
        "provenance": asdict(provenance) | {"versions": dict(provenance.versions)},
        "fitted_on": len(pairs[FIT_SPLIT].verdicts),
        **report,
    }
    with user_errors():
        if args.json is not None:
            write_json(args.json, output)
        if args.write:
            write_temperatures(suite.suite.folder, temperatures)
    print("\n".join(report_lines(output)))
    if args.write:
        print(f"\nkept in {suite.suite.folder / FILE_NAME}")
    return 0


def _settings(settings: BenchSettings, fit: BenchSettings, suite: LoadedSuite) -> dict[str, Any]:
    return {
        "suite": suite.suite.name,
        "split": settings.split,
        "start": settings.start,
        "problems": settings.problems,
        "fit_split": fit.split,
        "fit_problems": fit.problems,
    }


def report_lines(output: dict[str, Any]) -> list[str]:
    settings, judges = output["settings"], output["judges"]
    return [
        f"suite {settings['suite']}, {settings['problems']} problems of {settings['split']}: "
        f"{output['pairs']} pairs of steps for a judge ({output['same']} mean the same), "
        f"{output['exact_matches']} equal word for word",
        *(
            f"{name} judge: right {number(judge['accuracy'], 3)}, temperature "
            f"{judge['temperature']:.2f} (fitted on {settings['fit_problems']} problems of "
            f"{settings['fit_split']}), expected calibration error {number(judge['ece'], 3)} "
            f"({number(judge['ece_at_temperature_1'], 3)} at temperature 1)"
            for name, judge in judges.items()
        ),
        "",
        format_table(GATE_HEADER, [_gate_row(gate) for gate in output["gates"]]),
        "",
        format_table(BIN_HEADER, _bin_rows(judges)),
    ]


GATE_HEADER = (
    "gamma", "coverage", "confident right (95 %)", "target on these", "accepted", "harmful",
    "wasted",
)  # fmt: skip
BIN_HEADER = ("confidence", "draft: verdicts", "right", "target: verdicts", "right")


def _gate_row(gate: dict[str, Any]) -> list[str]:
    sure, interval = gate["num_confident"], gate["interval"]
    target = gate["target_right"] / sure if sure else None
    span = f" ({interval[0]:.3f}-{interval[1]:.3f})" if interval else ""
    return [
        "above 1" if gate["threshold"] > 1.0 else f"{gate['threshold']:g}",
        number(gate["coverage"], 3),
        number(gate["confident_accuracy"], 3) + span,
        number(target, 3),
        str(gate["accepted"]),
        str(gate["harmful"]),
        str(gate["wasted"]),
    ]


def _bin_rows(judges: dict[str, Any]) -> list[list[str]]:
    pairs = zip(judges["draft"]["reliability"], judges["target"]["reliability"], strict=True)
    return [
        [
            f"{ours['low']:.2f}-{ours['high']:.2f}",
            str(ours["count"]),
            number(ours["accuracy"], 3),
            str(theirs["count"]),
            number(theirs["accuracy"], 3),
        ]
        for ours, theirs in pairs
    ]
