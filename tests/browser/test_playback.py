"""Playing, stepping and scrubbing are functions of the position, whatever way led there."""

from __future__ import annotations

import random

import pytest

from tests.browser.conftest import NewVisit, Visit
from tests.browser.viewer_page import lanes_as_json, load, mount, recording

pytestmark = pytest.mark.browser

PICTURE = """[viewer.playback.position, viewer.playback.t, viewer.root.innerText,
  [...viewer.root.querySelectorAll('.cf-tree, .cf-strip-box')]
    .map((box) => box.innerHTML).join()]"""


@pytest.fixture
def opened(visit: NewVisit) -> Visit:
    found = visit(reduced_motion="no-preference")
    mount(found.page)
    load(found.page, recording())
    found.settle()
    return found


@pytest.mark.parametrize("tab", ["race", "tokens", "steps"])
def test_the_same_position_looks_the_same_whichever_way_it_was_reached(opened: Visit, tab: str):
    opened.open_tab(tab)
    count = opened.viewer("viewer.timeline.entries.length")
    places = sorted(random.Random(0).sample(range(1, count), 6))
    forward = []
    for place in places:
        opened.act("start")
        opened.act("mode", "event")
        opened.act("scrub", place)
        forward.append(opened.viewer(PICTURE))
    opened.act("end")
    for place, picture in zip(reversed(places), reversed(forward), strict=True):
        opened.act("scrub", place)
        assert opened.viewer(PICTURE) == picture
    opened.act("start")
    for _ in range(places[0]):
        opened.act("forward")
    assert opened.viewer(PICTURE) == forward[0]


def test_a_step_forward_and_a_step_back_cancel_out(opened: Visit):
    opened.act("scrub", 100)
    for _ in range(3):
        before = opened.viewer(PICTURE)
        opened.act("forward")
        assert opened.viewer("viewer.playback.position") == before[0] + 1
        opened.act("back")
        assert opened.viewer("viewer.playback.position") == before[0]
        opened.act("forward")


def test_playing_advances_the_clock_by_speed_times_time(opened: Visit):
    moved = opened.viewer(
        "(() => { const p = viewer.playback; p.goTo(0); p.playing = true; p.speed = 0.25;"
        " p.advance(400); const slow = p.t; p.speed = 2; p.advance(30); return [slow, p.t]; })()"
    )
    assert moved == [100, 160]


def test_event_by_event_gives_every_event_the_same_time(opened: Visit):
    positions = opened.viewer(
        "(() => { const p = viewer.playback; p.goTo(0); p.mode = 'event'; p.speed = 1;"
        " p.play(); const seen = []; for (let i = 0; i < 8; i += 1) { p.advance(250);"
        " seen.push(p.position); } return seen; })()"
    )
    assert positions == [2, 4, 6, 8, 10, 12, 14, 16]


def test_a_cycle_step_stops_where_the_selected_lane_committed(opened: Visit):
    opened.act("lane", "confu")
    opened.act("start")
    counts = []
    for _ in range(4):
        opened.act("forward_cycle")
        counts.append(
            opened.viewer("viewer.timeline.log('confu').events[viewer.cursor.count(3) - 1].event")
        )
    assert counts == ["TokensCommitted"] * 4
    assert opened.viewer("Confu.makeFrame(viewer).lanes[3].numbers.numCycles") == 4
    opened.act("back_cycle")
    assert opened.viewer("Confu.makeFrame(viewer).lanes[3].numbers.numCycles") == 3


def test_play_reaches_the_end_by_itself_and_plays_again_from_the_start(opened: Visit):
    opened.act("speed", 4)
    opened.page.get_by_role("button", name="Play (space)").click()
    opened.wait_for("viewer.playback.atEnd && !viewer.playback.playing")
    opened.page.locator(".cf-summary", has_text="fastest").wait_for()
    opened.act("speed", 0.05)
    opened.act("play")
    assert opened.viewer("viewer.playback.playing && viewer.playback.t < 300")
    opened.page.get_by_role("button", name="Pause (space)").click()
    opened.settle()
    stopped = opened.viewer("viewer.playback.t")
    opened.page.wait_for_timeout(150)
    assert opened.viewer("viewer.playback.t") == stopped


def test_the_keyboard_plays_steps_and_stays_out_of_typing(opened: Visit):
    page = opened.page
    page.keyboard.press("End")
    opened.settle()
    assert opened.viewer("viewer.playback.atEnd")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    opened.settle()
    assert opened.viewer("viewer.timeline.entries.length - viewer.playback.position") == 2
    page.keyboard.press("2")
    opened.settle()
    assert opened.viewer("viewer.selection.lane") == "prompt_lookup"
    before = opened.viewer("viewer.playback.position")
    page.evaluate("document.querySelector('main').append(document.createElement('textarea'))")
    page.locator("textarea").press("ArrowLeft")
    page.locator("textarea").press(" ")
    page.evaluate(  # a key that is still composing a syllable
        "document.body.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'ArrowLeft', bubbles: true, isComposing: true}))"
    )
    opened.settle()
    assert opened.viewer("[viewer.playback.position, viewer.playback.playing]") == [before, False]


def test_with_reduced_motion_a_recording_opens_at_its_end(visit: NewVisit):
    found = visit(reduced_motion="reduce")
    mount(found.page)
    load(found.page, recording(), autoplay=True)
    found.settle()
    assert found.viewer("viewer.playback.atEnd && !viewer.playback.playing")


def test_a_recording_starts_to_move_by_itself(visit: NewVisit):
    found = visit(reduced_motion="no-preference")
    mount(found.page)
    load(found.page, recording(), autoplay=True)
    found.wait_for("viewer.cursor.position > 20")


@pytest.mark.parametrize("tab", ["race", "tokens", "steps"])
def test_a_long_race_is_drawn_within_a_frame_or_two(visit: NewVisit, tab: str):
    """2,000 tokens a lane. Median over positions, generous because the machine may be busy."""
    found = visit()
    mount(found.page)
    lanes = lanes_as_json()
    for name in ("autoregressive", "confu"):
        lanes[name] = repeated(lanes[name], 2000)
    load(found.page, recording(lanes))
    found.settle()
    found.open_tab(tab)
    found.act("start")
    times = found.viewer(
        "(() => { const end = viewer.timeline.end, times = []; for (let i = 1; i <= 60; i += 1) {"
        " viewer.playback.seek((end * i) / 60); const since = performance.now(); viewer.draw();"
        " times.push(performance.now() - since); } return times.sort((a, b) => a - b); })()"
    )
    assert found.viewer("viewer.timeline.longest") >= 2000
    assert times[30] < 120, f"median {times[30]:.0f} ms, slowest {times[-1]:.0f} ms"


def repeated(events: list[dict[str, object]], num_tokens: int) -> list[dict[str, object]]:
    """The body of a lane again and again, later and with later cycles, until it is long."""
    first, prefill, *body, last = events
    made = [first, prefill]
    count = round_number = 0
    length = float(str(last["t_ms"]))
    cycles = 1 + max((int(str(e["cycle"])) for e in body if e.get("cycle") is not None), default=0)
    while count < num_tokens:
        for event in body:
            copy = dict(event, t_ms=float(str(event["t_ms"])) + round_number * length)
            if copy.get("cycle") is not None:
                copy["cycle"] = int(str(copy["cycle"])) + round_number * cycles
            if copy["event"] == "TokensCommitted":
                count += len(copy["token_ids"])  # type: ignore[arg-type]
            made.append(copy)
        round_number += 1
    return [*made, dict(last, t_ms=length * round_number)]
