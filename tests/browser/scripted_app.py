"""The page as it is, on scripted lanes and a recording of them.

A text with "slow" in it makes a race that lasts, "very slow" one that lasts minutes; one with
"hostile" lets the lanes write what must never be executed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from confu_demo.trace import Event
from confu_demo.trace_io import Recording, write_recording
from confu_demo.ui.layout import build_page, launch_options
from confu_demo.ui.runner import RaceRequest
from tests.browser.hostile import HOSTILE
from tests.ui.scripted_lanes import scripted_lanes
from tests.ui.scripted_runner import ScriptedRunner
from tests.ui.scripted_suites import ScriptedFetcher, scripted_suites


def report(line: str) -> None:
    print(line, flush=True)


class ByText(ScriptedRunner):
    """Chooses the script by the words of the prompt."""

    def race(self, request: RaceRequest, stop: Callable[[], bool]) -> Iterator[tuple[str, Event]]:
        slow = 0.05 if "slow" in request.text else 0.001
        pause = 0.4 if "very slow" in request.text else slow
        if "hostile" in request.text:
            script = ScriptedRunner(HOSTILE, HOSTILE, seconds_per_event=pause, report=report)
        else:
            script = ScriptedRunner(seconds_per_event=pause, report=report)
        return script.race(request, stop)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    path = options.folder / "demo.jsonl.gz"
    write_recording(
        path, Recording(title="a scripted race", created="2026-01-02", lanes=scripted_lanes())
    )
    broken = options.folder / "broken.jsonl.gz"
    broken.write_bytes(b"this is no recording")
    page = build_page(
        scripted_suites(ByText(), ScriptedFetcher("the disk is full", 0.1, report)),
        {"a race": path, "a broken one": broken},
    )
    page.launch(server_port=options.port, quiet=True, **launch_options())


if __name__ == "__main__":
    main()
