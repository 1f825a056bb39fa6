"""``python -m confu_demo train PART``: hands over to :mod:`confu_demo.training.commands`."""

from __future__ import annotations

import argparse

from confu_demo.cli.errors import user_errors
from confu_demo.training import commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    # A training reads settings, checkpoints and models at many points, so all of it is covered.
    with user_errors():
        return commands.run(args)
