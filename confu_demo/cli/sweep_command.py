"""``python -m confu_demo sweep``: curves against one setting of a method."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from confu_demo.bench.sweep import (
    STEP_HEADER,
    TABLE_HEADER,
    Point,
    budget_points,
    equal_work,
    equal_work_lines,
    gamma_points,
    rows_of,
    step_rows,
    steps_points,
    sweep,
    table_rows,
    tree_points,
)
from confu_demo.cli.errors import LANE_FAILED, report, user_errors
from confu_demo.cli.fetch_command import provide_weights
from confu_demo.cli.files import check_json, write_json
from confu_demo.cli.options import (
    add_decode_options,
    add_model_options,
    add_prompt_options,
    bench_settings,
    decode_config,
    draft_steps,
    method_names,
)
from confu_demo.cli.progress import Progress
from confu_demo.cli.tables import format_table
from confu_demo.cli.tree_options import budget, budget_name, tree_config
from confu_demo.config import ALL_NODES, AUTO_BUDGET, DecodeConfig, TreeConfig, flatten
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.provenance import collect
from confu_demo.suites import find_suite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--budgets",
        metavar="M,M",
        help="ConFu at these contemplate budgets, for example 0,1,2,4,8,all,auto",
    )
    add(
        "--nodes",
        metavar="N,N",
        help="every method with fixed trees of so many nodes, for example 8,16,30,60,auto",
    )
    add(
        "--gammas",
        metavar="G,G",
        help="ConfSpec at these thresholds, for example 0.5,0.7,0.9,0.99,2",
    )
    add("--steps", metavar="K,K", help="ConfSpec with so many draft steps, for example 1,2,3,auto")
    add(
        "--methods",
        type=method_names,
        default=None,
        metavar="M,M",
        help="of --nodes (default: eagle3,confu), or of --gammas and --steps (default: confspec)",
    )
    add_prompt_options(parser, problems=12)
    add_model_options(parser)
    add_decode_options(parser)


def run(args: argparse.Namespace) -> int:
    with user_errors():
        check_json(args.json)
        config = decode_config(args)
        points = _points(args, config)
        found = find_suite(args.suite)
        methods = tuple(dict.fromkeys(point.method for point in points))
        settings = bench_settings(args, found.name, methods)
        provide_weights(found, [point.method for point in points])
        suite = LoadedSuite(found, device=args.device, dtype=args.dtype, threads=args.threads)
        for method in {point.method for point in points}:
            suite.decoder(method)
        for point in points:
            suite.warm_up([point.method], point.config)
    progress = Progress(len(settings.indices))
    results = sweep(suite, points, settings.split, settings.indices, progress)
    rows = rows_of(results)
    equal = equal_work(points, rows, results)
    provenance = collect(suite.device, suite.dtype, suite.threads, sys.argv)
    output = {
        "settings": {
            "suite": suite.suite.name,
            "split": settings.split,
            "start": settings.start,
            "problems": settings.problems,
            **dict(flatten(config)),
        },
        "provenance": asdict(provenance) | {"versions": dict(provenance.versions)},
        "points": rows,
        "equal_work": equal,
    }
    if args.json is not None:
        with user_errors():
            write_json(args.json, output)
    print(
        f"suite {suite.suite.name}, {settings.problems} problems of {settings.split} from "
        f"{settings.start}, {provenance.device}, {provenance.dtype}, {suite.threads_text}, "
        f"commit {provenance.commit}\n"
    )
    steps = step_rows(rows)
    print(
        format_table(STEP_HEADER, steps) if steps else format_table(TABLE_HEADER, table_rows(rows))
    )
    if equal:
        print("\n" + "\n".join(equal_work_lines(equal)))
    return _status(rows)


def _points(args: argparse.Namespace, config: DecodeConfig) -> list[Point]:
    """Raises ``ValueError`` with one sentence where there is nothing to sweep, or nonsense."""
    points: list[Point] = []
    if args.budgets is not None:
        values = [_budget(word) for word in _words(args.budgets)]
        points += budget_points(config, [(budget_name(value), value) for value in values])
    if args.nodes is not None:
        trees = [_tree(word, args) for word in _words(args.nodes)]
        points += tree_points(config, trees, args.methods or ("eagle3", "confu"))
    if args.gammas is not None:
        gammas = [_gamma(word) for word in _words(args.gammas)]
        points += gamma_points(config, gammas, args.methods or ("confspec",))
    if args.steps is not None:
        counts = [(word, _count(word)) for word in _words(args.steps)]
        points += steps_points(config, counts, args.methods or ("confspec",))
    if not points:
        raise ValueError(
            "nothing to sweep: name --budgets 0,1,2,4,8,all, --nodes 8,16,30,60, "
            "--gammas 0.5,0.7,0.9,2 or --steps 1,2,3,auto"
        )
    names = [point.name for point in points]
    if len(set(names)) != len(names):
        raise ValueError("a value of the sweep is named twice")
    return points


def _budget(word: str) -> int:
    try:
        return budget(word)
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"--budgets: {error}") from None


def _gamma(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"--gammas: {word!r} is not a number") from None


def _count(word: str) -> int:
    try:
        return draft_steps(word)
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"--steps: {error}") from None


def _tree(word: str, args: argparse.Namespace) -> tuple[str, TreeConfig, int]:
    """A number of nodes or ``auto``, with the budget that goes with it unless one is named."""
    if word == "auto":
        tree, usual = TreeConfig.auto(), AUTO_BUDGET
    elif word.isdecimal():
        given = argparse.Namespace(**{**vars(args), "tree": f"fixed:{word}", "tree_nodes": None})
        tree, usual = tree_config(given), ALL_NODES
    else:
        raise ValueError(f"--nodes: {word!r} is neither a number nor auto")
    named = args.contemplate_budget
    return word, tree, usual if named is None else named


def _words(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _status(rows: dict[str, Any]) -> int:
    failed = [(name, row["failure"]) for name, row in rows.items() if row["failure"]]
    if failed:
        report("sweep", f"{failed[0][0]} failed: {failed[0][1]}")
    return LANE_FAILED if failed else 0
