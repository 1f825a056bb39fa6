"""The whole page in Gradio, on scripted lanes: what a visitor does, sees and cannot break."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from confu_demo.metrics import summary
from confu_demo.ui.wording import say
from tests.browser.conftest import PHONE, NewVisit, Server, Visit
from tests.browser.hostile import HOSTILE
from tests.ui.scripted_lanes import PROBLEM, scripted_lanes

pytestmark = pytest.mark.browser

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
LANES = ["autoregressive", "eagle3", "confu", "confspec"]
"""Those that the scripted runner offers."""


def write(found: Visit, text: str) -> None:
    found.page.locator("#text textarea").fill(text)


def race(found: Visit) -> None:
    found.page.locator("#run").click()
    found.wait_for("viewer.race.source === 'live'")


def finish(found: Visit) -> None:
    found.wait_for("viewer.timeline.complete")
    found.act("end")


def events_of_last_race(scripted: Server, num_closed_before: int) -> tuple[int, int]:
    """(events, events after the stop) of the race that closes next, as the runner counted."""
    printed = scripted.wait_until_printed("race closed", num_closed_before + 1)
    match = re.findall(r"race closed after (\d+) events, (\d+) after the stop", printed)[-1]
    return int(match[0]), int(match[1])


def test_the_page_opens_on_a_recording_that_is_labelled_and_moves(
    visit: NewVisit, scripted: Server
):
    found = visit(scripted.url, reduced_motion="no-preference")
    found.wait_for("viewer.cursor.position > 10")
    assert found.page.locator(".cf-source").inner_text() == (
        "recorded on a script, no device, 2026-01-02"
    )
    assert found.page.locator(".cf-expected").last.inner_text() == "expected answer: 34"
    assert found.page.locator(".cf-row[data-lane]").count() == 5


def test_a_race_fills_every_chosen_lane(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    race(found)
    finish(found)
    assert found.page.locator(".cf-source").inner_text().startswith("live, just now")
    assert found.viewer("viewer.timeline.logs.map((log) => log.name)") == LANES
    for lane in LANES:
        text = found.viewer(f"viewer.timeline.log('{lane}').textAt(Infinity)")
        assert text == summary(scripted_lanes()[lane]).text
        assert found.page.locator(f".cf-row[data-lane={lane}] .cf-right").inner_text() == "✓ 34"
    found.page.locator("#notice", has_text=say("en", "notice.done")).wait_for()


def test_stop_frees_the_engine_within_one_cycle_and_the_next_race_runs(
    visit: NewVisit, scripted: Server
):
    found = visit(scripted.url)
    closed = scripted.printed().count("race closed")
    write(found, "a very slow race, to be stopped")
    race(found)
    found.wait_for("viewer.timeline.entries.length > 6")
    found.page.locator("#stop").click()
    finish(found)
    ends = found.viewer("viewer.timeline.logs.map((log) => log.finish.event.reason)")
    assert ends == ["cancelled"] * len(LANES)
    assert events_of_last_race(scripted, closed)[1] <= 1
    found.page.locator("#notice", has_text=say("en", "notice.stopped_now")).wait_for()
    write(found, PROBLEM.text)
    race(found)
    finish(found)
    found.page.locator(".cf-summary", has_text="fastest").wait_for()


def test_a_second_race_replaces_one_that_still_runs(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    write(found, "a very slow race, to be replaced")
    race(found)
    found.wait_for("viewer.timeline.entries.length > 4")
    write(found, PROBLEM.text)
    found.page.locator("#run").click()
    found.wait_for(f"viewer.race.prompt === {PROBLEM.text!r}")
    finish(found)
    assert found.viewer("viewer.timeline.logs.every((log) => log.finish.event.reason === 'eos')")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("   ", say("en", "notice.no_text")),
        ("far too long", "the prompt has 900 tokens; this target reads at most 512"),
    ],
)
def test_a_bad_entry_is_explained_and_the_last_result_stays(
    visit: NewVisit, scripted: Server, text: str, message: str
):
    found = visit(scripted.url)
    race(found)
    finish(found)
    before = found.viewer("[viewer.race.id, viewer.root.querySelector('.cf-outputs').innerText]")
    write(found, text)
    found.page.locator("#run").click()
    found.page.locator("#notice", has_text=message).wait_for()
    assert found.page.locator("#notice .cf-notice").get_attribute("data-kind") == "error"
    after = found.viewer("[viewer.race.id, viewer.root.querySelector('.cf-outputs').innerText]")
    assert after == before
    assert "Traceback" not in found.page.locator("body").inner_text()


@pytest.mark.parametrize(
    ("language", "message"), [("en", "Seed must be a number."), ("ko", "시드에는 숫자를 넣으세요.")]
)
def test_a_wrong_setting_is_called_as_its_control_is(
    visit: NewVisit, scripted: Server, language: str, message: str
):
    found = visit(f"{scripted.url}?lang={language}")
    found.wait_for("viewer.race")  # the page has loaded: from now on nothing resets an entry
    found.page.locator("#run", has_text=say(language, "page.run")).wait_for()
    found.page.get_by_text(say(language, "page.settings"), exact=True).click()
    seed = found.page.get_by_label(say(language, "page.seed"))
    seed.fill("")
    seed.blur()  # an entry counts when it is left, as it is for whoever clicks with a mouse
    found.page.locator("#run").click()
    found.page.locator("#notice", has_text=message).wait_for()


def test_a_message_that_was_overtaken_does_not_come_back(visit: NewVisit, scripted: Server):
    """The answer to Stop may arrive after the race's own last word."""
    shown = visit(scripted.url).page.evaluate(
        """() => {
          const line = Object.assign(document.createElement('p'), {className: 'cf-notice'});
          const element = document.createElement('div');
          element.append(line);
          const props = {value: '{}'};
          let changed;
          ConfuHost.notice(element, props, (name, hear) => (changed = hear));
          return [[2, 'stopped_now'], [1, 'stopped'], [3, 'running']].map(([n, key]) => {
            props.value = JSON.stringify({n, key: `notice.${key}`});
            changed();
            return line.textContent;
          });
        }"""
    )
    ended, running = say("en", "notice.stopped_now"), say("en", "notice.running")
    assert shown == [ended, ended, running]


def test_no_lane_at_all_is_a_bad_entry(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    for box in found.page.locator("#methods input").all():
        box.uncheck()
    found.page.locator("#run").click()
    found.page.locator("#notice", has_text=say("en", "notice.no_lanes")).wait_for()


def test_hostile_text_is_shown_as_text_all_the_way(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    prompt = "hostile " + "\n".join(HOSTILE[:4])
    write(found, prompt)
    race(found)
    finish(found)
    solution = "\n\n".join(HOSTILE)
    for lane in LANES:
        assert found.viewer(f"viewer.timeline.log('{lane}').textAt(Infinity)") == solution
    assert found.page.locator(".cf-prompt").inner_text() == prompt
    for tab in ("tokens", "steps"):
        found.open_tab(tab)
    assert found.page.locator(".cf-step-text").first.inner_text() == HOSTILE[0]
    assert found.page.locator("#viewer img, #viewer script").count() == 0
    assert found.page.evaluate("window.pwned") is None


def test_updates_that_gradio_drops_are_fetched_from_the_server(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    found.page.evaluate(
        """() => {
          const viewer = ConfuHost.viewerForTests, push = viewer.push.bind(viewer);
          window.dropped = 0;
          viewer.push = (batch) => {
            if (batch.seq % 3 !== 0 || batch.done) push(batch);
            else window.dropped += 1;
          };
        }"""
    )
    write(found, "a slow race with gaps")
    race(found)
    finish(found)
    assert found.page.evaluate("window.dropped") > 3
    assert found.viewer("viewer.inbox.repaired") > 0
    for lane in LANES:
        count = found.viewer(f"viewer.timeline.log('{lane}').events.length")
        assert count == len(scripted_lanes()[lane])


def test_two_visitors_do_not_see_each_other(visit: NewVisit, scripted: Server):
    one, two = visit(scripted.url), visit(scripted.url)
    write(one, "a slow race of the first visitor")
    write(two, "the second visitor's own race")
    race(one)
    race(two)
    finish(one)
    finish(two)
    assert one.page.locator(".cf-prompt").inner_text() == "a slow race of the first visitor"
    assert two.page.locator(".cf-prompt").inner_text() == "the second visitor's own race"
    for found in (one, two):
        starts = found.viewer("viewer.timeline.logs.map((log) => log.start.event.prompt_text)")
        assert set(starts) == {found.viewer("viewer.race.prompt")}


def test_closing_the_page_stops_its_race(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    closed = scripted.printed().count("race closed")
    write(found, "a very slow race that nobody watches to its end")
    race(found)
    found.wait_for("viewer.timeline.entries.length > 4")
    found.page.goto("about:blank")
    num_events, _ = events_of_last_race(scripted, closed)
    found.errors.clear()  # Gradio's client reports the connection that we cut
    assert num_events < sum(len(scripted_lanes()[lane]) for lane in LANES)


def test_new_numbers_bring_a_new_problem_with_its_answer(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    found.page.locator("#new-numbers").click()
    found.page.wait_for_function(
        "(old) => document.querySelector('#text textarea').value !== old", arg=PROBLEM.text
    )
    text = found.page.locator("#text textarea").input_value()
    match = re.match(r"Mia has (\d+) lamps", text)
    assert match is not None
    race(found)
    assert found.viewer("viewer.race.expected") == str(int(match[1]) + 4)


def test_an_edited_problem_has_no_expected_answer(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    write(found, PROBLEM.text + " Why?")
    race(found)
    finish(found)
    assert found.viewer("viewer.race.expected") is None
    assert found.page.locator(".cf-right, .cf-wrong").count() == 0


def test_the_language_of_the_whole_page_changes_and_entries_stay(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    write(found, "my own text")
    found.page.locator("#methods input").nth(1).uncheck()
    found.page.get_by_role("button", name="한국어").click()
    found.page.locator("#run", has_text=say("ko", "page.run")).wait_for()
    assert found.page.locator("h1").inner_text() == say("ko", "page.title")
    assert say("ko", "page.methods") in found.page.locator("#methods").inner_text()
    assert say("ko", "outputs.title") in found.page.locator("#viewer").inner_text()
    assert found.page.locator("#text textarea").input_value() == "my own text"
    checked = found.page.locator("#methods input").evaluate_all(
        "(all) => all.map((b) => b.checked)"
    )
    assert checked == [True, False, True, True]
    race(found)
    assert found.viewer("viewer.timeline.logs.length") == 3
    found.page.get_by_role("button", name="English").click()
    found.page.locator("#run", has_text=say("en", "page.run")).wait_for()


def test_a_korean_visitor_is_greeted_in_korean(visit: NewVisit, scripted: Server):
    found = visit(scripted.url, locale="ko-KR")
    found.page.locator("#run", has_text=say("ko", "page.run")).wait_for()
    assert found.page.locator("html").get_attribute("lang") == "ko"
    assert found.viewer("[...viewer.words.missing]") == []


def test_a_recording_can_be_played_again_and_a_broken_one_is_explained(
    visit: NewVisit, scripted: Server
):
    found = visit(scripted.url)
    race(found)
    finish(found)
    found.page.locator("#replay").click()
    found.wait_for("viewer.race.source === 'recording'")
    shown = found.viewer("viewer.race.id")
    found.page.locator("#recording input").click()
    found.page.get_by_role("option", name="a broken one").click()
    # Drawn in the next frame, so waited for on the page and not in the viewer's state.
    message = "This recording cannot be read: broken.jsonl.gz"
    found.page.locator(".cf-message", has_text=message).wait_for()
    assert found.viewer("viewer.race.id") == shown


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_phone_shows_the_race_first_and_never_scrolls_sideways(
    visit: NewVisit, scripted: Server, language: str
):
    found = visit(f"{scripted.url}?lang={language}", viewport=PHONE)
    found.page.locator("#controls:not(.open)").wait_for(state="attached")
    found.page.wait_for_timeout(500)  # the sidebar slides away
    assert found.page.locator(".cf-row").nth(1).is_visible()
    assert found.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    found.page.get_by_role("button", name=say(language, "page.own")).click()
    found.page.locator("#controls.open").wait_for(state="attached")
    found.page.locator("#run").click()
    found.wait_for("viewer.race.source === 'live'")
    finish(found)
    found.page.locator("#controls:not(.open)").wait_for(state="attached")
    assert found.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("tab", ["race", "tokens", "steps"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(
    visit: NewVisit, scripted: Server, theme: str, tab: str
):
    found = visit(f"{scripted.url}?__theme={theme}")
    found.act("end")
    assert found.page.evaluate("document.body.classList.contains('dark')") == (theme == "dark")
    found.open_tab(tab)
    if tab == "steps":
        found.page.locator(".cf-step summary").first.click()
    found.page.wait_for_timeout(300)
    ratios = found.page.evaluate(f"({CONTRAST})(document.querySelector('.gradio-container'))")
    assert len(ratios) > 100
    assert [entry for entry in ratios if entry[0] < 4.5 and "cf-" in str(entry[1])] == []


def test_the_theme_switch_changes_the_viewers_colours(visit: NewVisit, scripted: Server):
    found = visit(f"{scripted.url}?__theme=light")
    found.act("end")
    colour = "getComputedStyle(document.querySelector('.cf-panel')).backgroundColor"
    light = found.page.evaluate(colour)
    strip = "document.querySelector('.cf-row[data-lane=confu] canvas').toDataURL()"
    drawn = found.page.evaluate(strip)
    found.page.get_by_role("button", name="Light or dark").click()
    found.settle()
    assert found.page.evaluate(colour) != light
    assert found.page.evaluate(strip) != drawn


@pytest.mark.parametrize("tab", ["race", "tokens", "steps"])
def test_axe_finds_nothing_serious_in_the_viewer(visit: NewVisit, scripted: Server, tab: str):
    found = visit(scripted.url)
    found.act("end")
    found.open_tab(tab)
    results = Axe().run(found.page, context="#viewer")
    serious = [
        (violation["id"], [node["html"][:120] for node in violation["nodes"][:3]])
        for violation in results.response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
    assert serious == []
