"""Arguments that several commands share, and the settings they make."""

from __future__ import annotations

import argparse
from pathlib import Path

from confu_demo.bench.settings import BenchSettings
from confu_demo.cli.tree_options import add_tree_options, budget_of, tree_config
from confu_demo.config import (
    AUTO_STEPS,
    ConfspecConfig,
    ConfuConfig,
    DecodeConfig,
    SamplingConfig,
    SpecreasonConfig,
)

_DEFAULT = DecodeConfig()


def add_model_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models and machine")
    add = group.add_argument
    add(
        "--suite",
        default="bundled",
        metavar="S",
        help="bundled, smollm2-135m (weights are fetched once), or a folder with target/, draft/, "
        "eagle3/, confu/ (default: bundled)",
    )
    add("--device", default="auto", metavar="D", help="auto, cpu, cuda or mps (default: auto)")
    add(
        "--dtype",
        default="auto",
        metavar="D",
        help="auto, float32, bfloat16, float16 or float64 (default: auto, by a short probe)",
    )
    add(
        "--threads",
        type=int,
        default=None,
        metavar="N",
        help="CPU threads (default: by a short probe)",
    )


def add_prompt_options(parser: argparse.ArgumentParser, problems: int) -> None:
    """Which prompts of a suite are measured, ``problems`` by default, and where the numbers go."""
    add = parser.add_argument
    add("--problems", type=int, default=problems, metavar="N",
        help=f"how many prompts (default: {problems})")  # fmt: skip
    add("--split", default="heldout", metavar="S",
        help="heldout, hard or calibration (default: heldout)")  # fmt: skip
    add("--start", type=int, default=0, metavar="N", help="first prompt (default: 0)")
    add("--json", type=Path, metavar="FILE", help="write the numbers as JSON")


def bench_settings(
    args: argparse.Namespace, suite: str, methods: tuple[str, ...], **own: int
) -> BenchSettings:
    """The prompts that :func:`add_prompt_options` chose, and a command's ``own`` fields.

    Raises ``ValueError`` with one sentence for what cannot be measured.
    """
    return BenchSettings(
        suite=suite,
        methods=methods,
        split=args.split,
        start=args.start,
        problems=args.problems,
        **own,
    )


def add_decode_options(parser: argparse.ArgumentParser) -> None:
    """The settings of :mod:`confu_demo.config`, with its defaults."""
    confu, confspec = _DEFAULT.confu, _DEFAULT.confspec
    group = parser.add_argument_group("decoding")
    add = group.add_argument
    add("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy (default: 0)")
    add("--top-p", type=float, default=1.0, metavar="P", help="default: 1, off")
    add("--top-k", type=int, default=0, metavar="N", help="default: 0, off")
    add("--seed", type=int, default=0, metavar="N", help="of sampling (default: 0)")
    add(
        "--max-new-tokens",
        type=int,
        default=None,
        metavar="N",
        help=f"default: {_DEFAULT.max_new_tokens}, or what the context has room for",
    )
    add_tree_options(group)
    add(
        "--future",
        choices=("on", "zeroed", "shuffled"),
        default=confu.future,
        help=f"ConFu: the future prediction, or a control (default: {confu.future})",
    )
    add(
        "--gamma",
        type=float,
        default=confspec.threshold,
        metavar="G",
        help=f"ConfSpec: confidence threshold of the gate (default: {confspec.threshold})",
    )
    add(
        "--draft-steps",
        type=draft_steps,
        default=confspec.draft_steps,
        metavar="K",
        help="ConfSpec: steps drafted ahead; auto: by the costs measured on this machine and what "
        f"the run has accepted (default: {confspec.draft_steps})",
    )
    add(
        "--fallback",
        action="store_true",
        help="ConfSpec: go on with plain decoding where drafting steps would be slower",
    )
    add(
        "--score-threshold",
        type=int,
        default=_DEFAULT.specreason.threshold,
        metavar="N",
        help="SpecReason: the least score of 0 to 9 that keeps a step "
        f"(default: {_DEFAULT.specreason.threshold})",
    )
    add(
        "--audit",
        action="store_true",
        help="ConfSpec: ask the target about every verdict, off the clock",
    )


def decode_config(args: argparse.Namespace) -> DecodeConfig:
    """Raises ``ValueError`` with one sentence for a value that makes no sense."""
    tree = tree_config(args)
    tokens = _DEFAULT.max_new_tokens if args.max_new_tokens is None else args.max_new_tokens
    return DecodeConfig(
        max_new_tokens=tokens,
        sampling=SamplingConfig(
            temperature=args.temperature, top_p=args.top_p, top_k=args.top_k, seed=args.seed
        ),
        tree=tree,
        confu=ConfuConfig(future=args.future, contemplate_budget=budget_of(args, tree)),
        confspec=ConfspecConfig(
            threshold=args.gamma,
            draft_steps=args.draft_steps,
            audit=args.audit,
            fallback=args.fallback,
        ),
        specreason=SpecreasonConfig(threshold=args.score_threshold),
    )


def draft_steps(text: str) -> int:
    """A number, or ``auto``. Raises ``argparse.ArgumentTypeError``."""
    if text == "auto":
        return AUTO_STEPS
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor auto") from None


def method_names(text: str) -> tuple[str, ...]:
    """``autoregressive,eagle3`` -> its names, without checking that they exist."""
    return tuple(name for part in text.split(",") if (name := part.strip()))
