"""The suite chooser on the whole page, with a scripted model whose weights are to be fetched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from confu_demo.ui.wording import say
from tests.browser.conftest import NewVisit, Server, Visit, serving
from tests.ui.scripted_lanes import PROBLEM
from tests.ui.scripted_suites import PROMPTS

pytestmark = pytest.mark.browser


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own, on which nobody has fetched anything; the first fetch fails. To be
    asked for before ``visit``, so that it outlives the pages."""
    folder = tmp_path_factory.mktemp("suites")
    command = ["-m", "tests.browser.scripted_app", "--folder", str(folder)]
    with serving(command, folder / "log") as server:
        yield server


def choose(found: Visit, key: str, language: str = "en") -> None:
    found.page.locator("#suite").get_by_text(say(language, f"suite.{key}")).click()


def text_of(found: Visit) -> str:
    return found.page.locator("#text textarea").input_value()


def race(found: Visit) -> None:
    found.page.locator("#run").click()
    found.wait_for("viewer.race.source === 'live'")
    found.wait_for("viewer.timeline.complete")
    found.act("end")


def test_another_suite_brings_its_prompts_and_the_first_one_comes_back(
    visit: NewVisit, scripted: Server
):
    found = visit(scripted.url)
    choose(found, "smollm2-135m")
    found.page.locator("#new-numbers", has_text=say("en", "page.new_numbers.chat")).wait_for()
    assert text_of(found) == PROMPTS[0].text
    found.page.locator("#problem input").click()
    found.page.get_by_role("option", name="<b>rain</b>").click()
    found.page.wait_for_function(
        "(text) => document.querySelector('#text textarea').value === text", arg=PROMPTS[1].text
    )
    assert found.page.locator("#controls b").count() == 0
    choose(found, "bundled")
    found.page.locator("#new-numbers", has_text=say("en", "page.new_numbers")).wait_for()
    assert text_of(found) == PROBLEM.text


def test_weights_that_are_missing_are_fetched_on_the_page(fresh: Server, visit: NewVisit):
    language = "ko"
    found = visit(f"{fresh.url}?lang={language}")
    found.page.locator("#run", has_text=say(language, "page.run")).wait_for()
    choose(found, "smollm2-135m", language)
    label = say(language, "page.fetch", megabytes=93)
    button = found.page.locator("#fetch", has_text=label)
    button.wait_for()
    found.page.locator("#run").click()
    found.page.locator("#notice", has_text=say(language, "notice.weights_missing")).wait_for()
    button.click()
    failed = say(language, "notice.fetch_failed", reason="the disk is full")
    found.page.locator("#fetching", has_text=failed).wait_for()
    button.click()
    found.page.locator("#fetching", has_text=say(language, "notice.fetched")).wait_for()
    button.wait_for(state="hidden")
    race(found)
    assert found.page.locator(".cf-prompt").inner_text() == PROMPTS[0].text
    assert found.viewer("viewer.race.expected") is None
    assert found.page.locator(".cf-right, .cf-wrong").count() == 0
    another = visit(fresh.url)
    choose(another, "smollm2-135m")
    another.page.locator("#new-numbers", has_text=say("en", "page.new_numbers.chat")).wait_for()
    assert another.page.locator("#fetch").count() == 0 or another.page.locator("#fetch").is_hidden()


def test_the_bundled_models_race_while_weights_are_being_fetched(fresh: Server, visit: NewVisit):
    found = visit(fresh.url)
    choose(found, "smollm2-135m")
    found.page.locator("#fetch").click()
    found.page.locator("#fetching", has_text="tiny.gguf").wait_for()
    choose(found, "bundled")
    found.page.locator("#new-numbers", has_text=say("en", "page.new_numbers")).wait_for()
    race(found)
    assert found.viewer("viewer.race.prompt") == PROBLEM.text


def test_leaving_the_page_stops_its_fetch(fresh: Server, visit: NewVisit):
    found = visit(fresh.url)
    choose(found, "smollm2-135m")
    found.page.locator("#fetch").click()
    found.page.locator("#fetching", has_text="tiny.gguf").wait_for()
    found.page.goto("about:blank")
    fresh.wait_until_printed("fetch closed")
    found.errors.clear()  # Gradio's client reports the connection that we cut
