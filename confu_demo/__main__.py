"""``python -m confu_demo {race,bench,sweep,calibrate,profile,replay,export,suites,fetch,train}``.

Exit status: 0, 1 if a lane of a race failed, 2 for anything that the user can put right (one line
on stderr), 130 after Ctrl-C. A command's module is imported only when it is chosen, because torch
takes seconds to import and ``--help`` should not.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from confu_demo import __version__
from confu_demo.cli.errors import BAD_INPUT, INTERRUPTED, OneLineParser, UserError, report

COMMANDS = {
    "race": "run methods side by side on one prompt and compare them",
    "bench": "measure methods over held-out problems",
    "sweep": "measure contemplate budgets and tree sizes against acceptance and time",
    "calibrate": "compare how sure ConfSpec's judges are with how often they are right",
    "profile": "measure the milliseconds of a decoding cycle, part by part",
    "replay": "show a recorded race",
    "export": "write recorded races as a page that opens from disk",
    "suites": "list the models: what is here, what is missing and how to get it",
    "fetch": "get a suite's weights ahead of time",
    "train": "train a part of the bundled suite",
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = next((word for word in given if not word.startswith("-")), "")
    try:
        return _run(name, given)
    except UserError as error:
        report(name, str(error))
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"confu_demo {name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(name: str, given: Sequence[str]) -> int:
    command: Any = None
    if name in COMMANDS:
        command = importlib.import_module(f"confu_demo.cli.{name}_command")
    args = _parser(name, command).parse_args(given)
    status: int = command.run(args)  # the parser knows no other commands
    return status


def _parser(chosen: str, command: Any) -> OneLineParser:
    parser = OneLineParser(prog="python -m confu_demo", description="A race of decoding methods.")
    parser.add_argument("--version", action="version", version=f"confu_demo {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        sub = subparsers.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == chosen:
            command.add_arguments(sub)
    return parser


if __name__ == "__main__":
    sys.exit(main())
