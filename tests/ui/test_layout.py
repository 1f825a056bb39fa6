from __future__ import annotations

from typing import Any

import gradio as gr
import pytest

from confu_demo.ui.controls import build_controls
from confu_demo.ui.layout import QUEUE_SIZE, build_page, launch_options
from confu_demo.ui.race_form import FIELDS
from confu_demo.ui.wording import LANGUAGES, say
from tests.ui.scripted_lanes import PROBLEM
from tests.ui.scripted_runner import ScriptedRunner


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    page: Any = build_page(ScriptedRunner(), [PROBLEM], {})
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


def test_the_page_is_launched_without_anything_from_outside():
    options = launch_options()
    assert options["ssr_mode"] is False
    assert options["run_history"] is False
    theme = options["theme"]
    assert theme._stylesheets == [], "web fonts are fetched"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_control_speaks_every_language(language: str):
    with gr.Blocks():
        controls = build_controls(ScriptedRunner(), [PROBLEM], ["one"])
    updates = dict(zip(controls.spoken, controls.words(language), strict=True))
    assert updates["run"]["value"] == say(language, "page.run")
    for name in FIELDS:
        assert updates[name]["label"] == say(language, f"page.{name}")
        assert updates[name]["info"].startswith(say(language, f"page.{name}.info"))
    assert all("value" not in updates[name] for name in FIELDS), "an entry would be lost"
