"""Where a number comes from: commit, versions, machine and command line.

Nothing that identifies a person or a machine: no host name, no user, no absolute path.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from confu_demo.trace import Provenance

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "transformers", "gradio")
COMMIT_VARIABLE = "CONFU_DEMO_COMMIT"
"""Environment variable for places that have the files but not the repository (containers)."""


def collect(device: str, dtype: str, threads: int, command: Sequence[str]) -> Provenance:
    """What has to stand beside every number of this process.

    ``device`` is "cpu", to which the processor's name is added, or an accelerator's own name;
    ``command`` is the argument list (``sys.argv``).
    """
    return Provenance(
        commit=commit(),
        device=f"cpu ({cpu_name()}, {os.cpu_count()} cores)" if device == "cpu" else device,
        dtype=dtype,
        threads=threads,
        versions=versions(),
        command=public_command(command),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def commit(root: Path = ROOT) -> str:
    """The commit of these files, ``+dirty`` if tracked ones differ from it, or ``unknown``."""
    given = os.environ.get(COMMIT_VARIABLE, "").strip()
    if given:
        return given
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return "unknown"  # no repository, or another one that merely contains these files
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    if head is None:
        return "unknown"
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{head}+dirty" if changed else head


def versions() -> tuple[tuple[str, str], ...]:
    """Python and the packages that are installed, of those that can change a number."""
    found = [("python", platform.python_version())]
    for package in PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as its system reports it, else its architecture."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(\S.*)$", text, flags=re.MULTILINE)
    if match:
        return " ".join(match.group(1).split())
    return platform.processor() or platform.machine() or "unknown processor"


def public_command(command: Sequence[str]) -> str:
    """The command line in a form that can be run again, paths outside the folder shortened."""
    if not command:
        return ""
    program, *arguments = command
    path = Path(program)
    if path.name == "__main__.py":
        start = ["python", "-m", path.resolve().parent.name]
    elif path.suffix == ".py":
        start = ["python", path.name]
    else:
        start = [path.name]
    return shlex.join([*start, *(_public(argument) for argument in arguments)])


def _public(argument: str) -> str:
    option, equals, value = argument.partition("=")
    if equals and option.startswith("-"):
        return f"{option}={_public(value)}"
    outside = re.match(r"(/|~|\.\.[/\\]|\\\\|[A-Za-z]:[/\\]|file:)", argument)
    if not outside:
        return argument
    return re.split(r"[/\\]", argument.rstrip("/\\"))[-1]


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
