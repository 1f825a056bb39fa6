"""The cache folder may be missing, damaged or closed: nobody but the clock notices."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from confu_demo.engine.user_cache import FOLDER_VARIABLE, cache_folder, recall, remember

KEY = {"device": "cpu", "threads": "1"}
VALUE = {"points": [[1, 2.5], [4, 3.0]]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_what_is_remembered_is_recalled_by_the_same_kind_and_key_only():
    assert recall("costs", KEY) is None
    assert remember("costs", KEY, VALUE)
    assert recall("costs", dict(reversed(KEY.items()))) == VALUE
    assert recall("other", KEY) is None
    assert recall("costs", {**KEY, "threads": "2"}) is None


def test_a_newer_value_replaces_the_older_one_and_leaves_no_other_file(folder: Path):
    assert remember("costs", KEY, 1)
    assert remember("costs", KEY, 2)
    assert recall("costs", KEY) == 2
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"\xff\xfe\x00",
        b"[1, 2]",
        b"null",
        b'{"value": 3}',
        b'{"key": {"device": "another"}, "value": 3}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_or_foreign_file_counts_as_none(folder: Path, content: bytes):
    remember("costs", KEY, VALUE)
    (file,) = folder.iterdir()
    file.write_bytes(content)
    assert recall("costs", KEY) is None
    assert remember("costs", KEY, VALUE)
    assert recall("costs", KEY) == VALUE


def test_a_folder_that_cannot_be_made_costs_nothing_but_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "file" / "below"))
    assert not remember("costs", KEY, VALUE)
    assert recall("costs", KEY) is None


def test_a_folder_in_place_of_the_file_is_no_error(folder: Path):
    remember("costs", KEY, VALUE)
    (file,) = folder.iterdir()
    file.unlink()
    file.mkdir()
    assert recall("costs", KEY) is None
    assert not remember("costs", KEY, VALUE)
    assert [path.name for path in folder.iterdir()] == [file.name]  # no half-written file stays


def test_the_file_says_what_it_belongs_to(folder: Path):
    remember("costs", KEY, VALUE)
    (file,) = folder.iterdir()
    assert json.loads(file.read_text(encoding="utf-8")) == {"key": KEY, "value": VALUE}


def test_without_the_variable_the_folder_is_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "confu_demo"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "confu_demo"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "confu_demo"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache_folder() == tmp_path / "confu_demo"


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch):
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setattr(Path, "home", no_home)
    assert cache_folder() is None
    assert recall("costs", KEY) is None
    assert not remember("costs", KEY, VALUE)
    assert FOLDER_VARIABLE not in os.environ
