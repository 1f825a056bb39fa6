"""The sidebar's components, and their words in any language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from confu_demo.config import ALL_NODES, AUTO_BUDGET, ConfspecConfig, DecodeConfig, TreeConfig
from confu_demo.ui import race_form
from confu_demo.ui.race_form import FIELDS
from confu_demo.ui.runner import ProblemCard
from confu_demo.ui.suites import (
    SuiteEntry,
    card_label,
    fetch_label,
    find_entry,
    phrase,
    say_for,
    suite_choices,
)
from confu_demo.ui.wording import say

CHOICES = {"future": ("on", "zeroed", "shuffled"), "tree": ("auto", "fixed")}
BUDGETS = (1, 2, 4, 8, 16, 0)
BUTTONS = ("run", "stop", "new_numbers", "replay")
BY_SUITE = ("problem", "new_numbers", "text", "methods", "max_new_tokens", "as_problem", "fetch")
"""What changes with the suite, beside the words."""
NOT_AT_FIRST = ("specreason", "lookahead", "confspec+prompt_lookup", "confspec+eagle3")
"""A race of ten lanes is hard to follow."""
_MUTE = ("notice", "fetching", "recording")


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """Components by name. ``form`` are the entries of a race in the order of ``FIELDS``."""

    named: dict[str, Any]
    suites: tuple[SuiteEntry, ...]

    @property
    def form(self) -> list[Any]:
        return [self.named[name] for name in FIELDS]

    @property
    def spoken(self) -> list[str]:
        """The components whose words change with the language."""
        return [name for name in self.named if name not in _MUTE]

    def words(self, language: str, suite: str | None = None) -> list[Any]:
        """One update for each of :attr:`spoken`."""
        entry = find_entry(self.suites, suite)
        return [gr.update(**self._words_of(name, language, entry)) for name in self.spoken]

    def of_suite(self, language: str, suite: str) -> list[Any]:
        """One update for each of :data:`BY_SUITE`: the suite's prompts, lanes and words."""
        entry = find_entry(self.suites, suite)
        card = entry.gallery[0] if entry.gallery else None
        values: dict[str, dict[str, Any]] = {
            "problem": {"value": 0 if card else None, "visible": card is not None},
            "text": {"value": card.text if card else ""},
            "methods": {"value": first_lanes(entry.runner.methods())},
            "max_new_tokens": {"value": default_new_tokens(entry)},
            "fetch": {"visible": entry.must_fetch},
        }
        return [
            gr.update(**self._words_of(name, language, entry), **values.get(name, {}))
            for name in BY_SUITE
        ]

    def _words_of(self, name: str, language: str, entry: SuiteEntry) -> dict[str, Any]:
        if name in BUTTONS:
            return {"value": say_for(entry, language, f"page.{name}")}
        if name == "fetch":
            return {"value": fetch_label(entry, language)}
        words: dict[str, Any] = {"label": say_for(entry, language, f"page.{name}")}
        if name != "settings":
            words["info"] = say_for(entry, language, f"page.{name}.info")
        if name == "suite":
            words["choices"] = suite_choices(self.suites, language)
        if name == "methods":
            methods = entry.runner.methods()
            words["choices"] = method_choices(methods, language)
            words["info"] += missing_methods(methods, language)
        if name in ("future", "tree"):
            words["choices"] = named_choices(name, language)
        if name == "contemplate_budget":
            words["choices"] = budget_choices(language)
        if name == "problem":
            words["choices"] = problem_choices(entry.gallery, language)
        return words


def default_new_tokens(entry: SuiteEntry) -> int:
    wanted = entry.new_tokens or DecodeConfig().max_new_tokens
    return min(wanted, race_form.MAX_NEW_TOKENS)


def method_choices(methods: Sequence[tuple[str, bool, str]], language: str) -> list[Any]:
    return [(say(language, f"method.{name}"), name) for name, available, _ in methods if available]


def first_lanes(methods: Sequence[tuple[str, bool, str]]) -> list[str]:
    """The available lanes that are chosen at first: all but the relatives of others."""
    return [name for name, available, _ in methods if available and name not in NOT_AT_FIRST]


def named_choices(name: str, language: str) -> list[tuple[str, str]]:
    return [(say(language, f"page.{name}.{value}"), value) for value in CHOICES[name]]


def budget_choices(language: str) -> list[tuple[str, int]]:
    words = (("auto", AUTO_BUDGET), ("all", ALL_NODES))
    named = [(say(language, f"page.contemplate_budget.{word}"), value) for word, value in words]
    return [*named, *((str(value), value) for value in BUDGETS)]


def missing_methods(methods: Sequence[tuple[str, bool, str]], language: str) -> str:
    reasons = [
        f"{say(language, f'method.{name}')} ({phrase(why, language, why)})"
        for name, available, why in methods
        if not available
    ]
    return f" {say(language, 'page.unavailable')}: {', '.join(reasons)}." if reasons else ""


def problem_choices(gallery: Sequence[ProblemCard], language: str) -> list[Any]:
    return [
        (f"{place + 1} · {card_label(card, language)}", place) for place, card in enumerate(gallery)
    ]


def build_controls(suites: Sequence[SuiteEntry], recordings: Sequence[str]) -> Controls:
    """Builds the sidebar in the current Blocks context, in English, for the first suite."""
    controls = Controls(named={}, suites=tuple(suites))
    named = controls.named
    _build_buttons(named)
    _build_suite(controls)
    _build_problem(controls)
    with gr.Accordion(say("en", "page.settings"), open=False) as named["settings"]:
        _build_settings(named, suites[0])
    named["recording"] = gr.Dropdown(
        choices=list(recordings), value=recordings[0] if recordings else None,
        show_label=False, container=False, visible=len(recordings) > 1, elem_id="recording",
    )  # fmt: skip
    named["replay"] = gr.Button(
        say("en", "page.replay"), size="sm", visible=bool(recordings), elem_id="replay"
    )
    return controls


def _build_buttons(named: dict[str, Any]) -> None:
    with gr.Row():
        named["run"] = gr.Button(
            say("en", "page.run"), variant="primary", scale=3, min_width=80, elem_id="run"
        )
        named["stop"] = gr.Button(say("en", "page.stop"), scale=1, min_width=70, elem_id="stop")
    named["notice"] = _notice("notice")


def _notice(elem_id: str) -> gr.HTML:
    """An area for one message, filled by the page's script."""
    return gr.HTML(
        value="{}",
        html_template="<p class='cf-notice' role='status'></p>",
        js_on_load="ConfuHost.notice(element, props, watch);",
        apply_default_css=False,
        elem_id=elem_id,
    )


def _build_suite(controls: Controls) -> None:
    named, entry = controls.named, controls.suites[0]
    named["suite"] = gr.Radio(
        suite_choices(controls.suites, "en"), value=entry.name,
        visible=len(controls.suites) > 1, elem_id="suite", **_label("suite"),
    )  # fmt: skip
    named["fetch"] = gr.Button(
        fetch_label(entry, "en"), visible=entry.must_fetch, size="sm", elem_id="fetch"
    )
    named["fetching"] = _notice("fetching")


def _build_problem(controls: Controls) -> None:
    named, entry = controls.named, controls.suites[0]
    gallery, methods = entry.gallery, entry.runner.methods()
    named["problem"] = gr.Dropdown(
        choices=problem_choices(gallery, "en"), value=0 if gallery else None,
        visible=bool(gallery), elem_id="problem", **_label("problem", entry),
    )  # fmt: skip
    named["new_numbers"] = gr.Button(
        say_for(entry, "en", "page.new_numbers"), size="sm", elem_id="new-numbers"
    )
    named["text"] = gr.Textbox(
        value=gallery[0].text if gallery else "", lines=4, max_lines=8, elem_id="text",
        max_length=race_form.MAX_CHARACTERS, **_label("text", entry),
    )  # fmt: skip
    named["methods"] = gr.CheckboxGroup(
        choices=method_choices(methods, "en"),
        value=first_lanes(methods),
        label=say("en", "page.methods"),
        info=say("en", "page.methods.info") + missing_methods(methods, "en"),
        elem_id="methods",
    )


def _build_settings(named: dict[str, Any], entry: SuiteEntry) -> None:
    tree, confspec = TreeConfig(), ConfspecConfig()
    named["temperature"] = gr.Slider(0.0, 1.5, 0.0, step=0.1, **_label("temperature"))
    named["seed"] = gr.Number(0, precision=0, minimum=0, **_label("seed"))
    named["max_new_tokens"] = gr.Slider(
        16,
        race_form.MAX_NEW_TOKENS,
        default_new_tokens(entry),
        step=16,
        **_label("max_new_tokens"),
    )
    named["tree"] = gr.Radio(named_choices("tree", "en"), value="auto", **_label("tree"))
    named["tree_nodes"] = gr.Slider(
        2, race_form.MAX_TREE_NODES, tree.num_nodes, step=1, **_label("tree_nodes")
    )
    named["tree_depth"] = gr.Slider(
        1, race_form.MAX_TREE_DEPTH, tree.depth, step=1, **_label("tree_depth")
    )
    named["contemplate_budget"] = gr.Dropdown(
        budget_choices("en"), value=AUTO_BUDGET, **_label("contemplate_budget")
    )
    named["future"] = gr.Radio(named_choices("future", "en"), value="on", **_label("future"))
    named["threshold"] = gr.Slider(0.5, 1.05, confspec.threshold, step=0.01, **_label("threshold"))
    named["draft_steps"] = gr.Slider(
        0, race_form.MAX_DRAFT_STEPS, confspec.draft_steps, step=1, **_label("draft_steps")
    )
    named["audit"] = gr.Checkbox(confspec.audit, **_label("audit"))
    named["as_problem"] = gr.Checkbox(True, **_label("as_problem", entry))


def _label(name: str, entry: SuiteEntry | None = None) -> dict[str, str]:
    keys = {"label": f"page.{name}", "info": f"page.{name}.info"}
    return {
        what: say("en", key) if entry is None else say_for(entry, "en", key)
        for what, key in keys.items()
    }
