"""``python -m confu_demo profile``: the milliseconds of a decoding cycle, part by part."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from confu_demo.bench.profile import profile, table_rows
from confu_demo.bench.settings import BenchSettings
from confu_demo.cli.errors import user_errors
from confu_demo.cli.fetch_command import provide_weights
from confu_demo.cli.files import check_json, write_json
from confu_demo.cli.options import (
    add_decode_options,
    add_model_options,
    add_prompt_options,
    decode_config,
    method_names,
)
from confu_demo.cli.progress import Progress
from confu_demo.cli.tables import format_table
from confu_demo.config import flatten
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.provenance import collect
from confu_demo.suites import find_suite

PROFILED = ("autoregressive", "prompt_lookup", "eagle3", "confu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--methods",
        type=method_names,
        default=PROFILED,
        metavar="M,M",
        help=f"of {', '.join(PROFILED)} (default: all of them)",
    )
    add_prompt_options(parser, problems=6)
    add_model_options(parser)
    add_decode_options(parser)


def run(args: argparse.Namespace) -> int:
    with user_errors():
        check_json(args.json)
        config = decode_config(args)
        found = find_suite(args.suite)
        settings = BenchSettings(
            methods=args.methods,
            suite=found.name,
            split=args.split,
            start=args.start,
            problems=args.problems,
        )
        unknown = [method for method in settings.methods if method not in PROFILED]
        if unknown:
            raise ValueError(f"{unknown[0]} has no profile: choose from {', '.join(PROFILED)}")
        provide_weights(found, settings.methods)
        suite = LoadedSuite(found, device=args.device, dtype=args.dtype, threads=args.threads)
        suite.warm_up(settings.methods, config)
        profiles = profile(
            suite,
            settings.methods,
            settings.split,
            settings.indices,
            config,
            Progress(len(settings.indices)),
        )
    provenance = collect(suite.device, suite.dtype, suite.threads, sys.argv)
    output = {
        "settings": {**asdict(settings), **dict(flatten(config))},
        "provenance": asdict(provenance) | {"versions": dict(provenance.versions)},
        "profiles": {
            method: asdict(of_method) | {"outside_share": of_method.outside_share}
            for method, of_method in profiles.items()
        },
    }
    if args.json is not None:
        with user_errors():
            write_json(args.json, output)
    print(
        f"suite {suite.suite.name}, {settings.problems} problems of {settings.split} from "
        f"{settings.start}, {provenance.device}, {provenance.dtype}, {suite.threads_text}, "
        f"commit {provenance.commit}; ms a cycle (share), medians over the problems\n"
    )
    print(format_table(("part", *profiles), table_rows(profiles)))
    return 0
