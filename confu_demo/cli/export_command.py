"""``python -m confu_demo export``: recorded races as pages that open from disk."""

from __future__ import annotations

import argparse
from pathlib import Path

from confu_demo.cli.errors import UserError, user_errors
from confu_demo.cli.files import check_json, write_text
from confu_demo.export import SPACE, bundled_recordings, page_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", type=Path, nargs="*", metavar="TRACE",
        help="recordings (with --static by default the bundled ones)")  # fmt: skip
    add("--html", type=Path, metavar="FILE", help="one self-contained page of the recordings")
    add("--static", type=Path, metavar="DIR",
        help="a folder that a static Space or any web server can serve")  # fmt: skip
    add("--language", default="en", metavar="L", help="en or ko at first (default: en)")


def run(args: argparse.Namespace) -> int:
    if (args.html is None) == (args.static is None):
        raise UserError("name one of --html FILE and --static DIR")
    if args.html is not None and not args.files:
        raise UserError("name a recording: export TRACE --html FILE")
    files = args.files or bundled_recordings()
    with user_errors():
        check_json(args.html)
        page = page_of(files, args.language)
        if args.html is not None:
            write_text(args.html, page)
        else:
            args.static.mkdir(parents=True, exist_ok=True)
            write_text(args.static / "index.html", page)
            write_text(args.static / "README.md", SPACE)
    where = args.html or args.static / "index.html"
    print(f"{where}: {len(files)} recordings, {len(page.encode()) / 1e6:.1f} MB")
    return 0
