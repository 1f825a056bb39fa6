"""What the panels say about the events, and that they never run what they show."""

from __future__ import annotations

import pytest

from tests.browser.conftest import PHONE, NewVisit, Visit
from tests.browser.hostile import HOSTILE
from tests.browser.viewer_page import lanes_as_json, load, mount, recording
from tests.ui.scripted_lanes import OTHER_WORDS, STEPS, scripted_lanes

pytestmark = pytest.mark.browser


def open_viewer(visit: NewVisit, language: str = "en", **context: object) -> Visit:
    found = visit(**context)
    mount(found.page, language)
    load(found.page, recording())
    found.settle()
    return found


def test_hostile_text_is_shown_as_text_and_nothing_else(visit: NewVisit):
    found = visit()
    mount(found.page)
    lanes = lanes_as_json(scripted_lanes(HOSTILE[0], HOSTILE, HOSTILE))
    for event in lanes["confu"]:
        if event["event"] == "DraftProposed":
            event["tree"]["texts"][0] = HOSTILE[0]
    race = recording(lanes) | {"prompt": "\n".join(HOSTILE), "title": HOSTILE[3]}
    load(found.page, race)
    found.act("end")
    for lane in lanes:
        shown = found.viewer(
            f"[...viewer.root.querySelectorAll('.cf-output[data-lane={lane}] .cf-chip')]"
            ".map((chip) => chip.textContent).join('')"
        )
        assert "<imgsrc=xonerror=\"window.pwned='img'\">" in shown.replace("·", "").replace(" ", "")
        assert "${window.pwned='template'}" in shown.replace("·", "").replace(" ", "")
    assert found.viewer("viewer.root.querySelectorAll('img, script, b').length") == 0
    assert found.page.locator(".cf-prompt").inner_text().startswith(HOSTILE[0])
    found.open_tab("steps")
    for number, text in enumerate(HOSTILE[:4], start=1):
        card = found.page.locator(f".cf-step:has(button:text-is('Step {number}')) .cf-step-text")
        assert card.inner_text() == text
    found.open_tab("tokens")
    found.page.locator(".cf-lane[data-lane=confu] .cf-node").first.click()
    found.settle()
    assert HOSTILE[0] in found.page.locator(".cf-lane[data-lane=confu] .cf-details").inner_text()
    assert found.viewer("viewer.root.querySelectorAll('img, script, b').length") == 0
    assert found.page.evaluate("window.pwned") is None


def test_a_chip_tells_where_its_token_comes_from(visit: NewVisit):
    found = open_viewer(visit)
    found.act("end")
    classes = found.viewer(
        "viewer.timeline.log('confu').tokens.map((token, i) => {"
        " const card = viewer.root.querySelector('.cf-output[data-lane=confu]');"
        " const chip = card.querySelector(`[data-place='${i}']`);"
        " return chip.classList.contains(`cf-${token.origin}`); })"
    )
    assert len(classes) > 50
    assert all(classes)


def test_drafted_tokens_are_dotted_then_accepted_or_struck(visit: NewVisit):
    found = open_viewer(visit)
    found.act("lane", "confu")
    tail = found.page.locator(".cf-output[data-lane=confu] .cf-tail .cf-chip")

    def states() -> list[str]:
        return tail.evaluate_all("(chips) => chips.map((chip) => chip.className.split('cf-')[2])")

    def go_to(kind: str) -> None:
        """Just after the first such event of the lane whose cycle was partly refused."""
        found.page.evaluate(
            """(kind) => {
              const log = viewer.timeline.log('confu');
              const cycle = log.cycles.find((c) => c.verified.token_origin === 'recovered');
              const number = cycle.cycle;
              const index = log.events.findIndex((e) => e.event === kind && e.cycle === number);
              viewer.playback.goTo(viewer.timeline.placeOf(log, index));
              viewer.refresh();
            }""",
            kind,
        )
        found.settle()

    go_to("DraftProposed")
    assert set(states()) == {"pending"}
    go_to("DraftVerified")
    verified = states()
    assert verified.count("recovered") == 1
    before, after = (
        verified[: verified.index("recovered")],
        verified[verified.index("recovered") + 1 :],
    )
    assert set(before) == {"draft"}
    assert set(after) == {"rejected"}
    go_to("TokensCommitted")
    assert set(states()) == {"rejected"}


def test_the_tree_shows_the_accepted_path_and_why_others_lost(visit: NewVisit):
    found = open_viewer(visit)
    found.open_tab("tokens")
    found.act("end")
    cycle = found.viewer(
        "viewer.timeline.log('confu').cycles.find((c) => c.verified.accepted.length > 1"
        " && c.proposed.tree.parents.length > c.verified.accepted.length + 2).cycle"
    )
    found.page.evaluate("(cycle) => viewer.select({lane: 'confu', cycle})", cycle)
    found.settle()
    event = next(
        e for e in lanes_as_json()["confu"] if e["event"] == "DraftVerified" and e["cycle"] == cycle
    )
    tree = next(
        e for e in lanes_as_json()["confu"] if e["event"] == "DraftProposed" and e["cycle"] == cycle
    )["tree"]
    size = len(tree["parents"])
    lane = found.page.locator(".cf-lane[data-lane=confu]")
    assert lane.locator(".cf-node-accepted").count() == len(event["accepted"])
    assert lane.locator(".cf-node[role=button]").count() == size
    assert lane.locator(".cf-con").count() == size  # every node has a contemplate token
    assert lane.locator(".cf-con-source").count() == 1
    lane.locator(".cf-node-rejected").first.click()
    found.settle()
    why = lane.locator(".cf-why").inner_text()
    assert why.startswith("Lost: after the same words the target chose")
    assert "target probability" in lane.locator(".cf-details").inner_text()


def test_before_the_target_answers_no_node_is_accepted(visit: NewVisit):
    found = open_viewer(visit)
    found.open_tab("tokens")
    found.page.evaluate(
        "() => { const log = viewer.timeline.log('eagle3');"
        " viewer.playback.goTo(viewer.timeline.placeOf(log, log.cycles[3].at)); viewer.refresh(); }"
    )
    found.settle()
    lane = found.page.locator(".cf-lane[data-lane=eagle3]")
    assert lane.locator(".cf-node-pending").count() > 0
    assert lane.locator(".cf-node-accepted, .cf-node-rejected, .cf-ring-value").count() == 0


def test_every_cycle_has_a_column_of_experts_and_a_click_pins_it(visit: NewVisit):
    found = open_viewer(visit)
    found.open_tab("tokens")
    found.act("end")
    cycles = found.viewer("viewer.timeline.log('confu').cycles.length")
    assert found.page.locator(".cf-heat-con .cf-column").count() == cycles
    assert found.page.locator(".cf-heat-future .cf-column").count() == cycles
    first = lanes_as_json()["confu"][2]["contemplation"]
    chosen = sum(weight > 0 for weight in first["con_router"])
    column = found.page.locator(".cf-heat-con .cf-column").first
    assert column.locator(".cf-chosen").count() == chosen
    column.click()
    found.settle()
    assert found.viewer("viewer.selection.cycle") is not None
    assert "pinned" in found.page.locator(".cf-lane[data-lane=confu] .cf-pager").inner_text()


def test_an_expert_lights_the_tokens_that_it_served(visit: NewVisit):
    found = open_viewer(visit)
    found.open_tab("tokens")
    found.act("end")
    found.page.locator(".cf-heat-future .cf-expert").nth(4).click()
    found.settle()
    wanted = found.viewer(
        "(() => { const log = viewer.timeline.log('confu'); const served = new Set(log.cycles"
        ".filter((c) => c.proposed.contemplation.future_router[4] > 0).map((c) => c.cycle));"
        " return log.tokens.filter((token) => served.has(token.cycle)).length; })()"
    )
    assert found.page.locator(".cf-lane[data-lane=confu] .cf-lit").count() == wanted > 0
    found.open_tab("race")
    assert found.page.locator(".cf-output[data-lane=confu] .cf-lit").count() == wanted


def test_what_f_foresees_is_checked_against_what_came(visit: NewVisit):
    found = open_viewer(visit)
    found.open_tab("tokens")
    found.act("end")
    found.page.evaluate("viewer.select({lane: 'confu', cycle: 0})")
    found.settle()
    rows = found.page.locator(".cf-foreseen li")
    foreseen = lanes_as_json()["confu"][2]["contemplation"]["foreseen"]
    assert rows.count() == len(foreseen)
    assert "came true" in rows.first.inner_text()  # the script foresees the third token


def test_step_cards_tell_who_wrote_it_and_how_it_was_decided(visit: NewVisit):
    found = open_viewer(visit)
    found.open_tab("steps")
    found.act("end")
    cards = found.page.locator(".cf-step")
    assert cards.count() == len(STEPS)
    kept = cards.nth(0).inner_text()
    assert OTHER_WORDS[0] in kept
    assert "draft's text kept" in kept
    assert "accept" in kept
    replaced = cards.nth(1)
    assert "escalate" in replaced.inner_text()
    assert "target's verdict: different, 0.97" in replaced.inner_text()
    assert replaced.locator(".cf-step-text").inner_text() == STEPS[1]
    folded = replaced.locator("details p")
    assert not folded.is_visible()
    replaced.locator("summary").click()
    assert folded.inner_text() == OTHER_WORDS[1]
    assert "16" in folded.locator("mark").all_inner_texts()
    assert "word for word" in cards.nth(3).inner_text()
    assert "bonus by the target" in cards.nth(4).inner_text()


def test_the_gauge_and_its_threshold_stand_where_the_numbers_say(visit: NewVisit):
    found = open_viewer(visit)
    found.open_tab("steps")
    found.act("end")
    gauge = found.page.locator(".cf-step").nth(1).locator(".cf-gauge")
    box = gauge.bounding_box()
    fill = gauge.locator(".cf-gauge-fill").bounding_box()
    line = gauge.locator(".cf-threshold").bounding_box()
    assert box is not None
    assert fill is not None
    assert line is not None
    assert fill["width"] / box["width"] == pytest.approx(0.71, abs=0.02)
    middle = line["x"] + line["width"] / 2 - box["x"]
    assert middle / box["width"] == pytest.approx(0.9, abs=0.02)


def test_the_provenance_of_the_numbers_is_printed(visit: NewVisit):
    found = open_viewer(visit)
    text = found.page.locator(".cf-origin").inner_text()
    for part in ("a script, no device", "float32", "0123abc", "pytest", "scripted-target", "7.1 M"):
        assert part in text
    assert (
        "recorded on a script, no device, 2026-01-02"
        in found.page.locator(".cf-source").inner_text()
    )


@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_word_of_a_whole_race_is_in_the_dictionary(visit: NewVisit, language: str):
    found = open_viewer(visit, language)
    count = found.viewer("viewer.timeline.entries.length")
    found.act("mode", "event")
    for tab in ("race", "tokens", "steps"):
        found.open_tab(tab)
        for lane in ("autoregressive", "eagle3", "confu", "confspec"):
            found.act("lane", lane)
            for place in range(0, count + 1, 23):
                found.page.evaluate(
                    "(place) => { viewer.playback.goTo(place); viewer.draw(); }", place
                )
        for what in ("{lane: 'confu', token: 3}", "{lane: 'confu', cycle: 2, node: 1}",
                     "{lane: 'confspec', step: 1}", "{lane: 'confspec', step: 4}"):  # fmt: skip
            found.page.evaluate(f"() => {{ viewer.select({what}); viewer.draw(); }}")
    assert found.viewer("[...viewer.words.missing]") == []


def test_the_language_can_change_in_the_middle_of_a_race(visit: NewVisit):
    found = open_viewer(visit)
    found.act("scrub", 120)
    place = found.viewer("viewer.playback.position")
    found.page.evaluate("viewer.setLanguage('ko')")
    found.settle()
    assert "레인별 출력" in found.viewer("viewer.root.innerText")
    assert found.viewer("viewer.playback.position") == place
    assert found.viewer("viewer.root.getAttribute('lang')") == "ko"


def test_korean_and_emoji_split_over_tokens_appear_at_the_completing_token(visit: NewVisit):
    found = visit()
    mount(found.page)
    lanes = lanes_as_json()
    texts = ["", "", "한", "", "🙂", "\n"]
    commits = [e for e in lanes["autoregressive"] if e["event"] == "TokensCommitted"]
    for event, text in zip(commits, texts, strict=False):
        event["texts"] = [text]
    load(found.page, recording(lanes))
    found.act("end")
    chips = found.page.locator(".cf-output[data-lane=autoregressive] .cf-chip").all_inner_texts()
    assert chips[:6] == ["◌", "◌", "한", "◌", "🙂", "↵"]


def test_the_token_that_ends_a_run_is_named_and_is_no_fragment(visit: NewVisit):
    found = visit()
    mount(found.page)
    lanes = lanes_as_json()
    last = [e for e in lanes["autoregressive"] if e["event"] == "TokensCommitted"][-1]
    last["texts"] = [""]
    load(found.page, recording(lanes))
    found.act("end")
    chips = found.page.locator(".cf-output[data-lane=autoregressive] .cf-chip")
    assert chips.last.inner_text() == "⟨end⟩"
    assert chips.nth(-2).inner_text() != "⟨end⟩"


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_viewer_fits_a_phone_without_sideways_scroll(visit: NewVisit, language: str):
    found = open_viewer(visit, language, viewport=PHONE)
    for tab in ("race", "tokens", "steps"):
        found.open_tab(tab)
        for place in (0.2, 0.6, 1.0):
            found.page.evaluate(
                "(p) => { viewer.playback.seek(viewer.timeline.end * p); viewer.draw(); }", place
            )
            assert found.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_viewer_that_is_taken_down_leaves_nothing_behind(visit: NewVisit):
    found = open_viewer(visit)
    found.page.evaluate("viewer.destroy()")
    place = found.viewer("viewer.playback.position")
    found.page.keyboard.press("ArrowRight")
    assert found.viewer("viewer.playback.position") == place
    assert found.viewer("viewer.root.children.length") == 0
