"""The README's tables, rendered from the published results.

``python -m confu_demo.bench.published`` does it. A block of the README begins with
``<!-- results: KIND FILE -->`` and ends with ``<!-- end -->``; what stands between is rendered
from ``assets/results/FILE``. So no figure of a table is typed by hand, and a test tells when a
table and its file part. ``--check`` only says whether they do.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "assets" / "results"
NAMES = {
    "autoregressive": "plain decoding",
    "prompt_lookup": "prompt lookup",
    "eagle3": "EAGLE-3",
    "confu": "ConFu",
    "specreason": "SpecReason",
    "lookahead": "Lookahead Reasoning",
    "confspec": "ConfSpec",
    "confspec+prompt_lookup": "ConfSpec + prompt lookup",
    "confspec+eagle3": "ConfSpec + EAGLE-3",
    "confspec+confu": "ConfSpec + ConFu",
}
_BLOCK = re.compile(r"<!-- results: (\S+) (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
OUTSIDE = "not a model forward"


def rendered(text: str, results: Path = RESULTS) -> str:
    """The text with every block made anew. ``ValueError`` for a kind that nobody renders."""

    def block(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if kind not in KINDS:
            raise ValueError(f"no table is called {kind!r}: choose from {', '.join(KINDS)}")
        data = json.loads((results / name).read_text(encoding="utf-8"))
        lines = "\n".join(KINDS[kind](data))
        return f"<!-- results: {kind} {name} -->\n{lines}\n<!-- end -->"

    return _BLOCK.sub(block, text)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    marks = ["---", *["---:"] * (len(header) - 1)]
    return ["| " + " | ".join(cells) + " |" for cells in (header, marks, *rows)]


def _number(value: float | None, digits: int = 2, unit: str = "") -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def _with(
    value: float | None, span: Sequence[float] | None, digits: int = 2, unit: str = ""
) -> str:
    """A number with its interval or quartiles."""
    if value is None:
        return "-"
    extent = "" if span is None else f" ({span[0]:.{digits}f}-{span[1]:.{digits}f})"
    return f"{value:.{digits}f}{unit}{extent}"


def _name(method: str) -> str:
    head, comma, rest = method.partition(",")
    return NAMES.get(head, head) + comma + rest


def _share_of(share: float | None, total: int) -> str:
    return "-" if share is None else f"{round(share * total)} of {total}"


def tokens(data: dict[str, Any]) -> list[str]:
    """``bench`` of token methods: speedup, acceptance length, against EAGLE-3, time by part."""
    found = {row["name"]: row for row in (data["acceptance"] or {"rows": []})["rows"]}
    rows = []
    for method, values in data["methods"].items():
        accepted, parts = found.get(method, {}), values["ms_per_token"]
        is_plain = method == "autoregressive"
        rows.append(
            [
                _name(method),
                "1.00x"
                if is_plain
                else _with(values["speedup"], values["speedup_quartiles"], 2, "x"),
                _with(accepted.get("length"), accepted.get("length_interval")),
                "1"
                if method == "eagle3"
                else _with(accepted.get("ratio"), accepted.get("ratio_interval"), 3),
                _share_of(values["identical_share"], values["problems"]),
                _number(values["target_forwards_per_token"]),
                f"{'-' if is_plain else _number(parts['draft'])} / {_number(parts['verify'])} / "
                f"{_number(parts['other'])}",
            ]
        )
    return _table(
        ("method", "speedup (quartiles)", "acceptance length (95 %)", "against EAGLE-3 (95 %)",
         "same text as the target", "target forwards a token", "draft / verify / other ms a token"),
        rows,
    )  # fmt: skip


def methods(data: dict[str, Any]) -> list[str]:
    """``bench`` of token and step methods: speedup, answers, acceptance, steps, time by part."""
    found = {row["name"]: row for row in (data["acceptance"] or {"rows": []})["rows"]}
    rows = []
    for method, values in data["methods"].items():
        accepted, parts = found.get(method, {}), values["ms_per_token"]
        is_plain = method == "autoregressive"
        rows.append(
            [
                _name(method),
                "1.00x"
                if is_plain
                else _with(values["speedup"], values["speedup_quartiles"], 2, "x"),
                _with(values["accuracy"], values["accuracy_interval"], 3),
                _with(accepted.get("length"), accepted.get("length_interval")),
                _number(values.get("step_acceptance"), 3),
                _number(values.get("escalation_rate"), 3),
                _number(values.get("lost_share"), 3),
                _number(values["num_tokens_mean"], 0),
                f"{'-' if is_plain else _number(parts['draft'])} / {_number(parts['verify'])} / "
                f"{_number(parts['other'])}",
            ]
        )
    return _table(
        ("method", "speedup (quartiles)", "answers right (95 %)", "acceptance length (95 %)",
         "steps kept", "escalated", "time lost", "tokens", "draft / verify / other ms a token"),
        rows,
    )  # fmt: skip


def heads(data: dict[str, Any]) -> list[str]:
    """``train compare`` and ``train ablations``: chains, the ratio, every category."""
    categories = list(data["rows"][0]["by_category"])
    if len(categories) == 1:
        categories = []
    rows = []
    for row in data["rows"]:
        is_base = row["name"] == data["baseline"]
        rows.append(
            [
                row["name"],
                _with(row["length"], row["length_interval"]),
                "1" if is_base else _with(row["ratio"], row["ratio_interval"], 3),
                *(_number(row["by_category"][category]) for category in categories),
            ]
        )
    header = ("head", "chain length (95 %)", f"against {data['baseline']} (95 %)", *categories)
    return _table(header, rows)


def sweep(data: dict[str, Any]) -> list[str]:
    """``sweep`` of token methods: one row a setting."""
    rows = [
        [
            _name(name),
            _number(row["acceptance_length"]),
            _number(row["nodes_per_cycle"], 1),
            _number(row["contemplate_tokens_per_cycle"], 1),
            _number(row["speedup"], 2, "x"),
            _number(row["total_ms_per_token"], 1),
        ]
        for name, row in data["points"].items()
    ]
    header = (
        "setting",
        "acceptance length",
        "tree nodes",
        "contemplate tokens",
        "speedup",
        "ms a token",
    )
    equal = [
        f"* {row['kind']}: {_name(row['point'])} is {row['ratio']:.3f} "
        f"({row['ratio_interval'][0]:.3f}-{row['ratio_interval'][1]:.3f}) times "
        f"{_name(row['against'])}"
        for row in data["equal_work"]
    ]
    return _table(header, rows) + ([""] + equal if equal else [])


def step_sweep(data: dict[str, Any]) -> list[str]:
    """``sweep`` of step methods: what the gate did at every setting."""
    rows = [
        [
            _name(name),
            _number(row["speedup"], 2, "x"),
            _with(row["accuracy"], row["accuracy_interval"], 3),
            _number(row.get("step_acceptance"), 3),
            _number(row.get("escalation_rate"), 3),
            _number(row.get("lost_share"), 3),
        ]
        for name, row in data["points"].items()
    ]
    header = ("setting", "speedup", "answers right (95 %)", "steps kept", "escalated", "time lost")
    return _table(header, rows)


PART_ROWS = (
    ("target forward", ("target forward",)),
    ("draft layer, draft vocabulary, mixtures", ("draft layer", "draft vocabulary", "mixtures")),
    ("tree, its planning, drafter's rows", ("tree", "tree planning", "drafter's rows")),
    ("acceptance, masks, cache, lookup", ("acceptance", "masks", "cache", "lookup")),
    ("contemplation", ("contemplation",)),
    ("events, other", ("events", "other")),
)


def profile(data: dict[str, Any]) -> list[str]:
    """``profile``: milliseconds of a cycle, part by part."""
    profiles = data["profiles"]
    rows = []
    for label, names in PART_ROWS:
        cells = []
        for found in profiles.values():
            values = [found["parts"][name] for name in names if name in found["parts"]]
            cells.append(_number(sum(values)) if values else "-")
        rows.append([label, *cells])
    outside = [f"**{100 * found['outside_share']:.1f} %**" for found in profiles.values()]
    rows.append([f"**{OUTSIDE}**", *outside])
    return _table(("part", *map(_name, profiles)), rows)


def calibration(data: dict[str, Any]) -> list[str]:
    """``calibrate``: the gate at every threshold, and both judges in a sentence each."""
    rows = []
    for gate in data["gates"]:
        sure = gate["num_confident"]
        rows.append(
            [
                "above 1" if gate["threshold"] > 1.0 else f"{gate['threshold']:g}",
                _number(gate["coverage"], 3),
                _with(gate["confident_accuracy"], gate["interval"], 3),
                _number(gate["target_right"] / sure if sure else None, 3),
                str(gate["accepted"]),
                str(gate["harmful"]),
                str(gate["wasted"]),
            ]
        )
    judges = [
        f"* {name} judge: right {judge['accuracy']:.3f}, temperature {judge['temperature']:.2f}, "
        f"expected calibration error {judge['ece']:.3f} ({judge['ece_at_temperature_1']:.3f} at "
        "temperature 1)"
        for name, judge in data["judges"].items()
        if judge["accuracy"] is not None
    ]
    pairs = (
        f"* {data['pairs']} pairs of steps for a judge, {data['same']} mean the same; "
        f"{data['exact_matches']} more were equal word for word"
    )
    header = (
        "gamma", "coverage", "confident verdicts right (95 %)", "target's judge on these",
        "accepted", "harmful", "wasted",
    )  # fmt: skip
    return [*_table(header, rows), "", pairs, *judges]


KINDS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "tokens": tokens,
    "methods": methods,
    "heads": heads,
    "sweep": sweep,
    "step_sweep": step_sweep,
    "profile": profile,
    "calibration": calibration,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=ROOT / "README.md")
    parser.add_argument("--check", action="store_true", help="change nothing")
    args = parser.parse_args(arguments)
    before = args.file.read_text(encoding="utf-8")
    after = rendered(before)
    if not args.check:
        args.file.write_text(after, encoding="utf-8")
    same = before == after
    print(
        f"{args.file.name}: {'as published' if same else 'differs' if args.check else 'made anew'}"
    )
    return int(args.check and not same)


if __name__ == "__main__":
    sys.exit(main())
