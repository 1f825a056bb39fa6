"""Provenance says where a number comes from, and nothing about who or which machine."""

from __future__ import annotations

import getpass
import socket
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from confu_demo import provenance
from confu_demo.provenance import COMMIT_VARIABLE, collect, commit, cpu_name, public_command


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    root = tmp_path / "repository"
    (root / "inner").mkdir(parents=True)
    (root / "file").write_text("one")
    git(root, "init", "--quiet")
    git(root, "add", "file")
    git(root, "commit", "--quiet", "-m", "first")
    return root


def test_the_commit_is_that_of_the_repository(repository: Path):
    assert commit(repository) == git(repository, "rev-parse", "--short=12", "HEAD")


def test_a_changed_tracked_file_is_marked_and_an_untracked_one_is_not(repository: Path):
    clean = commit(repository)
    (repository / "new").write_text("")
    assert commit(repository) == clean
    (repository / "file").write_text("two")
    assert commit(repository) == f"{clean}+dirty"


def test_a_repository_around_the_files_is_not_theirs(repository: Path):
    assert commit(repository / "inner") == "unknown"


def test_without_a_repository_or_without_git_the_commit_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert commit(tmp_path) == "unknown"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit(tmp_path) == "unknown"


def test_a_repository_without_a_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    git(tmp_path, "init", "--quiet")
    assert commit(tmp_path) == "unknown"


def test_the_environment_names_the_commit_where_there_is_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(COMMIT_VARIABLE, " abc123 ")
    assert commit(tmp_path) == "abc123"


def test_collect_fills_every_field(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(COMMIT_VARIABLE, "abc123")
    found = collect("cpu", "float32", 2, ["app.py"])
    assert found.commit == "abc123"
    assert found.device.startswith(f"cpu ({cpu_name()}, ")
    assert (found.dtype, found.threads, found.command) == ("float32", 2, "python app.py")
    created = datetime.fromisoformat(found.created)
    assert created.utcoffset() == timedelta(0)


def test_an_accelerator_keeps_its_own_name():
    assert collect("NVIDIA H200", "bfloat16", 1, []).device == "NVIDIA H200"


def test_packages_that_are_not_installed_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(provenance, "PACKAGES", ("pytest", "no-such-package-anywhere"))
    assert [name for name, _ in provenance.versions()] == ["python", "pytest"]


def test_nothing_private_is_in_it(tmp_path: Path):
    found = repr(collect("cpu", "float32", 2, [str(tmp_path / "app.py"), str(tmp_path / "x.json")]))
    assert str(tmp_path) not in found
    assert str(Path.home()) not in found
    assert socket.gethostname() not in found.replace("unknown", "") or len(socket.gethostname()) < 4
    assert f"/{getpass.getuser()}/" not in found


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ([], ""),
        (["/home/me/confu_demo/__main__.py", "race"], "python -m confu_demo race"),
        (["/home/me/project/app.py"], "python app.py"),
        (["/usr/bin/pytest", "-q"], "pytest -q"),
        (["a.py", "--json", "/home/me/out/r.json"], "python a.py --json r.json"),
        (["a.py", "--json=/home/me/out/r.json"], "python a.py --json=r.json"),
        (["a.py", "--json=~/r.json", "../../me/x"], "python a.py --json=r.json x"),
        (["a.py", "C:\\Users\\me\\r.json"], "python a.py r.json"),
        (["a.py", "runs/r.json"], "python a.py runs/r.json"),
        (["a.py", "--prompt", "What is 3/4 = 6/8?"], "python a.py --prompt 'What is 3/4 = 6/8?'"),
        (["a.py", "/home/me/out/"], "python a.py out"),
    ],
)
def test_paths_outside_the_folder_are_shortened(command: list[str], shown: str):
    assert public_command(command) == shown


def test_the_processor_has_a_name_with_or_without_proc(tmp_path: Path):
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some  CPU @ 2 GHz\nflags: x\n")
    assert cpu_name(info) == "Some CPU @ 2 GHz"
    assert cpu_name(tmp_path / "nothing") != ""
    info.write_text("processor\t: 0\n")
    assert cpu_name(info) == cpu_name(tmp_path / "nothing")
