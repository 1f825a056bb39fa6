from __future__ import annotations

from pathlib import Path

from confu_demo.trace_io import Recording, write_recording
from confu_demo.ui.recordings import RecordingShelf
from tests.ui.scripted_lanes import PROBLEM, scripted_lanes


def write(path: Path, prompt: str = PROBLEM.text) -> Path:
    lanes = scripted_lanes(prompt)
    recording = Recording(title="a race", created="2026-01-02T03:04:05Z", lanes=lanes)
    write_recording(path, recording)
    return path


def test_a_recording_opens_with_all_its_lanes_and_its_answer(tmp_path: Path):
    shelf = RecordingShelf({"one": write(tmp_path / "one.jsonl.gz")}, [PROBLEM])
    opened = shelf.open("one")
    assert opened["source"] == "recording"
    assert opened["title"] == "a race"
    assert opened["created"] == "2026-01-02T03:04:05Z"
    assert opened["prompt"] == PROBLEM.text
    assert opened["expected"] == PROBLEM.answer
    assert {lane: len(events) for lane, events in opened["lanes"].items()} == {
        lane: len(events) for lane, events in scripted_lanes().items()
    }


def test_the_answer_is_found_inside_a_question_format(tmp_path: Path):
    path = write(tmp_path / "one.jsonl.gz", f"Problem: {PROBLEM.text}\n\n")
    assert RecordingShelf({"one": path}, [PROBLEM]).open("one")["expected"] == PROBLEM.answer


def test_a_prompt_that_is_no_gallery_problem_has_no_expected_answer(tmp_path: Path):
    path = write(tmp_path / "one.jsonl.gz", "Something else?")
    opened = RecordingShelf({"one": path}, [PROBLEM]).open("one")
    assert opened["expected"] is None
    assert opened["prompt"] == "Something else?"


def test_a_broken_missing_or_unknown_recording_is_one_sentence(tmp_path: Path):
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(b"nonsense")
    shelf = RecordingShelf({"broken": broken, "gone": tmp_path / "gone.jsonl.gz"}, [])
    assert "broken.jsonl.gz" in shelf.open("broken")["error"]
    assert "gone.jsonl.gz" in shelf.open("gone")["error"]
    assert "no recording 'other'" in shelf.open("other")["error"]
