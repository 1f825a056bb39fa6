from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr
import pytest

from confu_demo.ui.controls import BY_SUITE, build_controls
from confu_demo.ui.layout import QUEUE_SIZE, build_page, launch_options
from confu_demo.ui.race_form import FIELDS
from confu_demo.ui.suites import card_label
from confu_demo.ui.wording import LANGUAGES, say
from tests.ui.scripted_suites import PROMPTS, scripted_suites

SUITES = scripted_suites()


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    page: Any = build_page(SUITES, {})
    page.close()
    return {"config": page.get_config_file(), "page": page}


def components(config: dict[str, Any]) -> dict[str, Any]:
    return {
        entry["props"]["elem_id"]: entry["props"]
        for entry in config["config"]["components"]
        if entry["props"].get("elem_id")
    }


def test_only_one_event_computes_and_it_waits_in_a_short_queue(config: dict[str, Any]):
    page = config["page"]
    computing = [fn for fn in page.fns.values() if fn.concurrency_id == "engine"]
    assert [fn.name for fn in computing] == ["race"]
    assert computing[0].concurrency_limit == 1
    assert page._queue.max_size == QUEUE_SIZE


def test_no_event_is_offered_as_an_interface_by_accident(config: dict[str, Any]):
    assert {fn.api_visibility for fn in config["page"].fns.values()} == {"private"}


def test_the_viewers_template_is_constant(config: dict[str, Any]):
    viewer = components(config)["viewer"]
    assert viewer["html_template"] == "<div class='cf-host'></div>"
    assert "${" not in viewer["html_template"]


def test_unavailable_lanes_are_not_offered_and_the_reason_is_given(config: dict[str, Any]):
    methods = components(config)["methods"]
    assert "prompt_lookup" not in [value for _, value in methods["choices"]]
    assert "switched off in this script" in methods["info"]


def test_the_suites_are_offered_and_the_first_one_is_chosen(config: dict[str, Any]):
    suite = components(config)["suite"]
    assert [value for _, value in suite["choices"]] == ["bundled", "smollm2-135m"]
    assert suite["value"] == "bundled"
    assert not components(config)["fetch"]["visible"], "the bundled suite has nothing to fetch"


def test_a_single_suite_needs_no_chooser():
    with gr.Blocks():
        controls = build_controls(SUITES[:1], [])
    assert not controls.named["suite"].visible


def test_downloads_do_not_wait_for_the_engine(config: dict[str, Any]):
    (fetching,) = [fn for fn in config["page"].fns.values() if fn.concurrency_id == "fetch"]
    assert fetching.name == "fetch"


@pytest.mark.parametrize("language", LANGUAGES)
def test_another_suite_brings_its_prompts_lanes_and_words(language: str):
    with gr.Blocks():
        controls = build_controls(SUITES, [])
    updates = dict(zip(BY_SUITE, controls.of_suite(language, "smollm2-135m"), strict=True))
    assert updates["text"]["value"] == PROMPTS[0].text
    assert updates["text"]["info"] == say(language, "page.text.info.chat")
    labels = [label for label, _ in updates["problem"]["choices"]]
    assert labels[0] == f"1 · {say(language, 'category.writing')} · Tell me about tea."
    assert updates["new_numbers"]["value"] == say(language, "page.new_numbers.chat")
    assert updates["max_new_tokens"]["value"] == 128
    assert updates["fetch"]["visible"]
    assert "93" in updates["fetch"]["value"]
    back = dict(zip(BY_SUITE, controls.of_suite(language, "bundled"), strict=True))
    assert back["text"]["info"] == say(language, "page.text.info")
    assert not back["fetch"]["visible"]


def test_a_change_of_language_keeps_the_words_of_the_chosen_suite():
    with gr.Blocks():
        controls = build_controls(SUITES, [])
    updates = dict(zip(controls.spoken, controls.words("ko", "smollm2-135m"), strict=True))
    assert updates["problem"]["label"] == say("ko", "page.problem.chat")
    assert "value" not in updates["problem"]
    assert [value for _, value in updates["suite"]["choices"]] == ["bundled", "smollm2-135m"]


def test_a_long_prompt_is_cut_in_the_list():
    label = card_label(replace(PROMPTS[0], text="word " * 40), "en")
    assert label.endswith("…")
    assert len(label) < 70


def test_the_page_is_launched_without_anything_from_outside():
    options = launch_options()
    assert options["ssr_mode"] is False
    assert options["run_history"] is False
    theme = options["theme"]
    assert theme._stylesheets == [], "web fonts are fetched"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_control_speaks_every_language(language: str):
    with gr.Blocks():
        controls = build_controls(SUITES, ["one"])
    updates = dict(zip(controls.spoken, controls.words(language), strict=True))
    assert updates["run"]["value"] == say(language, "page.run")
    for name in FIELDS:
        assert updates[name]["label"] == say(language, f"page.{name}")
        assert updates[name]["info"].startswith(say(language, f"page.{name}.info"))
    assert all("value" not in updates[name] for name in FIELDS), "an entry would be lost"
