"""``python -m confu_demo profile``: the milliseconds of a decoding cycle, part by part."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from confu_demo.bench.profile import Profile, profile, table_rows, verdict_line
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
    method_names,
)
from confu_demo.cli.progress import Progress
from confu_demo.cli.tables import format_table
from confu_demo.config import flatten
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.provenance import collect
from confu_demo.suites import Suite, find_suite, why_not
from confu_demo.trace import Provenance

PROFILED = ("autoregressive", "prompt_lookup", "eagle3", "confu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--methods",
        type=method_names,
        default=None,
        metavar="M,M",
        help=f"of {', '.join(PROFILED)} (default: all of them, or what a folder can run)",
    )
    add_prompt_options(parser, problems=4)
    add("--repeats", type=int, default=3, metavar="N", help="runs of each prompt (default: 3)")
    add_model_options(parser)
    add_decode_options(parser)


def run(args: argparse.Namespace) -> int:
    with user_errors():
        check_json(args.json)
        config = decode_config(args)
        found = find_suite(args.suite)
        settings = _settings(args, found)
        provide_weights(found, settings.methods)
        suite = LoadedSuite(found, device=args.device, dtype=args.dtype, threads=args.threads)
        suite.warm_up(settings.methods, config)
        profiles = profile(
            suite,
            settings.methods,
            settings.split,
            settings.indices,
            config,
            settings.repeats,
            Progress(len(settings.indices)),
        )
    provenance = collect(suite.device, suite.dtype, suite.threads, sys.argv)
    if args.json is not None:
        output = {
            "settings": {**asdict(settings), **dict(flatten(config))},
            "provenance": asdict(provenance) | {"versions": dict(provenance.versions)},
            "profiles": {
                method: asdict(of_method)
                | {"total_ms": of_method.total_ms, "outside_share": of_method.outside_share}
                for method, of_method in profiles.items()
            },
        }
        with user_errors():
            write_json(args.json, output)
    _print(settings, profiles, provenance, suite.threads_text)
    return 0


def _settings(args: argparse.Namespace, suite: Suite) -> BenchSettings:
    """Raises ``ValueError`` with one sentence for what cannot be profiled."""
    possible = tuple(m for m in PROFILED if suite.shipped or not why_not(suite, m))
    methods = (possible or PROFILED[:1]) if args.methods is None else args.methods
    settings = bench_settings(
        args, suite.name, methods, repeats=args.repeats, generate_problems=0, check_problems=0
    )
    unknown = [method for method in methods if method not in PROFILED]
    if unknown:
        raise ValueError(f"{unknown[0]} has no profile: choose from {', '.join(PROFILED)}")
    return settings


def _print(
    settings: BenchSettings, profiles: dict[str, Profile], provenance: Provenance, threads: str
) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in provenance.versions)
    print(
        f"suite {settings.suite}, {settings.problems} problems of {settings.split} from "
        f"{settings.start}, {settings.repeats} repeats, {provenance.device}, "
        f"{provenance.dtype}, {threads}, commit {provenance.commit}, {versions}\n"
        "ms a cycle (share of it), medians over the runs; a cycle of plain decoding is a token\n"
    )
    print(format_table(("part", *profiles), table_rows(profiles)))
    print(f"\n{verdict_line(profiles)}")
