from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import app
from confu_demo.ui.runner import METHODS

ROOT = Path(app.__file__).resolve().parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


def test_the_options_have_their_defaults():
    options = app.parse([])
    assert options.suite == "bundled"
    assert options.host is None
    assert options.port is None
    assert options.share is False


def test_an_unknown_suite_is_one_clear_line():
    done = run("app.py", "--suite", "nonsense")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("app.py: unknown suite 'nonsense'")


def test_without_torch_the_page_still_builds_and_says_what_is_missing():
    code = (
        "import sys; sys.modules['torch'] = None; import app\n"
        "suites = app.make_suites(app.parse([]))\n"
        "app.build_page(suites, app.recordings())\n"
        "methods = suites[0].runner.methods()\n"
        "print([(method, why) for method, available, why in methods if not available])"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([(method, "torch is not installed") for method in METHODS])


def test_recordings_are_named_by_their_files(monkeypatch, tmp_path: Path):
    for name in ("2_second_race.jsonl.gz", "1_first.jsonl.gz", "notes.txt"):
        (tmp_path / name).touch()
    monkeypatch.setattr(app, "RECORDINGS", tmp_path)
    assert list(app.recordings()) == ["1 first", "2 second race"]
