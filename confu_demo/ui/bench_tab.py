"""The page's Benchmark tab: the repository's published measurements, labelled as such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from confu_demo.ui.published_charts import RESULTS, Published, charts, choices, table
from confu_demo.ui.wording import LANGUAGES, say


@dataclass(frozen=True, slots=True)
class BenchTab:
    """Components by name, and what they show. Numbers come from files: nothing is measured."""

    named: dict[str, Any]
    found: Mapping[str, Published]

    def outputs(self) -> list[Any]:
        return [self.named[name] for name in ("what", "choose", *_SHOWN)]

    def words(self, language: str, chosen: str | None) -> list[Any]:
        """One update for each of :meth:`outputs`: everything in another language."""
        return [
            gr.update(value=say(language, "bench.what")),
            gr.update(**_choose(self.found, language)),
            *self.show(chosen, language),
        ]

    def show(self, chosen: str | None, language: str) -> list[Any]:
        """The charts, the table, where the numbers come from, and the file."""
        published = self.found.get(str(chosen)) or next(iter(self.found.values()))
        first, second = charts(published, language)
        header, rows = table(published, language)
        return [
            gr.update(value=first),
            gr.update(value=second),
            gr.update(headers=header, value=rows),
            gr.update(value=published.provenance),
            gr.update(
                label=say(language, "bench.download"), value=str(RESULTS / f"{published.name}.json")
            ),
        ]


_SHOWN = ("first", "second", "table", "provenance", "download")


def _choose(found: Mapping[str, Published], language: str) -> dict[str, Any]:
    return {
        "label": say(language, "bench.choose"),
        "info": say(language, "bench.choose.info"),
        "choices": choices(list(found.values()), language),
    }


def build_bench_tab(found: Mapping[str, Published]) -> BenchTab:
    """Builds the tab's components in the current context, in English, on the first file."""
    language, chosen = LANGUAGES[0], next(iter(found.values()))
    first, second = charts(chosen, language)
    header, rows = table(chosen, language)
    named: dict[str, Any] = {}
    named["what"] = gr.Markdown(say(language, "bench.what"), elem_id="bench-what")
    named["choose"] = gr.Dropdown(
        value=chosen.name, elem_id="bench-choose", **_choose(found, language)
    )
    with gr.Row():
        named["first"] = gr.Plot(first, show_label=False, container=False, min_width=320)
        named["second"] = gr.Plot(second, show_label=False, container=False, min_width=320)
    named["table"] = gr.Dataframe(
        rows, headers=header, interactive=False, show_label=False, wrap=True, elem_id="bench-table"
    )
    named["provenance"] = gr.Textbox(
        chosen.provenance, show_label=False, interactive=False, lines=2, max_lines=6,
        elem_id="bench-provenance",
    )  # fmt: skip
    named["download"] = gr.DownloadButton(
        say(language, "bench.download"), value=str(RESULTS / f"{chosen.name}.json"), size="sm"
    )
    return BenchTab(named, found)
