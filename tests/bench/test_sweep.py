"""Curves: every value on the same problems, counted as the benchmark counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from confu_demo.__main__ import main
from confu_demo.bench.sweep import budget_points, tree_points
from confu_demo.config import ALL_NODES, AUTO_BUDGET, DecodeConfig, TreeConfig
from tests.tiny_suite import suite_folder

MACHINE = ("--device", "cpu", "--dtype", "float32", "--threads", "1")


def arguments(*more: str) -> list[str]:
    return [
        "sweep", "--suite", str(suite_folder()), "--problems", "2", "--max-new-tokens", "12",
        *MACHINE, *more,
    ]  # fmt: skip


def swept(tmp_path: Path, *more: str) -> dict[str, Any]:
    path = tmp_path / "sweep.json"
    assert main(arguments("--json", str(path), *more)) == 0
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def test_a_curve_over_budgets_has_a_row_for_each_and_the_plain_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    result = swept(tmp_path, "--budgets", "0, 2,all,auto", "--start", "3")
    rows = result["points"]
    assert list(rows) == [
        "autoregressive", "confu, budget 0", "confu, budget 2", "confu, budget all",
        "confu, budget auto",
    ]  # fmt: skip
    printed = capsys.readouterr().out
    assert all(f"\n{name} " in printed for name in rows)
    assert result["settings"]["start"] == 3
    assert result["provenance"]["dtype"] == "float32"
    for name, row in rows.items():
        assert row["failure"] == ""
        assert row["problems"] == 2
        if name != "autoregressive":
            assert row["identical_share"] == 1.0
    assert rows["confu, budget 0"]["contemplate_tokens_per_cycle"] == 0
    assert 0 < rows["confu, budget 2"]["contemplate_tokens_per_cycle"] <= 2
    every = rows["confu, budget all"]
    assert every["contemplate_tokens_per_cycle"] == pytest.approx(every["nodes_per_cycle"])
    parts = every["ms_per_token"]
    assert every["total_ms_per_token"] == pytest.approx(sum(parts.values()))


def test_a_curve_over_nodes_keeps_every_trees_size(tmp_path: Path):
    rows = swept(tmp_path, "--nodes", "1,4", "--tree-top-k", "3")["points"]
    assert list(rows) == [
        "autoregressive", "eagle3, nodes 1", "eagle3, nodes 4", "confu, nodes 1", "confu, nodes 4"
    ]  # fmt: skip
    assert rows["eagle3, nodes 1"]["nodes_per_cycle"] == pytest.approx(1)
    assert rows["eagle3, nodes 1"]["acceptance_length"] == pytest.approx(1)
    assert 3 < rows["eagle3, nodes 4"]["nodes_per_cycle"] <= 4
    assert rows["confu, nodes 4"]["contemplate_tokens_per_cycle"] > 3


def test_points_change_one_setting_and_nothing_else():
    config = DecodeConfig(max_new_tokens=7, tree=TreeConfig.auto())
    (one, auto) = budget_points(config, [("1", 1), ("auto", AUTO_BUDGET)])
    assert one.config.confu.contemplate_budget == 1
    assert auto.config.confu.contemplate_budget == AUTO_BUDGET
    assert one.config.tree == config.tree
    trees = [("9", TreeConfig(num_nodes=9), ALL_NODES)]
    (eagle, confu) = tree_points(config, trees, ["eagle3", "confu"])
    assert (eagle.name, confu.name) == ("eagle3, nodes 9", "confu, nodes 9")
    assert confu.config.tree.num_nodes == 9
    assert confu.config.max_new_tokens == 7


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ((), "nothing to sweep: name --budgets"),
        (("--budgets", ","), "nothing to sweep"),
        (("--budgets", "1,some"), "--budgets: 'some' is not auto, all or a number"),
        (("--budgets", "1,2,1"), "a value of the sweep is named twice"),
        (("--budgets", "-5"), "contemplate budget must be -2"),
        (("--budgets", "auto", "--tree", "fixed"), "contemplate budget auto needs tree auto"),
        (("--nodes", "8,many"), "--nodes: 'many' is neither a number nor auto"),
        (("--nodes", "0"), "tree nodes must be 1 to 256, not 0"),
        (("--nodes", "4", "--methods", "medusa"), "unknown method 'medusa'"),
        (("--budgets", "1", "--problems", "0"), "problems must be 1 or more"),
        (("--budgets", "1", "--json", "/nowhere/sweep.json"), "/nowhere"),
    ],
)
def test_a_wrong_sweep_is_one_line_and_exit_status_2(
    more: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments(*more)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


def test_confu_is_held_against_eagle3_at_equal_nodes_and_at_equal_verified_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    result = swept(tmp_path, "--nodes", "3,6", "--tree-top-k", "3")
    rows = result["points"]
    pairs = {(row["kind"], row["point"], row["against"]) for row in result["equal_work"]}
    assert pairs == {
        ("equal nodes", "confu, nodes 3", "eagle3, nodes 3"),
        ("equal nodes", "confu, nodes 6", "eagle3, nodes 6"),
        ("equal verified tokens", "confu, nodes 3", "eagle3, nodes 6"),
    }
    for row in result["equal_work"]:
        lengths = [rows[row[name]]["acceptance_length"] for name in ("point", "against")]
        assert row["length"] == pytest.approx(lengths[0])
        assert row["ratio"] == pytest.approx(lengths[0] / lengths[1])
        low, high = row["ratio_interval"]
        assert low <= row["ratio"] <= high
    printed = capsys.readouterr().out
    assert "equal nodes: confu, nodes 3 against eagle3, nodes 3: " in printed


def test_without_eagle3_nothing_is_compared(tmp_path: Path):
    assert swept(tmp_path, "--budgets", "0,1")["equal_work"] == []


def test_a_curve_over_gammas_tells_what_the_gate_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = swept(tmp_path, "--gammas", "0.5,0.9,2", "--max-new-tokens", "48")["points"]
    assert list(rows) == [
        "autoregressive", "confspec, gamma 0.5", "confspec, gamma 0.9", "confspec, gamma 2",
    ]  # fmt: skip
    printed = capsys.readouterr().out
    assert "steps kept" in printed
    assert "accepted" not in printed
    for name in list(rows)[1:]:
        assert rows[name]["failure"] == ""
    assert rows["confspec, gamma 0.5"]["escalation_rate"] in (None, 0.0)
    assert rows["confspec, gamma 2"]["escalation_rate"] in (None, 1.0)


def test_a_curve_over_draft_steps_may_leave_their_number_to_the_machine(tmp_path: Path):
    rows = swept(tmp_path, "--steps", "1,auto", "--methods", "lookahead", "--gamma", "0.8")[
        "points"
    ]
    assert list(rows) == ["autoregressive", "lookahead, k 1", "lookahead, k auto"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gammas", "0.5,high"), "'high' is not a number"),
        (("--gammas", "3"), "gamma (the confidence threshold) must be 0 to 2"),
        (("--steps", "1,some"), "'some' is neither a number nor auto"),
        (("--steps", "1,1"), "named twice"),
    ],
)
def test_a_wrong_gamma_or_number_of_steps_is_one_clear_line(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments(*words)) == 2
    assert message in capsys.readouterr().err
