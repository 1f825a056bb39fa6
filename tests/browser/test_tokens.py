"""The Tokens page: two lanes side by side, lined up, and what their cycles say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator

from confu_demo.foresight_metrics import foresight
from confu_demo.metrics import summary
from confu_demo.trace_io import read_recording
from tests.browser.conftest import PHONE, ROOT, NewVisit, Visit
from tests.browser.test_live_batches import STUB, batches
from tests.browser.viewer_page import Lanes, lanes_as_json, load, mount, recording
from tests.ui.scripted_lanes import scripted_lanes

pytestmark = pytest.mark.browser

RECORDINGS = sorted((ROOT / "assets" / "recordings").glob("*.jsonl.gz"))


def open_tokens(visit: NewVisit, lanes: Lanes | None = None, **context: Any) -> Visit:
    """The page at the end of a race."""
    found = visit(**context)
    mount(found.page)
    load(found.page, recording(lanes))
    found.settle()
    found.open_tab("tokens")
    found.act("end")
    return found


def lane(found: Visit, name: str) -> Locator:
    return found.page.locator(f".cf-lane[data-lane={name}]")


def names_shown(found: Visit) -> list[str]:
    shown = found.page.locator(".cf-lane")
    return [str(node.get_attribute("data-lane")) for node in shown.all()]


def shown_cycles(found: Visit) -> dict[str, int]:
    return dict(
        found.viewer(
            "Confu.makeFrame(viewer).columns.map((column) =>"
            " [column.lane.log.name, column.cycle && column.cycle.cycle])"
        )
    )


def select(found: Visit, what: str) -> None:
    found.page.evaluate(f"() => viewer.select({what})")
    found.settle()


def cycle_events(lanes: Lanes, name: str, cycle: int) -> dict[str, dict[str, Any]]:
    return {e["event"]: e for e in lanes[name] if e.get("cycle") == cycle}


# ---- pages ---------------------------------------------------------------------------------


def test_pages_are_there_as_far_as_the_race_has_something_for_them(visit: NewVisit):
    found = visit()
    mount(found.page)
    tabs = found.page.locator(".cf-tab:visible")
    assert tabs.count() == 0  # nothing is loaded
    every = lanes_as_json()
    expected: dict[tuple[str, ...], list[str]] = {
        ("autoregressive",): [],
        ("autoregressive", "eagle3"): ["Race", "Tokens"],
        ("confspec",): ["Race", "Steps"],
        tuple(every): ["Race", "Tokens", "Steps"],
    }
    for names, shown in expected.items():
        load(found.page, recording({name: every[name] for name in names}))
        found.settle()
        assert tabs.all_inner_texts() == shown


def test_a_page_that_a_new_race_lacks_gives_way_to_the_race(visit: NewVisit):
    found = open_tokens(visit)
    load(found.page, recording({"autoregressive": lanes_as_json()["autoregressive"]}))
    found.settle()
    assert found.page.locator(".cf-page-race").is_visible()
    load(found.page, recording())
    found.settle()
    assert found.page.locator(".cf-page-tokens").is_visible(), "the reader's page comes back"


def test_arrow_keys_move_between_the_tabs_and_leave_the_playhead_alone(visit: NewVisit):
    found = open_tokens(visit)
    place = found.viewer("viewer.playback.position")
    tab = found.page.locator(".cf-tab[data-tab=tokens]")
    tab.press("ArrowRight")
    found.settle()
    assert found.page.locator(".cf-tab[aria-selected=true]").inner_text() == "Steps"
    found.page.locator(".cf-tab[data-tab=steps]").press("ArrowRight")
    found.settle()
    assert found.page.locator(".cf-tab[aria-selected=true]").inner_text() == "Race"
    assert found.viewer("viewer.playback.position") == place


def test_a_token_of_the_race_leads_to_its_draft_tree(visit: NewVisit):
    found = open_tokens(visit)
    found.open_tab("race")
    found.page.locator(".cf-output[data-lane=eagle3] [data-place='20']").click()
    found.page.get_by_role("button", name="show its draft tree").click()
    found.settle()
    cycle = found.viewer("viewer.timeline.log('eagle3').tokens[20].cycle")
    assert shown_cycles(found)["eagle3"] == cycle


# ---- two lanes, lined up -------------------------------------------------------------------


def test_eagle3_and_confu_stand_side_by_side_at_the_same_moment(visit: NewVisit):
    found = open_tokens(visit)
    assert names_shown(found) == ["eagle3", "confu"]
    boxes = [lane(found, name).bounding_box() for name in ("eagle3", "confu")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] == boxes[1]["y"]
    found.page.evaluate("() => { viewer.playback.seek(viewer.timeline.end / 2); viewer.draw(); }")
    t = found.viewer("viewer.playback.t")
    for name, cycle in shown_cycles(found).items():
        drafts = [e for e in lanes_as_json()[name] if e["event"] == "DraftProposed"]
        assert cycle == max(e["cycle"] for e in drafts if e["t_ms"] <= t)


def test_on_a_phone_the_lanes_stand_below_each_other(visit: NewVisit):
    found = open_tokens(visit, viewport=PHONE)
    boxes = [lane(found, name).bounding_box() for name in ("eagle3", "confu")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]


def test_another_lane_can_be_chosen_and_the_same_one_twice_changes_places(visit: NewVisit):
    found = open_tokens(visit)
    lane(found, "eagle3").locator("select").select_option("prompt_lookup")
    found.settle()
    assert names_shown(found) == ["prompt_lookup", "confu"]
    lane(found, "confu").locator("select").select_option("prompt_lookup")
    found.settle()
    assert names_shown(found) == ["confu", "prompt_lookup"]


def test_paging_in_one_lane_leaves_the_other_at_its_moment(visit: NewVisit):
    found = open_tokens(visit)
    before = shown_cycles(found)
    for _ in range(3):
        lane(found, "confu").get_by_role("button", name="Previous cycle").click()
        found.settle()
    assert shown_cycles(found) == {**before, "confu": before["confu"] - 3}
    lane(found, "eagle3").get_by_role("button", name="Previous cycle").click()
    found.settle()
    assert shown_cycles(found) == {"confu": before["confu"] - 3, "eagle3": before["eagle3"] - 1}
    found.page.get_by_role("button", name="back to the playhead").click()
    found.settle()
    assert shown_cycles(found) == before


def test_brackets_page_through_the_selected_lane(visit: NewVisit):
    found = open_tokens(visit)
    found.act("lane", "eagle3")
    before = shown_cycles(found)
    found.page.keyboard.press("[")
    found.page.keyboard.press("[")
    found.page.keyboard.press("]")
    found.settle()
    assert shown_cycles(found) == {**before, "eagle3": before["eagle3"] - 1}


def test_lined_up_by_place_both_lanes_show_the_same_words(visit: NewVisit):
    found = open_tokens(visit)
    found.page.get_by_role("button", name="place in the text").click()
    for cycle in (1, 4, 6):
        select(found, f"{{lane: 'confu', cycle: {cycle}}}")
        place = found.viewer("Confu.makeFrame(viewer).place")
        first = found.viewer(f"viewer.timeline.log('confu').cycleNumbered({cycle}).firstToken")
        assert place == first
        other = shown_cycles(found)["eagle3"]
        covered = found.viewer(
            f"(() => {{ const c = viewer.timeline.log('eagle3').cycleNumbered({other});"
            " return [c.firstToken, c.numTokens]; })()"
        )
        assert covered[0] <= place < covered[0] + covered[1]
        # Both frames stand around the same token of the text: the last one before the place.
        for name in ("eagle3", "confu"):
            token = found.viewer(f"viewer.timeline.log('{name}').tokens[{place - 1}].id")
            here = lane(found, name).locator(".cf-node:has(.cf-here)")
            node = int(str(here.get_attribute("data-node")))
            tree = cycle_events(lanes_as_json(), name, shown_cycles(found)[name])["DraftProposed"]
            assert tree["tree"]["token_ids"][node] == token


def test_a_lane_that_has_not_reached_the_place_says_so(visit: NewVisit):
    lanes = lanes_as_json()
    for event in lanes["eagle3"]:
        event["t_ms"] *= 4
    found = open_tokens(visit, lanes)
    found.page.get_by_role("button", name="place in the text").click()
    found.page.evaluate(
        "() => { const log = viewer.timeline.log('confu'); viewer.playback.pause();"
        " viewer.playback.goTo(viewer.timeline.placeOf(log, log.cycles[4].at)); }"
    )
    select(found, "{lane: 'confu', cycle: 4}")
    assert shown_cycles(found)["eagle3"] is None
    words = lane(found, "eagle3").locator(".cf-caption").inner_text()
    assert "has not reached this place" in words
    assert lane(found, "eagle3").locator(".cf-node").count() == 0


def test_texts_that_part_are_said_to_part(visit: NewVisit):
    lanes = lanes_as_json()
    commits = [e for e in lanes["eagle3"] if e["event"] == "TokensCommitted"]
    commits[0]["token_ids"][0] += 1
    found = open_tokens(visit, lanes)
    note = found.page.locator(".cf-parted")
    assert not note.is_visible()
    found.page.get_by_role("button", name="place in the text").click()
    found.settle()
    assert note.inner_text().startswith("The two texts differ from token 1 on")


# ---- one lane ------------------------------------------------------------------------------


def test_a_node_tells_its_probabilities_its_depth_and_why_it_lost(visit: NewVisit):
    found = open_tokens(visit)
    lanes = lanes_as_json()
    cycle, node = next(
        (e["cycle"], len(e["tree"]["parents"]) - 1)
        for e in lanes["eagle3"]
        if e["event"] == "DraftProposed" and len(e["tree"]["parents"]) > 6
    )
    events = cycle_events(lanes, "eagle3", cycle)
    tree, verified = events["DraftProposed"]["tree"], events["DraftVerified"]
    select(found, f"{{lane: 'eagle3', cycle: {cycle}}}")
    drawn = lane(found, "eagle3").locator(f".cf-node[data-node='{node}']")
    drawn.focus()
    drawn.press("Enter")
    found.settle()
    path = [node]
    while tree["parents"][path[-1]] > 0:
        path.append(tree["parents"][path[-1]])
    rows = lane(found, "eagle3").locator(".cf-details dl")
    facts = dict(
        zip(rows.locator("dt").all_inner_texts(), rows.locator("dd").all_inner_texts(), strict=True)
    )
    assert facts["depth"] == str(len(path))
    assert facts["path log-probability"] == f"{sum(tree['log_probs'][i] for i in path):.2f}"
    assert facts["draft probability"] == f"{math.exp(tree['log_probs'][node]):.0%}"
    assert facts["target probability"] in (f"{verified['target_probs'][node]:.0%}", "<1%", ">99%")
    assert lane(found, "eagle3").locator(".cf-why").inner_text() != ""
    focused = found.page.evaluate("document.activeElement.getAttribute('data-node')")
    assert focused == str(node), "the keyboard keeps its place"


def test_a_tree_grows_to_the_right_or_downwards(visit: NewVisit):
    found = open_tokens(visit)
    select(found, "{lane: 'confu', cycle: 2}")
    events = cycle_events(lanes_as_json(), "confu", 2)
    parents = events["DraftProposed"]["tree"]["parents"]
    for name, axis in (("left to right", "x"), ("top down", "y")):
        found.page.get_by_role("button", name=name, exact=True).click()
        found.settle()
        boxes = [
            lane(found, "confu").locator(f".cf-node[data-node='{node}']").bounding_box()
            for node in range(len(parents))
        ]
        for node, parent in enumerate(parents[1:], start=1):
            child, above = boxes[node], boxes[parent]
            assert child is not None
            assert above is not None
            assert dict(child)[axis] > dict(above)[axis]  # type: ignore[operator]


def partly_contemplated(lanes: Lanes, nodes: list[int]) -> dict[str, Any]:
    """The first verification of confu, changed in place: only these nodes had a [con]."""
    event = next(e for e in lanes["confu"] if e["event"] == "DraftVerified")
    event["num_target_tokens"] -= event["num_contemplate_tokens"] - len(nodes)
    event["num_contemplate_tokens"] = len(nodes)
    event["contemplated_nodes"] = nodes
    return event


def badges(found: Visit) -> dict[int, str]:
    """Node -> what its badge says, in confu's tree."""
    marked = lane(found, "confu").locator(".cf-node:has(.cf-con)")
    return {
        int(str(node.get_attribute("data-node"))): node.locator(".cf-con").text_content() or ""
        for node in marked.all()
    }


def test_only_contemplated_nodes_have_a_badge_and_f_comes_from_the_nearest(visit: NewVisit):
    lanes = lanes_as_json()
    accepted = partly_contemplated(lanes, [0])["accepted"]
    assert len(accepted) > 1
    partly_contemplated(lanes, [0, accepted[0]])
    found = open_tokens(visit, lanes)
    select(found, "{lane: 'confu', cycle: 0}")
    assert badges(found) == {0: "con", accepted[0]: "f"}
    assert lane(found, "eagle3").locator(".cf-con").count() == 0


def test_an_older_recording_that_only_counts_them_has_a_badge_on_every_node_or_on_none(
    visit: NewVisit,
):
    lanes = lanes_as_json()
    for event in lanes["confu"]:
        event.pop("contemplated_nodes", None)
    first = next(e for e in lanes["confu"] if e["event"] == "DraftVerified")
    found = open_tokens(visit, lanes)
    select(found, "{lane: 'confu', cycle: 0}")
    assert len(badges(found)) == len(first["target_probs"])
    first["num_contemplate_tokens"] = 1  # which one is not known
    load(found.page, recording(lanes))
    found.act("end")
    select(found, "{lane: 'confu', cycle: 0}")
    assert badges(found) == {}


def test_nothing_follows_the_end_of_a_run_in_its_last_tree(visit: NewVisit):
    """The end token was drafted and accepted: the target's token after it is not committed."""
    lanes = lanes_as_json()
    verified = [e for e in lanes["confu"] if e["event"] == "DraftVerified"][-2]
    cycle, kept = verified["cycle"], len(verified["accepted"]) - 1
    assert kept > 0
    cut = next(i for i, e in enumerate(lanes["confu"]) if e is verified) + 1
    commit = lanes["confu"][cut]
    for name in ("token_ids", "origins", "texts"):
        commit[name] = commit[name][:kept]
    lanes["confu"] = [*lanes["confu"][: cut + 1], lanes["confu"][-1]]
    found = open_tokens(visit, lanes)
    assert shown_cycles(found)["confu"] == cycle
    tree = lane(found, "confu")
    assert tree.locator(".cf-node-recovered, .cf-node-bonus").count() == 0
    assert tree.locator(".cf-node-accepted").count() == kept
    surplus = tree.locator(".cf-node-surplus")
    assert verified["accepted"][kept] in [
        int(str(node.get_attribute("data-node"))) for node in surplus.all()
    ]
    assert "The run ends within this path" in tree.locator(".cf-caption").inner_text()
    surplus.first.click()
    found.settle()
    assert tree.locator(".cf-why").inner_text() == "Not used: the run had ended before it."


def test_the_text_marks_the_shown_cycle_and_a_token_leads_to_its_cycle(visit: NewVisit):
    found = open_tokens(visit)
    lane(found, "confu").locator("[data-place='12']").click()
    found.settle()
    cycle = shown_cycles(found)["confu"]
    assert cycle == found.viewer("viewer.timeline.log('confu').tokens[12].cycle")
    commit = cycle_events(lanes_as_json(), "confu", cycle)["TokensCommitted"]
    marked = lane(found, "confu").locator(".cf-text .cf-in-cycle")
    assert marked.count() == len(commit["token_ids"])
    assert "place in the text" in lane(found, "confu").locator(".cf-details").inner_text()
    inside = found.page.evaluate(
        "() => { const box = document.querySelector('.cf-lane[data-lane=confu] .cf-text')"
        ".getBoundingClientRect(); const chip = document.querySelector("
        "'.cf-lane[data-lane=confu] .cf-picked').getBoundingClientRect();"
        " return chip.top >= box.top && chip.bottom <= box.bottom; }"
    )
    assert inside


@pytest.mark.parametrize("name", ["eagle3", "confu"])
def test_the_charts_say_the_numbers_of_the_metrics(visit: NewVisit, name: str):
    found = open_tokens(visit)
    wanted = summary(scripted_lanes()[name])
    assert wanted.acceptance_length is not None
    assert wanted.verified_per_committed is not None
    figure = lane(found, name).locator
    assert figure("[data-figure=tau]").inner_text() == f"{wanted.acceptance_length:.2f}"
    assert figure("[data-figure=verified]").inner_text() == f"{wanted.verified_per_committed:.2f}"
    spent = [wanted.draft_ms, wanted.verify_ms, wanted.other_ms]
    shown = " / ".join(f"{ms / wanted.num_tokens:.2f}" for ms in spent)
    assert figure("[data-figure=spent]").inner_text() == shown
    counts = lane(found, name).locator(".cf-depth-count").all_text_contents()
    assert counts == [f"{d.accepted}/{d.reached}" for d in wanted.acceptance_by_depth]


def test_the_time_of_a_cycle_is_drawn_to_scale_and_a_click_pins_it(visit: NewVisit):
    found = open_tokens(visit)
    spans = found.viewer(
        "Confu.gantt.spansOf(viewer.timeline.log('confu'), Infinity).map((s) => [s.from, s.to,"
        " s.parts.map((p) => [p.part, p.to - p.from])])"
    )
    lanes = lanes_as_json()
    assert spans[0][0] == 5.0  # where the prefill ended
    for cycle, (start, end, parts) in enumerate(spans):
        events = cycle_events(lanes, "confu", cycle)
        assert end == pytest.approx(events["TokensCommitted"]["t_ms"])
        assert sum(ms for _, ms in parts) == pytest.approx(end - start)
        total = dict.fromkeys(("draft", "verify", "other"), 0.0)
        for part, ms in parts:
            total[part] += ms
        assert total["draft"] == pytest.approx(events["DraftProposed"]["ms"])
        assert total["verify"] == pytest.approx(events["DraftVerified"]["ms"])
    drawn = lane(found, "confu").locator(".cf-span")
    widths = [
        float(str(drawn.first.locator(f".cf-part-{part}").first.get_attribute("width")))
        for part in ("draft", "verify")
    ]
    assert widths[1] / widths[0] == pytest.approx(6.5 / 3.0, rel=0.01)
    before = shown_cycles(found)["confu"]
    drawn.nth(drawn.count() - 3).click(position={"x": 4, "y": 8})
    found.settle()
    assert shown_cycles(found)["confu"] == before - 2


# ---- contemplation -------------------------------------------------------------------------


def test_the_entropy_of_both_mixtures_is_drawn_and_said(visit: NewVisit):
    found = open_tokens(visit)
    select(found, "{lane: 'confu', cycle: 3}")
    thought = cycle_events(lanes_as_json(), "confu", 3)["DraftProposed"]["contemplation"]
    for name in ("con", "future"):
        bits = -sum(w * math.log2(w) for w in thought[f"{name}_router"] if w > 0)
        part = found.page.locator(f".cf-experts-part:has(.cf-heat-{name})")
        assert f"{bits:.2f} bits" in part.locator("h4").inner_text()
        assert part.locator(".cf-entropy").count() == part.locator(".cf-column").count()


def test_foresight_is_counted_and_held_against_luck(visit: NewVisit):
    found = open_tokens(visit)
    wanted = foresight(scripted_lanes()["confu"])
    assert wanted.num_cycles > 5
    words = found.page.locator(".cf-foresee").inner_text()
    assert f"in {wanted.num_true} of {wanted.num_cycles} cycles" in words
    assert wanted.chance is not None
    assert f"occur in {wanted.chance * 100:.0f}%" in words


def test_the_weights_of_what_f_foresees_are_named_where_a_head_has_such(visit: NewVisit):
    lanes = lanes_as_json()
    proposed = [e for e in lanes["confu"] if e["event"] == "DraftProposed"]
    proposed[0]["contemplation"]["logit_weights"] = [0.5, 0.25]
    proposed[1]["contemplation"].pop("logit_weights", None)  # recorded before there were any
    found = open_tokens(visit, lanes)
    said = found.page.locator(".cf-foresee p", has_text="logits")
    select(found, "{lane: 'confu', cycle: 0}")
    assert "depth 1, 2, … times 0.50, 0.25." in said.inner_text()
    select(found, "{lane: 'confu', cycle: 1}")
    assert not said.is_visible()


def test_a_foreseen_token_that_came_true_is_marked_in_the_text(visit: NewVisit):
    found = open_tokens(visit)
    select(found, "{lane: 'confu', cycle: 1}")
    true = found.page.locator(".cf-foreseen .cf-came-true").count()
    assert true > 0
    assert lane(found, "confu").locator(".cf-text .cf-foretold").count() >= true


# ---- where events come from ----------------------------------------------------------------


def test_a_live_race_ends_with_the_same_page_as_a_recording(visit: NewVisit):
    sent = batches()
    live = visit()
    mount(live.page, options=f"tab: 'tokens', {STUB}")
    live.page.evaluate("(kept) => { window.kept = kept; window.asked = []; }", sent)
    live.page.evaluate("(sent) => { for (const batch of sent) viewer.push(batch); }", sent)
    live.wait_for("viewer.timeline.complete")
    live.act("end")
    recorded = open_tokens(visit)
    for name in ("eagle3", "confu"):
        assert lane(live, name).inner_text() == lane(recorded, name).inner_text()


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_every_shipped_recording_fills_every_page(visit: NewVisit, path: Path):
    found = visit()
    mount(found.page)
    lanes = lanes_as_json(read_recording(path).lanes)
    load(found.page, recording(lanes, expected=None))
    found.settle()
    for tab in ("race", "tokens", "steps"):
        found.open_tab(tab)
        for share in (0.0, 0.3, 0.7, 1.0):
            found.page.evaluate(
                "(s) => { viewer.playback.seek(viewer.timeline.end * s); viewer.draw(); }", share
            )
    found.open_tab("tokens")
    assert lane(found, "eagle3").locator(".cf-node").count() > 5
    assert len(badges(found)) > 5
    assert found.page.locator(".cf-heat-con .cf-chosen").count() > 0
    assert found.viewer("[...viewer.words.missing]") == []
