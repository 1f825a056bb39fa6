"""Recordings: nothing is lost on the way, and nothing broken is let in."""

from __future__ import annotations

import gzip
import json
import math
import random
import time
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from confu_demo import trace_io
from confu_demo.trace import (
    SCHEMA_VERSION,
    DraftProposed,
    DraftVerified,
    Event,
    PrefillFinished,
    RunStarted,
)
from confu_demo.trace_io import (
    CorruptTrace,
    Recording,
    check_destination,
    from_json,
    paced,
    read_recording,
    read_trace,
    to_json,
    write_recording,
    write_trace,
)
from confu_demo.trace_json import EVENT_TYPES, decode
from tests.traces import step_run, token_run

HOSTILE = (
    "${1+1}",
    "`",
    "\\frac{1}{2}",
    "\\u00",
    "<img onerror=x>",
    "한글",
    "🙂",
    "\u2028",
    "\n",
    "",
)


def random_value(hint: Any, rng: random.Random) -> Any:
    """Any value that the hint allows, hostile text and extreme numbers among them."""
    origin, args = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        values = {item.name: random_value(hints[item.name], rng) for item in fields(hint)}
        if hint is RunStarted:
            values["schema_version"] = SCHEMA_VERSION
        return hint(**values)  # type: ignore[operator]
    if origin is Literal:
        return rng.choice(args)
    if origin in (Union, UnionType):
        return random_value(rng.choice(args), rng)
    if origin is tuple and args[-1] is Ellipsis:
        return tuple(random_value(args[0], rng) for _ in range(rng.randrange(4)))
    if origin is tuple:
        return tuple(random_value(arg, rng) for arg in args)
    if hint is float:
        return rng.choice([0.0, -1.5, 1e-300, 1e300, rng.random(), 3.0])
    simple = {
        int: rng.choice([0, -1, 2**63 - 1]),
        str: rng.choice(HOSTILE),
        bool: rng.random() < 0.5,
        NoneType: None,
    }
    return simple[hint]


def random_events(seed: int, count: int) -> tuple[Event, ...]:
    rng = random.Random(seed)
    kinds = list(EVENT_TYPES.values())
    return tuple(random_value(rng.choice(kinds), rng) for _ in range(count))


def recording() -> Recording:
    lanes = {"confu": tuple(token_run()), "confspec": tuple(step_run())}
    return Recording(
        title="A race 🙂", created="2026-01-02T03:04:05+00:00", lanes=lanes, notes=("two cores",)
    )


@pytest.mark.parametrize("name", ["race.jsonl", "race.jsonl.gz"])
def test_a_recording_comes_back_as_it_was_written(tmp_path: Path, name: str):
    write_recording(tmp_path / name, recording())
    assert read_recording(tmp_path / name) == recording()


@pytest.mark.parametrize("seed", range(20))
def test_random_events_of_every_kind_come_back_equal(tmp_path: Path, seed: int):
    lanes = {"a": random_events(seed, 40), "b": random_events(seed + 1000, 3), "empty": ()}
    written = Recording(title="", created="", lanes=lanes)
    write_recording(tmp_path / "r.jsonl.gz", written)
    assert read_recording(tmp_path / "r.jsonl.gz") == written


def test_every_event_has_a_json_form_that_leads_back():
    for kind in EVENT_TYPES.values():
        event = random_value(kind, random.Random(1))
        assert from_json(json.loads(json.dumps(to_json(event)))) == event


def test_no_event_has_a_field_that_the_file_format_needs():
    for kind in EVENT_TYPES.values():
        assert not {"event", "lane"} & {item.name for item in fields(kind)}


def test_one_run_is_a_recording_of_one_lane_named_by_its_method(tmp_path: Path):
    write_trace(tmp_path / "run.jsonl", token_run())
    assert list(read_recording(tmp_path / "run.jsonl").lanes) == ["confu"]
    assert read_trace(tmp_path / "run.jsonl").events == tuple(token_run())


def test_a_race_is_not_read_as_one_run(tmp_path: Path):
    write_recording(tmp_path / "race.jsonl", recording())
    with pytest.raises(CorruptTrace, match=r"race\.jsonl: holds 2 lanes, not one run"):
        read_trace(tmp_path / "race.jsonl")


def test_the_same_recording_gives_the_same_bytes(tmp_path: Path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_recording(tmp_path / name, recording())
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "race.jsonl"
    write_recording(path, recording())
    before = path.read_bytes()

    def full_disk(self: Path, target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write_recording(path, replace(recording(), title="another"))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["race.jsonl"]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_refused_in_writing(tmp_path: Path, number: float):
    event = PrefillFinished(t_ms=number, num_tokens=1, ms=0.0)
    with pytest.raises(ValueError, match="finite numbers only"):
        write_trace(tmp_path / "run.jsonl", [event])
    assert list(tmp_path.iterdir()) == []


def test_more_than_can_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace_io, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="could not be read again"):
        write_recording(tmp_path / "race.jsonl", recording())
    assert list(tmp_path.iterdir()) == []


def test_a_destination_is_checked_before_the_run(tmp_path: Path):
    assert check_destination(tmp_path / "a.jsonl.gz") == tmp_path / "a.jsonl.gz"
    with pytest.raises(ValueError, match=r"named \*\.jsonl or \*\.jsonl\.gz, not a\.json"):
        check_destination(tmp_path / "a.json")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        check_destination(tmp_path / "nowhere" / "a.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        check_destination(tmp_path / "folder.jsonl")


def test_five_thousand_events_are_read_within_a_second(tmp_path: Path):
    events = tuple(token_run()[3:6] * 1667)
    assert len(events) > 5000
    write_recording(tmp_path / "r.jsonl.gz", Recording(title="", created="", lanes={"a": events}))
    begin = time.process_time()
    read_recording(tmp_path / "r.jsonl.gz")
    assert time.process_time() - begin < 1.0


# ---- what is refused -----------------------------------------------------------------------

HEADER = {
    "kind": "confu_demo.trace",
    "schema_version": SCHEMA_VERSION,
    "title": "t",
    "created": "",
    "lanes": [{"lane": "a", "num_events": 1}],
    "notes": [],
}
PREFILL = {"event": "PrefillFinished", "lane": "a", "t_ms": 1.0, "num_tokens": 3, "ms": 1.0}


def start(**changes: Any) -> dict[str, Any]:
    (event,) = [event for event in token_run() if isinstance(event, RunStarted)]
    return {"lane": "a", **to_json(event), **changes}


def draft(**changes: Any) -> dict[str, Any]:
    event = token_run()[3]
    assert isinstance(event, DraftProposed)
    data = to_json(event)
    return {"lane": "a", **data, "tree": {**data["tree"], **changes}}


def dropped(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in names}


EVENTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown event": ({**PREFILL, "event": "Surprise"}, "unknown event 'Surprise'"),
    "no event name": (dropped(PREFILL, "event"), "the event has no name"),
    "event name of a wrong type": ({**PREFILL, "event": ["x"]}, r"unknown event \['x'\]"),
    "missing field": (dropped(PREFILL, "ms"), "PrefillFinished has no field ms"),
    "extra field": ({**PREFILL, "more": 1}, "PrefillFinished has an unknown field 'more'"),
    "text for a number": (
        {**PREFILL, "t_ms": "1"},
        r"PrefillFinished\.t_ms must be a number, not text",
    ),
    "a boolean for a count": (
        {**PREFILL, "num_tokens": True},
        r"PrefillFinished\.num_tokens must be a whole number, not a boolean",
    ),
    "a fraction for a count": ({**PREFILL, "num_tokens": 1.0}, "must be a whole number"),
    "null for a number": ({**PREFILL, "ms": None}, r"ms must be a number, not null"),
    "infinity": ({**PREFILL, "ms": 10**400}, "ms must be a finite number"),
    "another schema": (start(schema_version=99), "schema version 99 cannot be read"),
    "a record that is text": (
        start(provenance="here"),
        r"RunStarted\.provenance must be an object, not text",
    ),
    "a pair of three": (start(config=[["a", "b", "c"]]), r"config\[0\] must be a list of 2"),
    "a wrong entry of a pair": (start(config=[["a", 1]]), r"config\[0\]\[1\] must be text"),
    "a wrong entry in a list": (
        draft(parents=[-1, 0, 0, "x"]),
        r"DraftProposed\.tree\.parents\[3\] must be a whole number, not text",
    ),
    "an object for a list": (draft(parents={}), r"tree\.parents must be a list, not an object"),
    "no lane": (dropped(PREFILL, "lane"), "the header names no lane None"),
    "another lane": ({**PREFILL, "lane": "b"}, "the header names no lane 'b'"),
    "a lane that is a list": ({**PREFILL, "lane": []}, r"the header names no lane \[\]"),
    "a wrong word": (
        {"event": "StepResolved", "lane": "a", "t_ms": 1, "step": 0, "kept": "me", "text": "",
         "other_text": None, "bonus": False},
        r"StepResolved\.kept must be one of draft, target",
    ),
}  # fmt: skip

HEADERS: dict[str, tuple[Any, str]] = {
    "another kind": ({**HEADER, "kind": "something"}, "line 1: this is no trace"),
    "no kind": ({"a": 1}, "line 1: this is no trace"),
    "a newer version": (
        {**HEADER, "schema_version": 4},
        "schema version 4 cannot be read, only 1 and 2 and 3",
    ),
    "no version": (dropped(HEADER, "schema_version"), "schema version None cannot be read"),
    "a version that is true": ({**HEADER, "schema_version": True}, "must be a whole number"),
    "a missing title": (dropped(HEADER, "title"), "line 1: header has no field title"),
    "two lanes of one name": (
        {**HEADER, "lanes": [{"lane": "a", "num_events": 0}] * 2},
        "two lanes have the same name",
    ),
    "not an object": ([1, 2], "line 1: this is not a JSON object"),
}


def write_lines(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_a_recording_of_schema_version_1_is_still_read(tmp_path: Path):
    verified = {"lane": "a", **to_json(token_run()[4])}
    older = dropped(verified, "contemplated_nodes")
    header = {**HEADER, "schema_version": 1, "lanes": [{"lane": "a", "num_events": 2}]}
    path = write_lines(tmp_path / "r.jsonl", header, start(schema_version=1), older)
    _, event = read_recording(path).lanes["a"]
    assert isinstance(event, DraftVerified)
    assert event.contemplated_nodes is None


def test_the_hand_written_lines_of_these_tests_are_sound(tmp_path: Path):
    path = write_lines(tmp_path / "r.jsonl", HEADER, PREFILL)
    assert len(read_recording(path).lanes["a"]) == 1
    for line in (start(), draft()):
        assert read_recording(write_lines(path, HEADER, line)).lanes["a"]


@pytest.mark.parametrize(("line", "reason"), EVENTS.values(), ids=EVENTS)
def test_a_wrong_event_is_refused_with_its_line_and_reason(
    tmp_path: Path, line: dict[str, Any], reason: str
):
    path = write_lines(tmp_path / "r.jsonl", HEADER, line)
    with pytest.raises(CorruptTrace, match=rf"^r\.jsonl: line 2: .*{reason}") as caught:
        read_recording(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("line", "reason"), HEADERS.values(), ids=HEADERS)
def test_a_wrong_header_is_refused(tmp_path: Path, line: Any, reason: str):
    with pytest.raises(CorruptTrace, match=reason):
        read_recording(write_lines(tmp_path / "r.jsonl", line))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_refused_in_reading(tmp_path: Path, text: str):
    path = write_lines(tmp_path / "r.jsonl", HEADER, PREFILL)
    path.write_text(path.read_text().replace('"ms": 1.0', f'"ms": {text}'))
    with pytest.raises(CorruptTrace, match=r"line 2: (this is not JSON|.*finite number)"):
        read_recording(path)


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"[" * 100_000, b"", b"1" * 5000], ids=str)
def test_a_line_that_is_not_json_is_refused(tmp_path: Path, line: bytes):
    path = write_lines(tmp_path / "r.jsonl", HEADER)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(CorruptTrace, match="line 2: this is not JSON"):
        read_recording(path)


@pytest.mark.parametrize("name", ["race.jsonl", "race.jsonl.gz"])
def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path, name: str):
    path = tmp_path / name
    write_recording(path, recording())
    data = path.read_bytes()
    ends = {int(len(data) * share / 50) for share in range(50)} | {len(data) - 1}
    ends |= {
        place + 1 for place, byte in enumerate(data[:-1]) if name == "race.jsonl" and byte == 10
    }
    for end in sorted(ends):
        path.write_bytes(data[:end])
        with pytest.raises(CorruptTrace):
            read_recording(path)


def test_a_file_that_lacks_its_last_lines_says_which_lane_is_short(tmp_path: Path):
    path = write_lines(tmp_path / "r.jsonl", HEADER)
    with pytest.raises(CorruptTrace, match="ends early: lane 'a' has 0 events, the header says 1"):
        read_recording(path)


def test_more_events_than_announced_are_refused(tmp_path: Path):
    with pytest.raises(CorruptTrace, match="lane 'a' has 2 events, the header says 1"):
        read_recording(write_lines(tmp_path / "r.jsonl", HEADER, PREFILL, PREFILL))


def test_a_flipped_byte_in_gzip_data_is_refused(tmp_path: Path):
    path = tmp_path / "race.jsonl.gz"
    write_recording(path, recording())
    data = bytearray(path.read_bytes())
    for place in range(0, len(data), max(1, len(data) // 40)):
        if 4 <= place < 10:
            continue  # the time stamp and the system, which nobody reads
        broken = bytearray(data)
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        with pytest.raises(CorruptTrace):
            read_recording(path)


def test_a_plain_file_called_gz_is_refused(tmp_path: Path):
    path = write_lines(tmp_path / "r.jsonl.gz", HEADER, PREFILL)
    with pytest.raises(CorruptTrace, match=r"r\.jsonl\.gz: this is not sound gzip data"):
        read_recording(path)


def test_another_file_name_is_refused(tmp_path: Path):
    with pytest.raises(CorruptTrace, match=r"r\.txt: a trace is named"):
        read_recording(write_lines(tmp_path / "r.txt", HEADER, PREFILL))


def test_a_missing_file_is_an_ordinary_missing_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        read_recording(tmp_path / "nothing.jsonl")


def test_an_empty_file_is_refused(tmp_path: Path):
    (tmp_path / "r.jsonl").write_bytes(b"")
    with pytest.raises(CorruptTrace, match="the file is empty"):
        read_recording(tmp_path / "r.jsonl")


def test_a_gzip_bomb_is_refused_without_being_unpacked(tmp_path: Path):
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(json.dumps(HEADER).encode() + b"\n")
        for _ in range(80):
            stream.write(b" " * 2**20)
    assert path.stat().st_size < 2**20
    with pytest.raises(CorruptTrace, match="line 2: longer than 4 MB"):
        read_recording(path)


def test_too_many_small_lines_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace_io, "MAX_BYTES", 2**20)
    path = write_lines(tmp_path / "r.jsonl", HEADER, *[PREFILL] * 20_000)
    with pytest.raises(CorruptTrace, match="more than 1 MB of data"):
        read_recording(path)


def test_a_type_that_json_cannot_hold_is_a_mistake_in_the_event_itself():
    @dataclass
    class Wrong:
        tensor: complex

    with pytest.raises(TypeError, match="a trace cannot hold"):
        decode(Wrong, {"tensor": 1})


def test_a_new_optional_field_may_be_missing_in_an_older_file():
    data = dropped(to_json(token_run()[3]), "contemplation")
    event = from_json(data)
    assert isinstance(event, DraftProposed)
    assert event.contemplation is None


# ---- pacing --------------------------------------------------------------------------------


def prefill(t_ms: float) -> PrefillFinished:
    return PrefillFinished(t_ms=t_ms, num_tokens=1, ms=0.0)


def test_lanes_are_merged_by_time_with_the_waits_between_events():
    lanes = {"a": (prefill(10.0), prefill(30.0)), "b": (prefill(5.0), prefill(30.0))}
    race = Recording(title="", created="", lanes=lanes)
    shown = [(wait, lane, event.t_ms) for wait, lane, event in paced(race, speed=2.0)]
    assert shown == [(2.5, "b", 5.0), (2.5, "a", 10.0), (10.0, "a", 30.0), (0.0, "b", 30.0)]


def test_a_lane_keeps_its_own_order_even_if_its_clock_does_not():
    lanes = {"a": (prefill(10.0), prefill(4.0), prefill(12.0)), "b": (prefill(11.0),)}
    shown = list(paced(Recording(title="", created="", lanes=lanes)))
    assert [entry.event.t_ms for entry in shown if entry.lane == "a"] == [10.0, 4.0, 12.0]
    assert [entry.wait_ms for entry in shown] == [10.0, 0.0, 1.0, 1.0]


def test_infinite_speed_does_not_wait():
    assert {entry.wait_ms for entry in paced(recording(), math.inf)} == {0.0}


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan])
def test_a_speed_that_is_not_above_zero_is_refused_at_once(speed: float):
    with pytest.raises(ValueError, match="speed must be above 0"):
        paced(recording(), speed)
