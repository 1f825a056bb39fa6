"""``app.py`` itself, with the bundled models: the page that a newcomer opens."""

from __future__ import annotations

import pytest

from tests.browser.conftest import NewVisit, Server, Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOSSLESS = ("eagle3", "confu")


def race(found: Visit) -> None:
    found.page.locator("#run").click()
    found.wait_for("viewer.race.source === 'live'", seconds=120)  # loads the models


def finish(found: Visit) -> None:
    found.wait_for("viewer.timeline.complete", seconds=180)
    found.act("end")


def test_the_application_opens_and_races_all_lanes_with_real_output(
    visit: NewVisit, application: Server
):
    found = visit()
    found.page.goto(application.url)
    found.page.locator("#run").wait_for()
    race(found)
    finish(found)
    lanes = found.viewer(
        "viewer.timeline.logs.map((log) =>"
        " [log.name, log.textAt(Infinity), log.finish.event.reason])"
    )
    names = [name for name, _, _ in lanes]
    assert {"autoregressive", "eagle3", "confu", "confspec"} <= set(names)
    assert all(reason in ("eos", "length") for _, _, reason in lanes)
    texts = {name: text for name, text, _ in lanes}
    assert all(text.strip() for text in texts.values())
    for lane in LOSSLESS:  # greedy by default
        assert texts[lane] == texts["autoregressive"]
        badges = found.page.locator(f".cf-output[data-lane={lane}] .cf-badges").inner_text()
        assert "identical to the target's output" in badges
    found.open_tab("tokens")
    for lane in LOSSLESS:
        tree = found.page.locator(f".cf-lane[data-lane={lane}] .cf-tree")
        assert tree.locator(".cf-node-accepted, .cf-node-root").count() > 0
    assert found.page.locator(".cf-heat-con .cf-chosen").count() > 0
    found.open_tab("steps")
    assert found.page.locator(".cf-step").count() > 0
    assert "bundled/target" in found.page.locator(".cf-origin").inner_text()


def test_stop_frees_the_real_engine_and_the_next_race_runs(visit: NewVisit, application: Server):
    found = visit()
    found.page.goto(application.url)
    found.page.locator("#run").wait_for()
    race(found)
    found.page.locator("#stop").click()
    finish(found)
    first = found.viewer("viewer.race.id")
    found.page.locator("#run").click()
    found.wait_for(f"viewer.race.id > {first}")
    finish(found)
    reasons = found.viewer("viewer.timeline.logs.map((log) => log.finish.event.reason)")
    assert reasons
    assert set(reasons) <= {"eos", "length"}


def test_every_setting_reaches_the_engine(visit: NewVisit, application: Server):
    found = visit()
    found.page.goto(application.url)
    found.page.locator("#run").wait_for()
    found.page.get_by_text("Settings", exact=True).click()
    found.page.get_by_label("zeroed").check()
    race(found)
    finish(found)
    config = dict(found.viewer("viewer.timeline.log('confu').start.event.config"))
    assert config["confu.future"] == "zeroed"
