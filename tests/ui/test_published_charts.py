"""The Benchmark tab draws the published numbers and no others."""

from __future__ import annotations

import json
from pathlib import Path

import gradio as gr
import pytest

from confu_demo.ui.bench_tab import build_bench_tab
from confu_demo.ui.published_charts import (
    RESULTS,
    Published,
    accuracy_chart,
    charts,
    gate_chart,
    length_chart,
    reliability_chart,
    shelf,
    speedup_chart,
    table,
)
from confu_demo.ui.wording import LANGUAGES, say

FOUND = shelf()


def of_kind(kind: str) -> list[Published]:
    return [each for each in FOUND.values() if each.kind == kind]


def test_the_shelf_holds_every_benchmark_of_the_repository_and_nothing_unknown(tmp_path: Path):
    assert {"bundled_2cpu", "smollm2_2cpu", "bundled_calibration"} <= set(FOUND)
    (tmp_path / "other.json").write_text('{"rows": []}', encoding="utf-8")
    assert shelf(tmp_path) == {}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", FOUND)
def test_every_file_has_two_charts_a_table_and_its_provenance(name: str, language: str):
    published = FOUND[name]
    drawn = charts(published, language)
    assert len(drawn) == 2
    for figure in drawn:
        json.loads(figure.to_json())  # nothing that a browser could not read
        assert figure.layout.title.text
        assert any(len(trace.x) for trace in figure.data)
    header, rows = table(published, language)
    assert rows
    assert all(len(row) == len(header) for row in rows)
    made = published.data["provenance"]
    assert made["commit"][:12] in published.provenance
    assert made["device"] in published.provenance
    assert made["command"] in published.provenance


def test_bars_and_whiskers_are_the_medians_and_quartiles():
    for published in of_kind("bench"):
        (bars,) = speedup_chart(published.data, "en").data
        methods = published.data["methods"]
        assert list(bars.x) == [say("en", f"method.{name}") for name in methods]
        assert list(bars.y) == [row["speedup"] for row in methods.values()]
        for place, row in enumerate(methods.values()):
            low, high = row["speedup_quartiles"]
            assert bars.y[place] + bars.error_y.array[place] == pytest.approx(
                max(high, row["speedup"])
            )
            assert bars.y[place] - bars.error_y.arrayminus[place] == pytest.approx(
                min(low, row["speedup"])
            )


def test_graded_prompts_show_answers_and_others_the_acceptance_length():
    graded, free = FOUND["bundled_2cpu"].data, FOUND["smollm2_2cpu"].data
    points = accuracy_chart(graded, "en").data
    assert [point.y[0] for point in points] == [
        row["accuracy"] for row in graded["methods"].values()
    ]
    lengths = [row["length"] for row in free["acceptance"]["rows"]]
    assert list(accuracy_chart(free, "en").data[0].y) == lengths
    assert list(length_chart(free, "en").data[0].y) == lengths


def test_the_gate_is_drawn_as_it_was_counted():
    (published,) = of_kind("calibration")
    covered, right = gate_chart(published.data, "en").data
    assert list(covered.y) == [gate["coverage"] for gate in published.data["gates"]]
    assert list(right.y) == [gate["confident_accuracy"] for gate in published.data["gates"]]
    diagonal, draft, target = reliability_chart(published.data, "en").data
    assert list(diagonal.x) == list(diagonal.y) == [0.5, 1.0]
    for trace, name in ((draft, "draft"), (target, "target")):
        bins = [b for b in published.data["judges"][name]["reliability"] if b["count"]]
        assert list(trace.text) == [str(b["count"]) for b in bins]
        assert list(trace.y) == [b["accuracy"] for b in bins]


def test_another_file_or_language_changes_everything_that_is_shown():
    with gr.Blocks():
        bench = build_bench_tab(FOUND)
    first, second, shown, provenance, download = bench.show("smollm2_2cpu", "ko")
    assert first["value"].layout.title.text == say("ko", "bench.speedup_chart")
    assert second["value"].layout.title.text == say("ko", "bench.length_chart")
    assert shown["headers"][0] == say("ko", "bench.method")
    assert "smollm2-135m" in provenance["value"]
    assert download["value"] == str(RESULTS / "smollm2_2cpu.json")
    assert len(bench.words("ko", None)) == len(bench.outputs())
    nowhere = bench.show("../../etc/passwd", "en")
    assert nowhere[-1]["value"] == str(RESULTS / f"{next(iter(FOUND))}.json")
