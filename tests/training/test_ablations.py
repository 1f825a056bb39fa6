"""The ablations: every variant changes what its name says, and the table pairs the prompts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from confu_demo.heads.checkpoint import save_head
from confu_demo.training.ablations import CONTROL, FULL, NAMES, VARIANTS, run_ablations, walks_of
from confu_demo.training.anchors import AnchorSettings
from confu_demo.training.confu import ConfuSettings
from confu_demo.training.head_job import HeadJob, Material
from confu_demo.training.head_trainer import HeadSettings
from tests.training.head_kit import document, random_eagle, tiny_target

SETTINGS = ConfuSettings(
    training=HeadSettings(
        total_tokens=200, unroll_steps=2, batch_tokens=60, evaluations=1, eval_documents=2
    ),
    anchors=AnchorSettings(num_anchors=5),
    num_soft_prompts=2,
    num_experts=3,
)


def test_each_variant_differs_from_the_full_head_in_what_its_name_says() -> None:
    changed = {
        name: {
            field
            for field in SETTINGS.__dataclass_fields__
            if getattr(make(SETTINGS), field) != getattr(SETTINGS, field)
        }
        for name, make in VARIANTS.items()
    }
    assert changed[FULL] == set()
    assert changed["without replication"] == {"anchors"}
    assert changed["without mixtures"] == {"num_experts", "experts_per_token"}
    assert changed["f from the last layer"] == {"future_source"}
    assert all(fields == {"num_soft_prompts"} for name, fields in changed.items() if "soft" in name)


@pytest.fixture
def material(monkeypatch: pytest.MonkeyPatch) -> Material:
    target = tiny_target(dtype=torch.float32).requires_grad_(False)
    held_out = [document(14 + seed, 3, 40 + seed) for seed in range(4)]
    found = Material(
        target=target,
        target_sha256="",
        train=[document(14 + seed, 3, seed) for seed in range(6)],
        calibration=held_out[:2],
        heldout=held_out,
        heldout_categories=["code", "writing", "code", "writing"],
    )
    monkeypatch.setattr(
        "confu_demo.training.ablations.load_material", lambda job, settings, say: found
    )
    return found


def test_all_variants_train_from_one_head_and_stand_in_one_table(
    material: Material, tmp_path: Path
) -> None:
    save_head(tmp_path / "eagle3", random_eagle())
    nowhere = tmp_path / "none"
    job = HeadJob(target=nowhere, outputs=nowhere, work=tmp_path / "work", out=nowhere)
    lines: list[str] = []
    result = run_ablations(job, tmp_path / "eagle3", SETTINGS, say=lines.append)
    table = lines[-1]
    for name in NAMES:
        assert f"| {name} |" in table
    for mode in ("zeroed", "shuffled", "hidden"):
        assert f"| {FULL}, f {mode} |" in table
    assert f"| {CONTROL} |" in table
    assert "code" in table.splitlines()[0]
    assert result["baseline"] == CONTROL
    assert {row["name"] for row in result["rows"]} >= set(NAMES)
    trained = len(lines)
    assert run_ablations(job, tmp_path / "eagle3", SETTINGS, say=lines.append) == result
    assert lines[trained:] == [table], "finished variants are not trained again"


def test_an_unknown_variant_is_refused_by_name(tmp_path: Path) -> None:
    job = HeadJob(target=tmp_path, outputs=tmp_path, work=tmp_path, out=tmp_path)
    with pytest.raises(ValueError, match="unknown variant 'magic'"):
        run_ablations(job, tmp_path, SETTINGS, ["magic"])


def test_the_controls_of_f_are_scores_of_the_full_head_alone() -> None:
    score = {"documents": [(3, 1)]}
    heldout = {"confu, f on": score, "confu, f zeroed": score}
    walks = walks_of({FULL: {"heldout": heldout}, "without mixtures": {"heldout": heldout}})
    assert set(walks) == {FULL, f"{FULL}, f zeroed", "without mixtures"}
