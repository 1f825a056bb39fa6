"""Under every drafting lane: what shape its trees have, and by which costs the machine chose."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import NewVisit, Visit
from tests.browser.viewer_page import Lanes, lanes_as_json, load, mount, recording

pytestmark = pytest.mark.browser

COSTS = {
    "verify": [[1, 2.34], [8, 3.0], [24, 6.0]],
    "draft_ms": 0.91,
    "level": [[1, 0.52], [2, 0.6]],
}
FIXED = {"tree.mode": "fixed", "tree.num_nodes": "16", "tree.depth": "7", "tree.top_k": "2"}
AUTO = {**FIXED, "tree.mode": "auto", "tree.num_nodes": "64"}


def lanes(settings: dict[str, str], costs: dict[str, Any] | None = None) -> Lanes:
    """The scripted lanes with these settings added, and costs."""
    found = lanes_as_json()
    for events in found.values():
        events[0]["config"] += [list(pair) for pair in settings.items()]
        events[0]["costs"] = costs
    return found


def shown(visit: NewVisit, race: Lanes, language: str = "en") -> tuple[Visit, dict[str, str]]:
    found = visit()
    mount(found.page, language)
    load(found.page, recording(race))
    found.act("end")
    cards = found.page.locator(".cf-output")
    return found, {
        str(card.get_attribute("data-lane")): card.locator(".cf-tree-words").inner_text()
        for card in cards.all()
    }


def means(events: list[dict[str, Any]]) -> tuple[str, str]:
    """(nodes, contemplate tokens) of a cycle, as the page prints them."""
    sizes = [len(event["tree"]["parents"]) for event in events if event["event"] == "DraftProposed"]
    con = [e["num_contemplate_tokens"] for e in events if e["event"] == "DraftVerified"]
    return f"{sum(sizes) / len(sizes):.1f}", f"{sum(con) / len(con):.1f}"


def test_an_automatic_lane_says_what_was_chosen_and_what_was_measured(visit: NewVisit):
    race = lanes(AUTO, COSTS)
    _, words = shown(visit, race)
    nodes, con = means(race["confu"])
    assert words["confu"].startswith(f"Automatic tree: {nodes} nodes, depth ")
    assert f" and {con} contemplate tokens a cycle so far. " in words["confu"]
    assert words["confu"].endswith(
        "verifying 1 token takes 2.3 ms, 24 tokens 6.0 ms; drafting 0.9 ms and 0.5 ms a level."
    )
    assert words["eagle3"].startswith(f"Automatic tree: {means(race['eagle3'])[0]} nodes and depth")
    for lane in ("autoregressive", "prompt_lookup", "confspec"):
        assert words[lane] == ""


@pytest.mark.parametrize(("budget", "told"), [("-1", "every node"), ("3", "3")])
def test_a_fixed_lane_says_its_shape(visit: NewVisit, budget: str, told: str):
    _, words = shown(visit, lanes({**FIXED, "confu.contemplate_budget": budget}))
    assert words["eagle3"] == "Fixed tree: 16 nodes, depth 7, width 2."
    expected = f"Fixed tree: 16 nodes, depth 7, width 2; contemplate tokens: {told}."
    assert words["confu"] == expected


def test_a_recording_that_does_not_tell_says_nothing(visit: NewVisit):
    _, words = shown(visit, lanes_as_json())
    assert set(words.values()) == {""}


def test_costs_without_points_are_left_out(visit: NewVisit):
    _, words = shown(visit, lanes(AUTO, {"verify": [], "draft_ms": 0.0, "level": []}))
    assert words["confu"].endswith("a cycle so far.")


def test_before_the_first_event_there_is_nothing_to_say_and_korean_is_korean(visit: NewVisit):
    found, words = shown(visit, lanes(AUTO, COSTS), "ko")
    assert words["confu"].startswith("자동 트리")
    found.act("start")
    assert found.page.locator(".cf-output[data-lane=confu] .cf-tree-words").inner_text() == ""
