"""The viewer alone on an empty page: no Gradio, no server. Another host would do the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playwright.sync_api import Page

from confu_demo.trace import Event
from confu_demo.trace_io import to_json
from confu_demo.ui.assets import as_script_data, style, viewer_script
from confu_demo.ui.wording import dictionary
from tests.ui.scripted_lanes import PROBLEM, scripted_lanes

Lanes = dict[str, list[dict[str, Any]]]


def lanes_as_json(lanes: Mapping[str, Sequence[Event]] | None = None) -> Lanes:
    chosen = scripted_lanes() if lanes is None else lanes
    return {lane: [to_json(event) for event in events] for lane, events in chosen.items()}


def recording(lanes: Lanes | None = None, expected: str | None = PROBLEM.answer) -> dict[str, Any]:
    return {
        "title": "a race",
        "created": "2026-01-02",
        "prompt": PROBLEM.text,
        "expected": expected,
        "lanes": lanes_as_json() if lanes is None else lanes,
    }


def mount(page: Page, language: str = "en", options: str = "") -> None:
    """Puts a viewer on the page as ``window.viewer``; ``options`` is JavaScript of more options."""
    page.set_content(
        f"<!doctype html><html lang='en'><head><title>viewer</title><style>{style()}</style></head>"
        f"<body><main id='here'></main><script>{viewer_script()}</script><script>"
        f"window.WORDS = {as_script_data(dictionary())};"
        f"window.viewer = ConfuViewer.mount(document.getElementById('here'),"
        f" {{words: WORDS, lang: '{language}', {options}}});</script></body></html>"
    )


def load(page: Page, race: dict[str, Any], autoplay: bool = False) -> None:
    page.evaluate("([race, autoplay]) => window.viewer.load(race, {autoplay})", [race, autoplay])
