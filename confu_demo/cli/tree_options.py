"""Draft trees and contemplate tokens on the command line: left to the machine, or as one says."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, Protocol

from confu_demo.config import ALL_NODES, AUTO_BUDGET, TreeConfig

EAGLE_TOP_K = 10
"""Width of the trees in EAGLE-3's public code [E]: that of ``--tree fixed:30``."""
_SHAPE = (("num_nodes", "tree_nodes"), ("depth", "tree_depth"), ("top_k", "tree_top_k"))
_NAMED_BUDGETS = {"auto": AUTO_BUDGET, "all": ALL_NODES}


class _Group(Protocol):
    def add_argument(self, *names: str, **options: Any) -> Any: ...


def add_tree_options(group: _Group) -> None:
    add, fixed = group.add_argument, TreeConfig()
    add(
        "--tree",
        default=None,
        metavar="T",
        help="auto: by the costs measured on this machine; fixed: always the same shape; "
        "fixed:30: EAGLE-3's own shape with so many nodes (default: auto)",
    )
    add(
        "--tree-nodes",
        type=int,
        default=None,
        metavar="N",
        help=f"nodes of a fixed tree, root included (default: {fixed.num_nodes})",
    )
    add(
        "--tree-depth",
        type=int,
        default=None,
        metavar="N",
        help=f"levels of a fixed tree (default: {fixed.depth})",
    )
    add(
        "--tree-top-k",
        type=int,
        default=None,
        metavar="N",
        help=f"children kept at each depth of a fixed tree (default: {fixed.top_k}, and "
        f"{EAGLE_TOP_K} with fixed:N)",
    )
    add(
        "--contemplate-budget",
        type=budget,
        default=None,
        metavar="N",
        help="ConFu: tree nodes that get a contemplate token: a number, all, or auto (default: "
        "auto with an automatic tree, all with a fixed one)",
    )


def budget(text: str) -> int:
    """``auto``, ``all`` or a number. Raises ``argparse.ArgumentTypeError``."""
    if text in _NAMED_BUDGETS:
        return _NAMED_BUDGETS[text]
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not auto, all or a number") from None


def budget_name(value: int) -> str:
    """How a budget is written on the command line."""
    return next((name for name, own in _NAMED_BUDGETS.items() if own == value), str(value))


def tree_config(args: argparse.Namespace) -> TreeConfig:
    """Naming any number of a shape means a fixed tree. Raises ``ValueError`` with one sentence
    for a contradiction."""
    shape = {ours: value for ours, name in _SHAPE if (value := getattr(args, name)) is not None}
    kind, _, nodes = (args.tree or ("fixed" if shape else "auto")).partition(":")
    if kind == "auto" and not nodes:
        if shape:
            raise ValueError(
                "with --tree auto the machine chooses nodes, depth and width: leave out "
                "--tree-nodes, --tree-depth and --tree-top-k, or use --tree fixed"
            )
        return TreeConfig.auto()
    if kind != "fixed" or (args.tree and ":" in args.tree and not nodes.isdecimal()):
        raise ValueError(f"the tree must be auto, fixed or fixed:NODES, not {args.tree!r}")
    if nodes and shape.get("num_nodes", int(nodes)) != int(nodes):
        raise ValueError(f"--tree {args.tree} and --tree-nodes {shape['num_nodes']} contradict")
    if not nodes:
        return TreeConfig(**shape)
    return replace(TreeConfig(num_nodes=int(nodes), top_k=EAGLE_TOP_K), **shape)


def budget_of(args: argparse.Namespace, tree: TreeConfig) -> int:
    if args.contemplate_budget is not None:
        return int(args.contemplate_budget)
    return AUTO_BUDGET if tree.mode == "auto" else ALL_NODES
