"""Batches of a live race: repeated, dropped and reordered ones end in the same race."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.browser.conftest import NewVisit, Visit
from tests.browser.viewer_page import lanes_as_json, mount
from tests.ui.scripted_lanes import PROBLEM

pytestmark = pytest.mark.browser

TEXTS = "viewer.timeline.logs.map((log) => log.textAt(log.events.length))"
STUB = """fetchMissing: async (run, from) => {
  asked.push(from);
  return kept.filter((batch) => batch.run === run && batch.seq >= from);
}"""


def batches(run: str = "a", size: int = 20) -> list[dict[str, Any]]:
    """A race as the scheduler sends it: the lane furthest behind goes first."""
    lanes = lanes_as_json()
    pairs: list[list[Any]] = [[name, event] for name, events in lanes.items() for event in events]
    pairs.sort(key=lambda pair: pair[1]["t_ms"])  # stable: a lane's own order stays
    meta = {"prompt": PROBLEM.text, "expected": "34", "lanes": list(lanes)}
    made: list[dict[str, Any]] = [{"run": run, "seq": 0, "meta": meta, "events": [], "done": False}]
    for place in range(0, len(pairs), size):
        made.append(
            {"run": run, "seq": len(made), "events": pairs[place : place + size], "done": False}
        )
    made[-1]["done"] = True
    return made


def open_live(visit: NewVisit, kept: list[dict[str, Any]]) -> Visit:
    found = visit()
    found.page.evaluate("(kept) => { window.kept = kept; window.asked = []; }", kept)
    mount(found.page, options=STUB)
    # set_content made a new document: say it again
    found.page.evaluate("(kept) => { window.kept = kept; window.asked = []; }", kept)
    return found


def push(found: Visit, sent: list[dict[str, Any]]) -> None:
    found.page.evaluate("(sent) => { for (const batch of sent) viewer.push(batch); }", sent)


def whole(found: Visit) -> list[str]:
    found.wait_for("viewer.timeline.complete")
    return found.viewer(TEXTS)


def expected_texts() -> list[str]:
    return [
        "".join("".join(e["texts"]) for e in events if e["event"] == "TokensCommitted")
        for events in lanes_as_json().values()
    ]


def test_batches_in_order_make_the_race_without_asking(visit: NewVisit):
    sent = batches()
    found = open_live(visit, sent)
    push(found, sent)
    assert whole(found) == expected_texts()
    assert found.viewer("asked") == []
    assert found.viewer("viewer.race.source") == "live"


def test_repeated_batches_count_once(visit: NewVisit):
    sent = batches()
    found = open_live(visit, sent)
    push(found, [copy for batch in sent for copy in (batch, batch)] + sent)
    assert whole(found) == expected_texts()


@pytest.mark.parametrize("seed", range(3))
def test_dropped_and_reordered_batches_are_asked_for(visit: NewVisit, seed: int):
    sent = batches()
    rng = random.Random(seed)
    seen = [batch for batch in sent[:-1] if rng.random() < 0.4] + [sent[-1]]
    rng.shuffle(seen)
    found = open_live(visit, sent)
    push(found, seen)
    assert whole(found) == expected_texts()
    assert len(found.viewer("asked")) > 0


def test_a_race_whose_beginning_was_lost_is_still_complete(visit: NewVisit):
    sent = batches()
    found = open_live(visit, sent)
    push(found, sent[-1:])
    assert whole(found) == expected_texts()
    assert found.viewer("viewer.race.expected") == "34"


def test_an_end_that_never_came_is_asked_for_after_a_silence(visit: NewVisit):
    sent = batches()
    found = open_live(visit, sent)
    push(found, sent[:3])
    assert whole(found) == expected_texts()


def test_a_new_race_ends_the_old_one_and_late_batches_of_it_are_dropped(visit: NewVisit):
    old, new = batches("old"), batches("new")
    found = open_live(visit, old + new)
    push(found, old[:5] + new[:4] + old[5:] + new[4:])
    assert whole(found) == expected_texts()
    assert found.viewer("viewer.timeline.entries.length") == sum(map(len, lanes_as_json().values()))


@pytest.mark.parametrize("seed", range(3))
def test_following_live_never_shows_an_order_that_later_events_change(visit: NewVisit, seed: int):
    """After every batch the playhead goes as far as it may; the end must be as if replayed."""
    sent = batches(size=1 + 3 * seed)
    found = open_live(visit, sent)
    order_kept = found.page.evaluate(
        """(sent) => {
          for (const batch of sent) {
            viewer.push(batch);
            const shown = viewer.timeline.entries.slice(0, viewer.playback.limit);
            if (window.before && window.before.some((entry, i) => shown[i] !== entry)) return false;
            window.before = shown;
            viewer.playback.goTo(viewer.playback.limit);
            viewer.draw();
          }
          return true;
        }""",
        sent,
    )
    assert order_kept
    assert whole(found) == expected_texts()
    live = found.viewer("viewer.root.querySelector('.cf-outputs').innerText")
    found.act("start")
    found.act("end")
    assert found.viewer("viewer.root.querySelector('.cf-outputs').innerText") == live


def test_a_lane_that_has_not_begun_holds_the_playhead_at_the_start(visit: NewVisit):
    sent = batches()
    found = open_live(visit, sent)
    half = [dict(b, events=[p for p in b["events"] if p[0] != "confspec"]) for b in sent[:6]]
    push(found, half)
    found.act("follow")
    found.page.wait_for_timeout(100)
    assert found.viewer("viewer.playback.t") == 0
    assert found.viewer("viewer.timeline.end") > 0
