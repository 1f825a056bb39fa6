"""The Benchmark tab in a browser: drawn, switched, translated, and without a request outside."""

from __future__ import annotations

import pytest

from confu_demo.ui.published_charts import shelf
from confu_demo.ui.wording import say
from tests.browser.conftest import PHONE, NewVisit, Server, Visit

pytestmark = pytest.mark.browser


def open_benchmark(found: Visit, language: str = "en") -> None:
    found.page.get_by_role("tab", name=say(language, "bench.tab")).click()
    found.page.locator(".js-plotly-plot").nth(1).wait_for()


def test_published_measurements_are_drawn_and_labelled(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    open_benchmark(found)
    first = next(iter(shelf().values()))
    titles = found.page.locator(".js-plotly-plot .gtitle").all_text_contents()
    assert titles == [say("en", "bench.speedup_chart"), say("en", "bench.accuracy_chart")]
    assert found.page.locator(".js-plotly-plot .bars .point").count() == len(first.data["methods"])
    assert found.page.locator("#bench-provenance textarea").input_value() == first.provenance
    assert "nothing here is measured now" in found.page.locator("#bench-what").inner_text()


def test_another_measurement_and_another_language_can_be_chosen(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    open_benchmark(found)
    found.page.locator("#bench-choose input").click()
    found.page.get_by_role("option", name="bundled_calibration").click()
    found.page.get_by_text(say("en", "bench.reliability_chart")).wait_for()
    assert found.page.locator("#bench-provenance textarea").input_value().startswith("bundled, 200")
    found.page.get_by_role("button", name="한국어").click()
    found.page.get_by_text(say("ko", "bench.reliability_chart")).wait_for()
    assert found.page.get_by_role("tab", name=say("ko", "bench.tab")).is_visible()
    assert say("ko", "bench.harmful") in found.page.locator("#bench-table").inner_text()


def test_a_race_goes_on_while_the_benchmark_is_looked_at(visit: NewVisit, scripted: Server):
    found = visit(scripted.url)
    found.page.locator("#run").click()
    found.wait_for("viewer.race.source === 'live'")
    open_benchmark(found)
    found.wait_for("viewer.timeline.complete")
    found.page.get_by_role("tab", name=say("en", "bench.race_tab")).click()
    found.act("end")
    assert found.page.locator(".cf-row[data-lane]").first.is_visible()
    assert found.viewer("viewer.timeline.logs.every((log) => log.finish)")


def test_the_benchmark_fits_a_phone(visit: NewVisit, scripted: Server):
    found = visit(scripted.url, viewport=PHONE)
    open_benchmark(found)
    assert found.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
