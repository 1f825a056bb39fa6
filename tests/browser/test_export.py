"""Exported pages open from disk, show what was recorded, and load nothing from anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from confu_demo.__main__ import main
from confu_demo.export import RECORDINGS
from confu_demo.recording import Recording
from confu_demo.trace_io import write_recording
from tests.browser.conftest import PHONE, NewVisit, Visit
from tests.browser.hostile import HOSTILE
from tests.ui.scripted_lanes import scripted_lanes

pytestmark = pytest.mark.browser


def opened(visit: NewVisit, path: Path, **context: object) -> Visit:
    found = visit(**context)
    found.page.goto(path.as_uri())
    found.wait_for("viewer.timeline.complete")
    assert found.outside == [path.as_uri()]  # the page itself, and nothing else
    found.outside.clear()
    return found


def test_a_recording_becomes_one_page_that_opens_from_disk(visit: NewVisit, tmp_path: Path):
    (source, *_) = sorted(RECORDINGS.glob("*.jsonl.gz"))
    page = tmp_path / "race.html"
    assert main(["export", str(source), "--html", str(page)]) == 0
    assert list(tmp_path.iterdir()) == [page]
    found = opened(visit, page)
    found.act("end")
    assert found.viewer("viewer.timeline.logs.length") == 5
    assert found.viewer("viewer.race.expected") is not None
    assert "right" in found.page.locator("#viewer").inner_text()
    for tab in ("tokens", "steps", "race"):
        found.open_tab(tab)
    found.page.get_by_role("button", name="한국어").click()
    found.settle()
    assert found.page.evaluate("document.documentElement.lang") == "ko"
    assert found.page.locator(".cf-recordings").count() == 0


def test_a_static_site_lists_the_bundled_recordings(visit: NewVisit, tmp_path: Path):
    folder = tmp_path / "site"
    assert main(["export", "--static", str(folder), "--language", "ko"]) == 0
    assert {path.name for path in folder.iterdir()} == {"index.html", "README.md"}
    front = (folder / "README.md").read_text(encoding="utf-8")
    assert "sdk: static" in front
    assert "app_file: index.html" in front
    found = opened(visit, folder / "index.html")
    assert found.page.evaluate("document.documentElement.lang") == "ko"
    choice = found.page.locator(".cf-recordings")
    names = choice.locator("option").all_inner_texts()
    assert len(names) == len(list(RECORDINGS.glob("*.jsonl.gz")))
    first = found.viewer("viewer.race.title")
    choice.select_option(names[-1])
    found.settle()
    assert found.viewer("viewer.race.title") != first
    assert choice.input_value() == str(len(names) - 1)


def test_a_static_site_fits_a_phone(visit: NewVisit, tmp_path: Path):
    assert main(["export", "--static", str(tmp_path)]) == 0
    found = opened(visit, tmp_path / "index.html", viewport=PHONE)
    assert found.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for button in found.page.locator("#head button, #head select").all():
        box = button.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
        assert box["height"] < 40


def test_a_hostile_recording_is_shown_and_does_nothing(visit: NewVisit, tmp_path: Path):
    lanes = scripted_lanes("\n".join(HOSTILE), HOSTILE, HOSTILE)
    path = tmp_path / "x.jsonl"
    title = "</script><img src=x onerror=alert(1)>"
    write_recording(path, Recording(title=title, created="", lanes=lanes))
    page = tmp_path / "x.html"
    assert main(["export", str(path), "--html", str(page)]) == 0
    found = opened(visit, page)
    found.act("end")
    assert found.page.evaluate("window.pwned") is None
    assert found.page.locator("main img, main script").count() == 0
    blocked = found.page.evaluate("fetch('http://127.0.0.1:9/').then(() => false, () => true)")
    assert blocked
    found.errors.clear()  # the page's own policy refused that request, as it should


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name one of --html FILE and --static DIR"),
        (["--html", "a.html"], "name a recording"),
        (["missing.jsonl", "--html", "a.html"], "missing.jsonl"),
        (["--static", "x", "--html", "a.html"], "name one of"),
        (["--static", "x", "--language", "fr"], "unknown language 'fr'"),
    ],
)
def test_what_cannot_be_exported_is_one_clear_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    assert main(["export", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()


def test_a_recording_that_breaks_a_promise_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "broken.jsonl"
    lanes = {"autoregressive": scripted_lanes()["autoregressive"]}
    write_recording(path, Recording(title="x", created="", lanes=lanes))
    lines = path.read_text(encoding="utf-8").splitlines()
    last = json.loads(lines[-1])
    last["num_tokens"] += 1
    path.write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n", encoding="utf-8")
    assert main(["export", str(path), "--html", str(tmp_path / "a.html")]) == 2
    assert "breaks a promise" in capsys.readouterr().err
