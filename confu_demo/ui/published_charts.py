"""The repository's published measurements as charts and tables. Reads JSON, knows no engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from confu_demo.ui.wording import say

RESULTS = Path(__file__).resolve().parents[2] / "assets" / "results"
BASELINE = "autoregressive"
COLOURS = {
    "autoregressive": "#9aa0ab", "prompt_lookup": "#8b6bd6", "eagle3": "#2f7fd0",
    "confu": "#0f8a7e", "specreason": "#b8860b", "lookahead": "#a05195", "confspec": "#d9822b",
    "confspec+prompt_lookup": "#c8615a", "confspec+eagle3": "#5b5bd6", "confspec+confu": "#c8354f",
}  # fmt: skip
OTHER_COLOUR = "#777c86"
HEIGHT = 330


@dataclass(frozen=True, slots=True)
class Published:
    """One file of results. ``kind`` is bench, calibration or gammas."""

    name: str
    kind: str
    data: dict[str, Any]

    @property
    def provenance(self) -> str:
        """One line: problems, machine, versions, commit, date."""
        made, settings = self.data["provenance"], self.data["settings"]
        versions = made["versions"]
        pairs = versions.items() if isinstance(versions, dict) else versions
        named = ", ".join(f"{name} {version}" for name, version in pairs if name != "gradio")
        return (
            f"{settings['suite']}, {settings['problems']} x {settings['split']}, "
            f"T = {settings.get('sampling.temperature', '0.0')} · {made['device']}, "
            f"{made['dtype']}, {made['threads']} threads · {named} · {made['commit'][:12]} · "
            f"{made['created'][:10]} · {made['command']}"
        )


def shelf(folder: Path = RESULTS) -> dict[str, Published]:
    """The results that have charts, by file name; a file that is none of them is left out."""
    found: dict[str, Published] = {}
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        kind = _kind(data)
        if kind:
            found[path.stem] = Published(path.stem, kind, data)
    return found


def _kind(data: dict[str, Any]) -> str:
    if "methods" in data:
        return "bench"
    if "gates" in data:
        return "calibration"
    points = data.get("points", {})
    return "gammas" if any(", gamma " in name for name in points) else ""


def charts(published: Published, language: str) -> list[go.Figure]:
    """Two charts of a file of results."""
    if published.kind == "bench":
        return [speedup_chart(published.data, language), accuracy_chart(published.data, language)]
    if published.kind == "calibration":
        return [reliability_chart(published.data, language), gate_chart(published.data, language)]
    return gamma_charts(published.data, language)


def table(published: Published, language: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the numbers behind the charts."""
    if published.kind == "calibration":
        header = [
            say(language, f"bench.{key}") for key in ("gamma", "coverage", "right", "harmful")
        ]
        return header, [
            [
                _threshold(gate["threshold"]),
                _number(gate["coverage"], 3),
                _number(gate["confident_accuracy"], 3),
                f"{gate['harmful']} / {gate['accepted']}",
            ]
            for gate in published.data["gates"]
        ]
    rows = published.data["methods"] if published.kind == "bench" else published.data["points"]
    lengths = {
        row["name"]: row["length"]
        for row in (published.data.get("acceptance") or {"rows": []})["rows"]
    }
    keys = ("method", "speedup", "length", "accuracy", "kept", "escalated", "tokens_per_s")
    return [say(language, f"bench.{key}") for key in keys], [
        [
            lane_name(name, language),
            _number(row["speedup"], 2, "x"),
            _number(lengths.get(name, row["acceptance_length"]), 2),
            _number(row["accuracy"], 3),
            _number(row.get("step_acceptance"), 3),
            _number(row.get("escalation_rate"), 3),
            _number(row["tokens_per_s"], 1),
        ]
        for name, row in rows.items()
    ]


def lane_name(name: str, language: str) -> str:
    method, comma, rest = name.partition(",")
    return say(language, f"method.{method}") + comma + rest


def speedup_chart(data: dict[str, Any], language: str) -> go.Figure:
    """Median speedup over plain decoding with quartiles; 1 is drawn as a line."""
    rows = {name: row for name, row in data["methods"].items() if row["speedup"] is not None}
    spans = [row["speedup_quartiles"] or (row["speedup"], row["speedup"]) for row in rows.values()]
    values = [row["speedup"] for row in rows.values()]
    figure = go.Figure(
        go.Bar(
            x=[lane_name(name, language) for name in rows],
            y=values,
            marker_color=[COLOURS.get(name, OTHER_COLOUR) for name in rows],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [
                    max(0.0, high - value) for value, (_, high) in zip(values, spans, strict=True)
                ],
                "arrayminus": [
                    max(0.0, value - low) for value, (low, _) in zip(values, spans, strict=True)
                ],
            },
            text=[f"{value:.2f}x" for value in values],
            textposition="inside",
            insidetextanchor="start",  # away from the whiskers
        )
    )
    figure.add_hline(y=1.0, line_dash="dot", line_color=OTHER_COLOUR)
    return _styled(figure, say(language, "bench.speedup_chart"), "", say(language, "bench.speedup"))


def accuracy_chart(data: dict[str, Any], language: str) -> go.Figure:
    """Answers right against speed; for ungraded prompts the acceptance length by method."""
    graded = {name: row for name, row in data["methods"].items() if row["accuracy"] is not None}
    if not graded:
        return length_chart(data, language)
    figure = go.Figure()
    for name, row in graded.items():
        low, high = row["accuracy_interval"]
        figure.add_trace(
            go.Scatter(
                x=[row["speedup"] or 1.0],
                y=[row["accuracy"]],
                mode="markers",
                name=lane_name(name, language),
                marker={"size": 13, "color": COLOURS.get(name, OTHER_COLOUR)},
                error_y={
                    "type": "data", "symmetric": False,
                    "array": [high - row["accuracy"]], "arrayminus": [row["accuracy"] - low],
                    "thickness": 1,
                },
            )
        )  # fmt: skip
    title = say(language, "bench.accuracy_chart")
    return _styled(figure, title, say(language, "bench.speedup"), say(language, "bench.accuracy"))


def length_chart(data: dict[str, Any], language: str) -> go.Figure:
    """Acceptance lengths with their intervals over prompts."""
    rows = (data.get("acceptance") or {"rows": []})["rows"]
    figure = go.Figure(
        go.Bar(
            x=[lane_name(row["name"], language) for row in rows],
            y=[row["length"] for row in rows],
            marker_color=[COLOURS.get(row["name"], OTHER_COLOUR) for row in rows],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [row["length_interval"][1] - row["length"] for row in rows],
                "arrayminus": [row["length"] - row["length_interval"][0] for row in rows],
            },
            text=[f"{row['length']:.2f}" for row in rows],
            textposition="inside",
            insidetextanchor="start",  # away from the whiskers
        )
    )
    return _styled(figure, say(language, "bench.length_chart"), "", say(language, "bench.length"))


def reliability_chart(data: dict[str, Any], language: str) -> go.Figure:
    """How often both judges are right at each confidence; the diagonal is a calibrated judge."""
    figure = go.Figure(
        go.Scatter(
            x=[0.5, 1.0], y=[0.5, 1.0], mode="lines", showlegend=False,
            line={"dash": "dot", "color": OTHER_COLOUR},
        )
    )  # fmt: skip
    for judge, colour in (("draft", COLOURS["confu"]), ("target", COLOURS["confspec"])):
        bins = [each for each in data["judges"][judge]["reliability"] if each["count"]]
        figure.add_trace(
            go.Scatter(
                x=[each["confidence"] for each in bins],
                y=[each["accuracy"] for each in bins],
                mode="markers+lines",
                name=say(language, f"author.{judge}"),
                text=[str(each["count"]) for each in bins],
                marker={
                    "color": colour,
                    "size": [6 + 2 * len(str(each["count"])) ** 2 for each in bins],
                },
            )
        )
    title = say(language, "bench.reliability_chart")
    return _styled(figure, title, say(language, "bench.confidence"), say(language, "bench.right"))


def gate_chart(data: dict[str, Any], language: str) -> go.Figure:
    """Coverage and accuracy of the verdicts that stand, against the threshold."""
    gates = data["gates"]
    places = [_threshold(gate["threshold"]) for gate in gates]
    figure = go.Figure()
    for key, field, colour in (
        ("coverage", "coverage", COLOURS["eagle3"]),
        ("right", "confident_accuracy", COLOURS["confu"]),
    ):
        figure.add_trace(
            go.Scatter(
                x=places, y=[gate[field] for gate in gates], mode="markers+lines",
                name=say(language, f"bench.{key}"), marker_color=colour,
            )
        )  # fmt: skip
    return _styled(figure, say(language, "bench.gate_chart"), say(language, "bench.gamma"), "")


def gamma_charts(data: dict[str, Any], language: str) -> list[go.Figure]:
    """What the threshold does to speed, answers and escalations in real runs."""
    points = {
        name.partition(", gamma ")[2]: row
        for name, row in data["points"].items()
        if ", gamma " in name
    }
    places = list(points)
    speed = go.Figure(
        go.Scatter(
            x=places, y=[row["speedup"] for row in points.values()], mode="markers+lines",
            marker_color=COLOURS["confspec"],
        )
    )  # fmt: skip
    gate = go.Figure()
    for key, field, colour in (
        ("accuracy", "accuracy", COLOURS["confu"]),
        ("escalated", "escalation_rate", COLOURS["confspec"]),
        ("kept", "step_acceptance", COLOURS["eagle3"]),
    ):
        gate.add_trace(
            go.Scatter(
                x=places, y=[row.get(field) for row in points.values()], mode="markers+lines",
                name=say(language, f"bench.{key}"), marker_color=colour,
            )
        )  # fmt: skip
    gamma = say(language, "bench.gamma")
    return [
        _styled(speed, say(language, "bench.gamma_speed"), gamma, say(language, "bench.speedup")),
        _styled(gate, say(language, "bench.gamma_gate"), gamma, ""),
    ]


def _styled(figure: go.Figure, title: str, x: str, y: str) -> go.Figure:
    """Transparent, so that it suits a light page and a dark one."""
    grey = "#7d838f"
    figure.update_layout(
        title={"text": title, "font": {"size": 14}},
        height=HEIGHT,
        margin={"l": 50, "r": 16, "t": 44, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": grey, "size": 12},
        legend={"orientation": "h", "y": -0.25},
    )
    figure.update_xaxes(
        title=x, gridcolor="rgba(128,128,128,0.2)", type="category" if not x else None
    )
    figure.update_yaxes(title=y, gridcolor="rgba(128,128,128,0.2)")
    return figure


def _threshold(gamma: float) -> str:
    return "> 1" if gamma > 1.0 else f"{gamma:g}"


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def choices(found: Sequence[Published], language: str) -> list[tuple[str, str]]:
    """What a list calls the files: their suite and what was measured."""
    return [
        (
            f"{each.data['settings']['suite']} · {say(language, f'bench.kind.{each.kind}')} · "
            f"{each.name}",
            each.name,
        )
        for each in found
    ]
