"""Recordings as JSON Lines files of events, gzipped or plain.

The first line is a header, ``{"kind": "confu_demo.trace", "schema_version": 3, "title": ...,
"created": ..., "lanes": [{"lane": "eagle3", "num_events": 57}, ...], "notes": [...]}``; every
other line is one event with its ``lane``, all lanes merged by time. Writing is atomic. Reading
is strict and bounded, because a recording may come from a stranger: what is not exactly such a
file is a :class:`CorruptTrace` with one sentence that names the line and the reason.

The JSON form of one event is owned by :mod:`confu_demo.trace_json`, a recording and its pacing
by :mod:`confu_demo.recording`; their public names can be imported from here.
"""

from __future__ import annotations

import gzip
import json
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

from confu_demo.recording import PacedEvent, Recording, merged, paced
from confu_demo.trace import READABLE_VERSIONS, SCHEMA_VERSION, Event, RunStarted
from confu_demo.trace_json import WrongShape, decode, encode, from_json, to_json

__all__ = [
    "CorruptTrace",
    "PacedEvent",
    "Recording",
    "Trace",
    "check_destination",
    "from_json",
    "paced",
    "read_recording",
    "read_trace",
    "to_json",
    "write_recording",
    "write_trace",
]

KIND: Literal["confu_demo.trace"] = "confu_demo.trace"
MAX_BYTES = 64 * 2**20
"""The largest recording that is read, decompressed. A race of four lanes is about 1 MB."""
MAX_LINE_BYTES = 4 * 2**20
"""The longest line: bounds the memory of one event before its shape is checked."""


class CorruptTrace(ValueError):
    """A file that is not a recording; the message is one sentence with the line and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The events of one run."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    lane: str
    num_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    kind: Literal["confu_demo.trace"]
    schema_version: int
    title: str
    created: str
    lanes: tuple[_Lane, ...]
    notes: tuple[str, ...] = ()


def check_destination(path: str | Path) -> Path:
    """``path``, if a recording can be written there; to be called before a long run.

    Raises ``ValueError`` for a name that ends in neither .jsonl nor .jsonl.gz and
    ``FileNotFoundError`` for a folder that is not there.
    """
    path = Path(path)
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise ValueError(f"a trace is named *.jsonl or *.jsonl.gz, not {path.name}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file name for a trace")
    return path


def write_recording(path: str | Path, recording: Recording) -> None:
    """Writes all or nothing: a temporary file beside ``path`` that takes its name at the end.

    The same recording gives the same bytes. Raises as :func:`check_destination`, and
    ``ValueError`` for a number that is not finite and for more data than can be read again.
    """
    path = check_destination(path)
    header = _Header(
        kind=KIND,
        schema_version=SCHEMA_VERSION,
        title=recording.title,
        created=recording.created,
        lanes=tuple(
            _Lane(lane=lane, num_events=len(events)) for lane, events in recording.lanes.items()
        ),
        notes=recording.notes,
    )
    lines = [encode(header)]
    lines += [{"lane": lane, **to_json(event)} for _, lane, event in merged(recording)]
    text = "".join(
        json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in lines
    )
    data = text.encode("ascii")
    if len(data) > MAX_BYTES:
        raise ValueError(f"a recording of more than {MAX_BYTES >> 20} MB could not be read again")
    if path.name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_trace(path: str | Path, events: Iterable[Event]) -> None:
    """Writes one run as a recording of one lane, named and dated by its ``RunStarted``."""
    events = tuple(events)
    first = events[0] if events else None
    lane = first.method if isinstance(first, RunStarted) else "run"
    provenance = first.provenance if isinstance(first, RunStarted) else None
    created = provenance.created if provenance else ""
    write_recording(path, Recording(title=lane, created=created, lanes={lane: events}))


def read_recording(path: str | Path) -> Recording:
    """The recording in ``path``. Raises :class:`CorruptTrace`, or ``OSError`` as ``open`` does."""
    path = Path(path)
    with _reporting(path):
        lines = _lines(path)
        header = _read_header(next(lines, None))
        lanes: dict[str, list[Event]] = {entry.lane: [] for entry in header.lanes}
        for number, line in lines:
            lane, event = _read_event(number, line, lanes)
            lanes[lane].append(event)
        for entry in header.lanes:
            found = len(lanes[entry.lane])
            ends_early = "the file ends early: " if found < entry.num_events else ""
            if found != entry.num_events:
                raise CorruptTrace(
                    f"{ends_early}lane {entry.lane!r:.60} has {found} events, "
                    f"the header says {entry.num_events}"
                )
    return Recording(
        title=header.title,
        created=header.created,
        lanes={lane: tuple(events) for lane, events in lanes.items()},
        notes=header.notes,
    )


def read_trace(path: str | Path) -> Trace:
    """The only run in ``path``. Raises as :func:`read_recording`, also when there are several."""
    lanes = read_recording(path).lanes
    if len(lanes) != 1:
        raise CorruptTrace(f"{Path(path).name}: holds {len(lanes)} lanes, not one run")
    (events,) = lanes.values()
    return Trace(events=events)


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """Every way in which a file can be broken, as one sentence that begins with its name."""
    try:
        yield
    except CorruptTrace as error:
        raise CorruptTrace(f"{path.name}: {error}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        truncated = isinstance(error, EOFError)
        reason = "the gzip data ends early" if truncated else "this is not sound gzip data"
        raise CorruptTrace(f"{path.name}: {reason}") from None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without their line ends, never more than the limits in memory."""
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise CorruptTrace("a trace is named *.jsonl or *.jsonl.gz")
    total, number = 0, 0
    with path.open("rb") as raw:
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            total += len(line)
            if total > MAX_BYTES:
                raise CorruptTrace(f"line {number}: more than {MAX_BYTES >> 20} MB of data")
            if len(line) > MAX_LINE_BYTES:
                raise CorruptTrace(f"line {number}: longer than {MAX_LINE_BYTES >> 20} MB")
            if not line.endswith(b"\n"):
                raise CorruptTrace(f"line {number}: the file ends in the middle of a line")
            yield number, line


def _read_header(first: tuple[int, bytes] | None) -> _Header:
    if first is None:
        raise CorruptTrace("the file is empty")
    data = _object(*first)
    if data.get("kind") != KIND:
        raise CorruptTrace(f"line 1: this is no trace, its kind is not {KIND!r}")
    version = data.get("schema_version")
    if version not in READABLE_VERSIONS:
        raise CorruptTrace(
            f"line 1: schema version {version!r:.20} cannot be read, only "
            f"{' and '.join(map(str, READABLE_VERSIONS))}"
        )
    try:
        header = decode(_Header, data)
    except WrongShape as error:
        raise CorruptTrace(f"line 1: {error.under('header')}") from None
    names = [entry.lane for entry in header.lanes]
    if len(set(names)) != len(names):
        raise CorruptTrace("line 1: two lanes have the same name")
    return header


def _read_event(number: int, line: bytes, lanes: Collection[str]) -> tuple[str, Event]:
    data = _object(number, line)
    lane = data.pop("lane", None)
    if not isinstance(lane, str) or lane not in lanes:
        raise CorruptTrace(f"line {number}: the header names no lane {lane!r:.60}")
    try:
        event = from_json(data)
    except WrongShape as error:
        raise CorruptTrace(f"line {number}: {error}") from None
    if isinstance(event, RunStarted) and event.schema_version not in READABLE_VERSIONS:
        raise CorruptTrace(f"line {number}: schema version {event.schema_version} cannot be read")
    return lane, event


def _object(number: int, line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise CorruptTrace(f"line {number}: this is not JSON") from None
    if not isinstance(data, dict):
        raise CorruptTrace(f"line {number}: this is not a JSON object")
    return data


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
