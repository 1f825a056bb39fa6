"""How the command line says that something is wrong: one line, exit status 2."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

BAD_INPUT = 2
LANE_FAILED = 1
INTERRUPTED = 130


class UserError(Exception):
    """Something that the user can put right; the message is one sentence."""


@contextmanager
def user_errors() -> Iterator[None]:
    """Turns what settings, files and models raise into :class:`UserError`.

    Only around what is checked, read, loaded or written: a ``ValueError`` from anywhere else is
    a bug and keeps its traceback.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        raise UserError(_one_line(error)) from error


def report(command: str, message: str) -> None:
    """One line on stderr; under ``accelerate launch`` only the first process speaks."""
    if os.environ.get("RANK", "0") == "0":
        print(f"confu_demo {command}: error: {message}", file=sys.stderr)


class OneLineParser(argparse.ArgumentParser):
    """argparse's errors in one line, with where to look further."""

    def error(self, message: str) -> NoReturn:
        print(
            f"{self.prog}: error: {message} (see '{self.prog} --help')".replace("\n", " "),
            file=sys.stderr,
        )
        sys.exit(BAD_INPUT)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
