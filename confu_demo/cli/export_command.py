"""``python -m confu_demo export``: recorded races as pages that open from disk."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from confu_demo.cli.errors import UserError, user_errors
from confu_demo.cli.files import check_json, write_text
from confu_demo.data.splits import parse_problem_name
from confu_demo.trace_io import read_recording
from confu_demo.trace_validation import validate
from confu_demo.ui.recordings import as_race
from confu_demo.ui.standalone import standalone_page

RECORDINGS = Path(__file__).resolve().parents[2] / "assets" / "recordings"
SPACE = """---
title: ConFu and ConfSpec, recorded races
emoji: 🏁
colorFrom: indigo
colorTo: green
sdk: static
app_file: index.html
license: apache-2.0
pinned: false
---

Recorded races of plain decoding, EAGLE-3, ConFu and ConfSpec. Nothing is computed here: the page
shows recordings, and no server is needed.
"""


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
    files = args.files or sorted(RECORDINGS.glob("*.jsonl.gz"))
    with user_errors():
        check_json(args.html)
        page = standalone_page([_race(path) for path in files], args.language)
        if args.html is not None:
            write_text(args.html, page)
        else:
            args.static.mkdir(parents=True, exist_ok=True)
            write_text(args.static / "index.html", page)
            write_text(args.static / "README.md", SPACE)
    where = args.html or args.static / "index.html"
    print(f"{where}: {len(files)} recordings, {len(page.encode()) / 1e6:.1f} MB")
    return 0


def _race(path: Path) -> dict[str, Any]:
    """What the viewer loads. Raises as the reader does, ValueError for a broken promise."""
    recording = read_recording(path)
    for lane, events in recording.lanes.items():
        broken = validate(events)
        if broken:
            raise ValueError(f"{path.name}: lane {lane!a} breaks a promise: {broken[0]}")
    name = path.name.removesuffix(".gz").removesuffix(".jsonl").replace("_", " ")
    try:
        known = parse_problem_name(recording.title)
    except ValueError:
        return as_race(recording) | {"name": name}
    shown = {"prompt": known.text, "expected": str(known.answer)}
    return as_race(recording) | shown | {"name": name}
