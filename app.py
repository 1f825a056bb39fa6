"""The web page: ``python app.py``, then open the printed address. It opens on the bundled models.

The only file that knows both the page and the engine. Where torch is not installed, the page
still opens and shows recorded races.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when Gradio is imported

from confu_demo.ui.layout import build_page, launch_options
from confu_demo.ui.no_engine import NoEngine
from confu_demo.ui.runner import ProblemCard
from confu_demo.ui.suites import SuiteEntry

RECORDINGS = Path(__file__).resolve().parent / "assets" / "recordings"
FREE_TEXT_TOKENS = 128
"""A chat model may go on for long; a visitor can ask for more."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The race of decoding methods as a web page.")
    parser.add_argument("--host", help="address to serve on (default: this machine only)")
    parser.add_argument("--port", type=int, help="port (default: the first free one from 7860)")
    parser.add_argument("--share", action="store_true", help="also make a public Gradio link")
    parser.add_argument("--suite", default="bundled", help="a suite's name or folder")
    parser.add_argument("--device", default="auto", help="cpu, cuda, mps or auto")
    parser.add_argument("--dtype", default="auto", help="float32, bfloat16, float16 or auto")
    parser.add_argument("--threads", type=int, help="CPU threads (default: measured)")
    return parser.parse_args(arguments)


def make_suites(options: argparse.Namespace) -> tuple[SuiteEntry, ...]:
    """The suite that was asked for, then the others by name. Nothing is loaded or fetched yet.

    Raises ``ValueError`` for an unknown suite.
    """
    try:
        from confu_demo.race_runner import make_runner
        from confu_demo.suite_fetcher import fetcher_of
        from confu_demo.suites import SUITES, find_suite
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("confu_demo"):
            raise
        return (SuiteEntry(name="bundled", runner=NoEngine(f"{error.name} is not installed")),)

    def entry(name: str) -> SuiteEntry:
        suite = find_suite(name)
        runner = make_runner(
            name, ProblemCard, device=options.device, dtype=options.dtype, threads=options.threads
        )
        return SuiteEntry(
            name=suite.name if name in SUITES or suite.name not in SUITES else name,
            runner=runner,
            gallery=runner.gallery(),
            style="chat" if suite.free_text else "problems",
            new_tokens=FREE_TEXT_TOKENS if suite.free_text else None,
            fetcher=fetcher_of(suite),
        )

    return tuple(entry(name) for name in dict.fromkeys((options.suite, *SUITES)))


def recordings() -> dict[str, Path]:
    """The recorded races by name, in the order of their file names."""
    files = sorted(RECORDINGS.glob("*.jsonl.gz"))
    return {path.name.removesuffix(".jsonl.gz").replace("_", " "): path for path in files}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        suites = make_suites(options)
    except (OSError, ValueError) as error:
        print(f"app.py: {error}", file=sys.stderr)
        return 2
    page = build_page(suites, recordings())
    page.launch(
        server_name=options.host, server_port=options.port, share=options.share, **launch_options()
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
