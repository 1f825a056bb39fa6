"""The sidebar's components, and their words in any language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from confu_demo.config import ALL_NODES, AUTO_BUDGET, ConfspecConfig, DecodeConfig, TreeConfig
from confu_demo.ui import race_form
from confu_demo.ui.race_form import FIELDS
from confu_demo.ui.runner import ProblemCard, RaceRunner
from confu_demo.ui.wording import say

CHOICES = {"future": ("on", "zeroed", "shuffled"), "tree": ("auto", "fixed")}
BUDGETS = (1, 2, 4, 8, 16, 0)
BUTTONS = ("run", "stop", "new_numbers", "replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """Components by name. ``form`` are the entries of a race in the order of ``FIELDS``."""

    named: dict[str, Any]
    methods: tuple[tuple[str, bool, str], ...]
    gallery: tuple[ProblemCard, ...]

    @property
    def form(self) -> list[Any]:
        return [self.named[name] for name in FIELDS]

    @property
    def spoken(self) -> list[str]:
        """The components whose words change with the language."""
        return [name for name in self.named if name not in ("notice", "recording")]

    def words(self, language: str) -> list[Any]:
        """One update for each of :attr:`spoken`."""
        return [gr.update(**self._words_of(name, language)) for name in self.spoken]

    def _words_of(self, name: str, language: str) -> dict[str, Any]:
        if name in BUTTONS:
            return {"value": say(language, f"page.{name}")}
        words: dict[str, Any] = {"label": say(language, f"page.{name}")}
        if name != "settings":
            words["info"] = say(language, f"page.{name}.info")
        if name == "methods":
            words["choices"] = method_choices(self.methods, language)
            words["info"] += missing_methods(self.methods, language)
        if name in ("future", "tree"):
            words["choices"] = named_choices(name, language)
        if name == "contemplate_budget":
            words["choices"] = budget_choices(language)
        if name == "problem":
            words["choices"] = problem_choices(self.gallery, language)
        return words


def method_choices(methods: Sequence[tuple[str, bool, str]], language: str) -> list[Any]:
    return [(say(language, f"method.{name}"), name) for name, available, _ in methods if available]


def named_choices(name: str, language: str) -> list[tuple[str, str]]:
    return [(say(language, f"page.{name}.{value}"), value) for value in CHOICES[name]]


def budget_choices(language: str) -> list[tuple[str, int]]:
    words = (("auto", AUTO_BUDGET), ("all", ALL_NODES))
    named = [(say(language, f"page.contemplate_budget.{word}"), value) for word, value in words]
    return [*named, *((str(value), value) for value in BUDGETS)]


def missing_methods(methods: Sequence[tuple[str, bool, str]], language: str) -> str:
    reasons = [
        f"{say(language, f'method.{name}')} ({why})"
        for name, available, why in methods
        if not available
    ]
    return f" {say(language, 'page.unavailable')}: {', '.join(reasons)}." if reasons else ""


def problem_choices(gallery: Sequence[ProblemCard], language: str) -> list[Any]:
    return [
        (
            f"{place + 1} · {say(language, 'page.shown', steps=card.steps, family=card.family)}",
            place,
        )
        for place, card in enumerate(gallery)
    ]


def build_controls(
    runner: RaceRunner, gallery: Sequence[ProblemCard], recordings: Sequence[str]
) -> Controls:
    """Builds the sidebar in the current Blocks context, in English."""
    controls = Controls(named={}, methods=tuple(runner.methods()), gallery=tuple(gallery))
    named = controls.named
    _build_buttons(named)
    _build_problem(controls)
    with gr.Accordion(say("en", "page.settings"), open=False) as named["settings"]:
        _build_settings(named)
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
    named["notice"] = gr.HTML(
        value="{}",
        html_template="<p class='cf-notice' role='status'></p>",
        js_on_load="ConfuHost.notice(element, props, watch);",
        apply_default_css=False,
        elem_id="notice",
    )


def _build_problem(controls: Controls) -> None:
    named, gallery = controls.named, controls.gallery
    named["problem"] = gr.Dropdown(
        choices=problem_choices(gallery, "en"), value=0 if gallery else None,
        visible=bool(gallery), elem_id="problem", **_label("problem"),
    )  # fmt: skip
    named["new_numbers"] = gr.Button(
        say("en", "page.new_numbers"), size="sm", elem_id="new-numbers"
    )
    named["text"] = gr.Textbox(
        value=gallery[0].text if gallery else "", lines=4, max_lines=8, elem_id="text",
        max_length=race_form.MAX_CHARACTERS, **_label("text"),
    )  # fmt: skip
    named["methods"] = gr.CheckboxGroup(
        choices=method_choices(controls.methods, "en"),
        value=[name for name, available, _ in controls.methods if available],
        label=say("en", "page.methods"),
        info=say("en", "page.methods.info") + missing_methods(controls.methods, "en"),
        elem_id="methods",
    )


def _build_settings(named: dict[str, Any]) -> None:
    tree, confspec = TreeConfig(), ConfspecConfig()
    budget = min(DecodeConfig().max_new_tokens, race_form.MAX_NEW_TOKENS)
    named["temperature"] = gr.Slider(0.0, 1.5, 0.0, step=0.1, **_label("temperature"))
    named["seed"] = gr.Number(0, precision=0, minimum=0, **_label("seed"))
    named["max_new_tokens"] = gr.Slider(
        16, race_form.MAX_NEW_TOKENS, budget, step=16, **_label("max_new_tokens")
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
        1, race_form.MAX_DRAFT_STEPS, confspec.draft_steps, step=1, **_label("draft_steps")
    )
    named["as_problem"] = gr.Checkbox(True, **_label("as_problem"))


def _label(name: str) -> dict[str, str]:
    return {"label": say("en", f"page.{name}"), "info": say("en", f"page.{name}.info")}
