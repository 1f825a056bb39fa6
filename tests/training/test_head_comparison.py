"""Finished heads in one table: names, controls, pairing by prompt, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from confu_demo.__main__ import main
from confu_demo.engine.errors import MissingModel
from confu_demo.heads.checkpoint import save_head
from confu_demo.training.eagle3 import EagleObjective
from confu_demo.training.head_comparison import compare_heads, parse_heads, write_comparison
from confu_demo.training.head_job import HeadJob, Material
from tests.training.head_kit import document, random_confu, random_eagle, tiny_target
from tests.training.test_ablations import SETTINGS

HELD_OUT = [document(14, 3, 40 + seed) for seed in range(4)]  # one length: one order


@pytest.fixture(autouse=True)
def _material(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Material(
        target=tiny_target(dtype=torch.float32).requires_grad_(False),
        target_sha256="",
        train=HELD_OUT[:1],
        calibration=HELD_OUT[:1],
        heldout=HELD_OUT,
        heldout_categories=["code", "writing", "code", "writing"],
    )
    monkeypatch.setattr(
        "confu_demo.training.head_comparison.load_material", lambda job, settings, say: found
    )


@pytest.fixture
def job(tmp_path: Path) -> HeadJob:
    return HeadJob(target=tmp_path, outputs=tmp_path, work=tmp_path, out=tmp_path)


def test_every_head_and_control_is_scored_from_its_folder_and_held_against_the_first(
    job: HeadJob, tmp_path: Path
) -> None:
    base, other = random_eagle(0, torch.float32), random_confu(1, torch.float32)
    save_head(tmp_path / "base", base, {}, dtype=torch.bfloat16)
    save_head(tmp_path / "confu", other, {}, dtype=torch.bfloat16)
    lines: list[str] = []
    heads = parse_heads(f"plain={tmp_path / 'base'}, future={tmp_path / 'confu'}")
    result = compare_heads(job, heads, SETTINGS, lines.append)
    names = [row["name"] for row in result["rows"]]
    assert result["baseline"] == "plain"
    assert names == [
        "plain", "future", "future, f zeroed", "future, f shuffled", "future, f hidden",
    ]  # fmt: skip
    assert "| future, f zeroed |" in lines[-1]
    assert result["rows"][0]["ratio"] == 1.0
    assert set(result["rows"][0]["by_category"]) == {"code", "writing"}
    # The rounded weights are scored, not the ones in memory.
    rounded = random_eagle(0, torch.float32).bfloat16().float()
    target = tiny_target(dtype=torch.float32)
    learner = EagleObjective(target, rounded, [], SETTINGS.training)
    assert result["rows"][0]["scores"]["loss"] == pytest.approx(
        learner.score_of([HELD_OUT])["loss"], rel=1e-6
    )
    write_comparison(result, {"commit": "abc"}, tmp_path / "made" / "table.json")
    kept = json.loads((tmp_path / "made" / "table.json").read_text(encoding="utf-8"))
    assert kept["provenance"] == {"commit": "abc"}
    assert [row["name"] for row in kept["rows"]] == names


def test_a_folder_without_a_head_is_refused(job: HeadJob, tmp_path: Path) -> None:
    with pytest.raises(MissingModel, match="no head in"):
        compare_heads(job, {"none": tmp_path / "nowhere"}, SETTINGS, print)


@pytest.mark.parametrize("text", ["", "ConFu", "=folder", "ConFu="])
def test_heads_without_name_or_folder_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=FOLDER"):
        parse_heads(text)


def test_one_name_for_two_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="stands twice"):
        parse_heads("a=x,a=y")


def test_the_command_line_compares_heads_without_a_budget_of_tokens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[dict[str, Path]] = []

    def note(job: HeadJob, heads: dict[str, Path], *rest: object) -> dict[str, object]:
        asked.append(heads)
        return {}

    monkeypatch.setattr("confu_demo.training.head_commands.compare_heads", note)
    where = ["--work", str(tmp_path), "--out", str(tmp_path / "suite")]
    assert main(["train", "compare", *where, "--heads", "ConFu=confu"]) == 0
    assert asked == [{"ConFu": Path("confu")}]


def test_an_instruct_model_is_refused_the_folder_of_the_bundled_suite(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["train", "compare", "--target", str(tmp_path), "--heads", "ConFu=confu"]) == 2
    assert "--target needs --out" in capsys.readouterr().err
