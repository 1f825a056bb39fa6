"""``python -m confu_demo suites``: what is here, what is missing and how to get it."""

from __future__ import annotations

import argparse

from confu_demo.cli.errors import user_errors
from confu_demo.decoding.registry import METHODS
from confu_demo.suites import SUITES, Suite, find_suite, parts_of, why_not


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite", default=None, metavar="S", help="only this suite, or a folder of your own"
    )


def run(args: argparse.Namespace) -> int:
    with user_errors():
        suites = list(SUITES.values()) if args.suite is None else [find_suite(args.suite)]
    print("\n\n".join(describe(suite) for suite in suites))
    if args.suite is None:
        print(
            "\nModels of your own: --suite FOLDER, with subfolders target/ (a Llama, Qwen2 or "
            "Qwen3 model as Hugging Face\nsaves it), draft/ (a smaller one with the same "
            "tokenizer), eagle3/ and confu/ (heads for that target).\nOnly target/ is needed; "
            "'suites --suite FOLDER' says which lanes can run."
        )
    return 0


def describe(suite: Suite) -> str:
    lines = [f"{suite.name}: {suite.about}"]
    for status in parts_of(suite):
        lanes = ", ".join(status.lanes)
        if status.is_there:
            lines.append(f"  {status.part:<7} here      for {lanes}")
        elif not status.meant:
            lines.append(f"  {status.part:<7} none      for {lanes}: {status.how_to_get}")
        else:
            lines.append(f"  {status.part:<7} MISSING   for {lanes}: {status.how_to_get}")
    ready = [method for method in METHODS if not why_not(suite, method)]
    lines.append(f"  lanes that can run: {', '.join(ready) or 'none'}")
    return "\n".join(lines)
