"""``python -m confu_demo bench``: every method over held-out problems, one table.

``accelerate launch -m confu_demo bench ...`` spreads the problems over devices or hosts.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from confu_demo.bench.acceptance import acceptance_report
from confu_demo.bench.generate_baseline import generate_line, measure_generate
from confu_demo.bench.measure import ProblemResult, measure
from confu_demo.bench.processes import Processes
from confu_demo.bench.race_check import check_line, check_race
from confu_demo.bench.report import TABLE_HEADER, cut_lines, methods_report, step_lines, table_rows
from confu_demo.bench.settings import BenchSettings
from confu_demo.cli.errors import LANE_FAILED, report, user_errors
from confu_demo.cli.fetch_command import provide_weights
from confu_demo.cli.files import check_json, write_json
from confu_demo.cli.options import (
    add_decode_options,
    add_model_options,
    add_prompt_options,
    bench_settings,
    decode_config,
    method_names,
)
from confu_demo.cli.progress import Progress
from confu_demo.cli.tables import format_table
from confu_demo.config import DecodeConfig, flatten
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.provenance import collect
from confu_demo.suites import default_methods, find_suite
from confu_demo.trace import Provenance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_prompt_options(parser, problems=24)
    add(
        "--methods",
        type=method_names,
        default=None,
        metavar="M,M",
        help="default: the four of the suite",
    )
    add(
        "--repeats",
        type=int,
        default=1,
        metavar="N",
        help="races a problem, the median counts (default: 1)",
    )
    add(
        "--generate-problems",
        type=int,
        default=8,
        metavar="N",
        help="problems on which transformers generate is measured too (default: 8)",
    )
    add(
        "--check-problems",
        type=int,
        default=4,
        metavar="N",
        help="problems on which every method is measured alone too (default: 4)",
    )
    add_model_options(parser)
    add_decode_options(parser)


def run(args: argparse.Namespace) -> int:
    with user_errors():
        check_json(args.json)
        config = decode_config(args)
        suite = find_suite(args.suite)
        settings = _settings(args, suite.name, default_methods(suite))
        provide_weights(suite, settings.methods)
        processes = Processes(args.device)
        loaded = LoadedSuite(suite, device=processes.device, dtype=args.dtype, threads=args.threads)
        for method in settings.methods:
            loaded.decoder(method)
        loaded.warm_up(settings.methods, config)
    try:
        return _measure(args, loaded, settings, config, processes)
    finally:
        processes.close()


def _settings(args: argparse.Namespace, suite: str, methods: tuple[str, ...]) -> BenchSettings:
    return bench_settings(
        args,
        suite,
        methods if args.methods is None else args.methods,
        repeats=args.repeats,
        generate_problems=args.generate_problems,
        check_problems=args.check_problems,
    )


def _measure(
    args: argparse.Namespace,
    suite: LoadedSuite,
    settings: BenchSettings,
    config: DecodeConfig,
    processes: Processes,
) -> int:
    share = processes.share(settings.indices)
    own = measure(
        suite,
        settings.methods,
        settings.split,
        share,
        config,
        settings.repeats,
        Progress(len(share), processes.is_first),
    )
    results = sorted(processes.gather(own), key=lambda result: result.problem)
    if not processes.is_first:
        return 0
    provenance = collect(suite.device, suite.dtype, suite.threads, sys.argv)
    output = {
        "settings": {
            "processes": processes.count,
            "single_row_threads": suite.single_threads,
            **asdict(settings),
            **dict(flatten(config)),
        },
        "provenance": asdict(provenance) | {"versions": dict(provenance.versions)},
        **_comparisons(suite, settings, config),
        "methods": methods_report(settings.methods, results),
        "acceptance": acceptance_report(settings.methods, results),
    }
    if args.json is not None:
        with user_errors():
            write_json(args.json, output)
    _print(output, provenance, suite.threads_text)
    return _status(results)


def _comparisons(
    suite: LoadedSuite, settings: BenchSettings, config: DecodeConfig
) -> dict[str, Any]:
    """How the plain loop compares with ``generate``, and the race with running alone."""
    split, indices = settings.split, settings.indices
    found: dict[str, Any] = {"generate_baseline": None, "race_check": None}
    if settings.generate_problems:
        chosen = indices[: settings.generate_problems]
        found["generate_baseline"] = measure_generate(suite, split, chosen, config)
    if settings.check_problems:
        chosen = indices[: settings.check_problems]
        found["race_check"] = check_race(suite, settings.methods, split, chosen, config)
    return found


def _print(output: dict[str, Any], provenance: Provenance, threads: str) -> None:
    settings = output["settings"]
    print(
        f"suite {settings['suite']}, {settings['problems']} problems of {settings['split']} from "
        f"{settings['start']}, {settings['repeats']} repeats, {provenance.device}, "
        f"{provenance.dtype}, {threads}, commit {provenance.commit}\n"
    )
    print(format_table(TABLE_HEADER, table_rows(output["methods"])))
    print("\n".join(["", *cut_lines(output["methods"]), *step_lines(output["methods"])]))
    if output["acceptance"] is not None:
        print(output["acceptance"]["table"] + "\n")
    if output["generate_baseline"] is not None:
        print(generate_line(output["generate_baseline"]))
    if output["race_check"] is not None:
        print(check_line(output["race_check"]))


def _status(results: list[ProblemResult]) -> int:
    failed = [result for result in results if result.run.failure]
    if failed:
        first = failed[0]
        report(
            "bench",
            f"{len(failed)} runs failed, the first: {first.method} on problem "
            f"{first.problem}: {first.run.failure}",
        )
    return LANE_FAILED if failed else 0
