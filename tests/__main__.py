"""``python -m tests [pytest arguments]``: style, format, types and tests, all of them.

Runs every check even if an earlier one failed, says how long each took, and exits with status 1
if any failed. Arguments go to pytest (``python -m tests -m "not slow and not browser"``).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = [sys.executable, "-m"]


def checks(pytest_arguments: list[str]) -> list[list[str]]:
    """The commands, pytest last so that its closing line is easy to find."""
    top_level = sorted(path.name for path in ROOT.glob("*.py"))
    return [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy", "confu_demo", "tests", *top_level],
        ["pytest", *pytest_arguments],
    ]


def main(pytest_arguments: list[str]) -> int:
    environment = dict(os.environ)
    # Tiny tensors: more threads than this only wait for one another.
    environment.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
    rows: list[str] = []
    failed = False
    for command in checks(pytest_arguments):
        shown = shlex.join(["python", "-m", *command])
        print(f"\n$ {shown}", flush=True)
        begin = time.monotonic()
        status = subprocess.run([*PYTHON, *command], cwd=ROOT, env=environment).returncode
        seconds = time.monotonic() - begin
        failed |= status != 0
        rows.append(f"{'ok' if status == 0 else f'exit {status}':>8}  {seconds:7.1f} s  {shown}")
    print("\n" + "\n".join(rows), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
