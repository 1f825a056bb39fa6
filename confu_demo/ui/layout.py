"""The page: a sidebar of controls and the viewer, wired to an injected runner.

Imports Gradio and the event stream, never the engine. The viewer is one constant element that
JavaScript fills (assets/js): Gradio only carries batches of events to it, because its templates
are evaluated and therefore not safe for model text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from confu_demo.ui import assets
from confu_demo.ui.bench_tab import BenchTab, build_bench_tab
from confu_demo.ui.controls import BY_SUITE, Controls, build_controls
from confu_demo.ui.handlers import Handlers
from confu_demo.ui.published_charts import shelf as shelf_of_results
from confu_demo.ui.race_log import RaceDesk
from confu_demo.ui.recordings import RecordingShelf
from confu_demo.ui.suites import SuiteEntry
from confu_demo.ui.theme import make_theme
from confu_demo.ui.wording import LANGUAGES, say

ENGINE: dict[str, Any] = {"concurrency_id": "engine", "concurrency_limit": 1}
FETCH: dict[str, Any] = {"concurrency_id": "fetch", "concurrency_limit": 1}
"""Downloads wait for one another and for nothing else."""
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
QUEUE_SIZE = 20


def build_page(suites: Sequence[SuiteEntry], recordings: Mapping[str, Path]) -> gr.Blocks:
    """The whole page, on the first of ``suites``. ``recordings`` maps a name to a trace file; the
    first one opens at once."""
    desk = RaceDesk()
    shelf = RecordingShelf(recordings, [card for entry in suites for card in entry.gallery])
    handlers = Handlers(suites, desk)
    with gr.Blocks(title=say("en", "page.title"), analytics_enabled=False, fill_width=True) as page:
        with gr.Sidebar(width=336, elem_id="controls"):
            controls = build_controls(suites, shelf.names)
        heading = gr.HTML(
            value="",
            html_template="<div class='cf-page-head'></div>",
            js_on_load="ConfuHost.heading(element, trigger, 'input');",
            apply_default_css=False,
        )
        found = shelf_of_results()
        with gr.Tabs(elem_id="tabs"):
            # Its children stay: a race goes on while another tab is open.
            with gr.Tab(say("en", "bench.race_tab"), render_children=True, id="race") as race_tab:
                viewer = _build_viewer(desk, shelf)
            with gr.Tab(
                say("en", "bench.tab"), id="benchmark", visible=bool(found)
            ) as benchmark_tab:
                bench = build_bench_tab(found) if found else None
        run_id = gr.State(None)
        card = gr.State(handlers.first_card(None))
        language = gr.State(LANGUAGES[0])
        _wire_race(controls, handlers, viewer, run_id, card)
        _wire_problem(controls, handlers, card)
        _wire_language(heading, controls, language)
        if bench is not None:
            _wire_bench(heading, bench, (race_tab, benchmark_tab), language)
        _wire_suite(page, controls, handlers, card, language)
        page.unload(_leaving(desk))
    return page.queue(max_size=QUEUE_SIZE)


def launch_options() -> dict[str, Any]:
    """What ``launch`` has to be given for this page: look, scripts, and nothing from outside."""
    return {
        "theme": make_theme(),
        "head": assets.head(),
        "ssr_mode": False,
        "run_history": False,
        "footer_links": ["gradio"],
    }


def _leaving(desk: RaceDesk) -> Callable[[gr.Request], None]:
    """A visitor who closes the page gives the engine back at the next cycle."""

    def leave(request: gr.Request) -> None:
        desk.stop_session(request.session_hash or "")

    return leave


def _build_viewer(desk: RaceDesk, shelf: RecordingShelf) -> gr.HTML:
    def missing_batches(question: Any) -> Any:
        return desk.missing(question)

    def open_recording(name: Any) -> Any:
        return shelf.open(str(name))

    first = shelf.names[0] if shelf.names else None
    return gr.HTML(
        value=assets.as_script_data({"recording": first}),
        html_template="<div class='cf-host'></div>",
        js_on_load="ConfuHost.viewer(element, props, server, watch);",
        server_functions=[missing_batches, open_recording],
        apply_default_css=False,
        elem_id="viewer",
    )


def _wire_race(controls: Controls, handlers: Handlers, viewer: Any, run_id: Any, card: Any) -> None:
    named = controls.named

    def begin(card: Any, suite: Any, request: gr.Request, *entries: Any) -> Any:
        return handlers.begin(card, *entries, session=request.session_hash or "", suite=suite)

    start = named["run"].click(
        begin,
        [card, named["suite"], *controls.form],
        [named["notice"], run_id, viewer],
        queue=False,
        **QUIET,
    )
    # "multiple": Gradio would drop a second race that begins while the first still runs.
    start.then(
        handlers.race,
        [run_id],
        [viewer, named["notice"]],
        trigger_mode="multiple",
        **ENGINE,
        **QUIET,
    )
    named["stop"].click(handlers.stop, [run_id], [named["notice"]], queue=False, **QUIET)
    named["replay"].click(None, [named["recording"]], js="(name) => { ConfuHost.open(name); }")
    named["recording"].input(None, [named["recording"]], js="(name) => { ConfuHost.open(name); }")


def _wire_problem(controls: Controls, handlers: Handlers, card: Any) -> None:
    named = controls.named
    named["problem"].input(
        handlers.choose,
        [named["problem"], named["suite"]],
        [named["text"], card],
        queue=False,
        **QUIET,
    )
    named["new_numbers"].click(
        handlers.new_numbers,
        [card, named["suite"]],
        [named["text"], card, named["notice"]],
        queue=False,
        **QUIET,
    )


def _wire_suite(
    page: gr.Blocks, controls: Controls, handlers: Handlers, card: Any, language: Any
) -> None:
    """Another suite brings its prompts, its lanes and, where weights are missing, a button."""
    named = controls.named

    def switch(suite: Any, language: Any) -> Any:
        return [*controls.of_suite(language, suite), handlers.first_card(suite)]

    named["suite"].input(
        switch,
        [named["suite"], language],
        [*(named[name] for name in BY_SUITE), card],
        queue=False,
        **QUIET,
    )
    named["fetch"].click(
        handlers.fetch,
        [named["suite"]],
        [named["fetching"], named["fetch"], named["notice"]],
        **FETCH,
        **QUIET,
    )
    page.load(handlers.fetch_button, [named["suite"]], [named["fetch"]], queue=False, **QUIET)


def _wire_language(heading: Any, controls: Controls, language: Any) -> None:
    """The heading's language switch also changes the words of Gradio's own components."""

    def relabel(suite: Any, event: gr.EventData) -> Any:
        asked = str(event._data.get("language"))
        chosen = asked if asked in LANGUAGES else LANGUAGES[0]
        return [*controls.words(chosen, suite), chosen]

    heading.input(
        relabel,
        [controls.named["suite"]],
        [*(controls.named[name] for name in controls.spoken), language],
        queue=False,
        **QUIET,
    )


def _wire_bench(heading: Any, bench: BenchTab, tabs: tuple[Any, Any], language: Any) -> None:
    chosen = bench.named["choose"]
    chosen.input(bench.show, [chosen, language], bench.outputs()[2:], queue=False, **QUIET)

    def relabel(name: Any, event: gr.EventData) -> Any:
        asked = str(event._data.get("language"))
        spoken = asked if asked in LANGUAGES else LANGUAGES[0]
        labels = [gr.update(label=say(spoken, key)) for key in ("bench.race_tab", "bench.tab")]
        return [*labels, *bench.words(spoken, name)]

    heading.input(relabel, [chosen], [*tabs, *bench.outputs()], queue=False, **QUIET)
