"""Heads on disk: round trips, the public layout, and every reason to refuse one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from confu_demo.engine.errors import CorruptModel, MissingModel, UnsupportedModel
from confu_demo.heads import checkpoint
from confu_demo.heads.checkpoint import (
    TargetInfo,
    load_card,
    load_head,
    save_head,
    sha256_of_head,
)
from confu_demo.heads.confu import ConfuHead, ConfuHeadConfig
from confu_demo.heads.eagle import EagleHead
from tests.heads.kit import CONFIG, TARGET, confu, eagle


@pytest.mark.parametrize("build", [eagle, confu])
def test_a_saved_head_loads_as_it_was(build: Callable[[], EagleHead], tmp_path: Path) -> None:
    head = build()
    save_head(tmp_path / "head", head, {"seed": 7, "losses": [2.5, 0.5]})
    loaded = load_head(tmp_path / "head", TARGET)
    assert type(loaded) is type(head)
    assert loaded.config == head.config
    for name, tensor in head.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert load_card(tmp_path / "head") == {"seed": 7, "losses": [2.5, 0.5]}


def test_a_large_head_is_split_and_loads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 4000)
    head = confu()
    save_head(tmp_path, head)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 2
    assert all(file.stat().st_size < 6000 for file in files)
    loaded = load_head(tmp_path, TARGET)
    assert all(
        torch.equal(loaded.state_dict()[name], tensor) for name, tensor in head.state_dict().items()
    )
    monkeypatch.undo()
    save_head(tmp_path, head)  # replaces every shard of the old one
    assert [file.name for file in tmp_path.glob("*.safetensors")] == ["model.safetensors"]


def test_an_array_that_fits_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 1000)
    with pytest.raises(ValueError, match="alone takes"):
        save_head(tmp_path, eagle())


def test_a_larger_array_gets_a_file_of_its_own_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 1000)
    head = eagle()
    save_head(tmp_path, head, allow_larger=True)
    files = [load_file(file) for file in sorted(tmp_path.glob("*.safetensors"))]
    assert all(arrays for arrays in files)
    assert ["fc.weight"] in [list(arrays) for arrays in files]
    assert torch.equal(load_head(tmp_path, TARGET).state_dict()["fc.weight"], head.fc.weight)


def test_weights_can_be_saved_in_half_precision(tmp_path: Path) -> None:
    head = confu()
    save_head(tmp_path, head, dtype=torch.bfloat16)
    loaded = load_head(tmp_path, TARGET)
    assert isinstance(loaded, ConfuHead)
    assert loaded.eagle.fc.weight.dtype == torch.float32
    assert torch.equal(loaded.eagle.d2t, head.eagle.d2t)
    rounded = head.eagle.fc.weight.detach().bfloat16().float()
    assert torch.equal(loaded.eagle.fc.weight, rounded)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (replace(TARGET, hidden_size=32), "hidden size 16, the target has 32"),
        (replace(TARGET, vocab_size=31), "vocabulary 30, the target has 31"),
        (replace(TARGET, num_layers=5), r"feature layers \(1, 3, 5\), the target has 5"),
        (replace(TARGET, sha256="abd"), "weights abc.*train the head again"),
    ],
)
def test_the_head_of_another_target_is_refused_with_the_reason(
    target: TargetInfo, reason: str, tmp_path: Path
) -> None:
    save_head(tmp_path, confu())
    with pytest.raises(UnsupportedModel, match=reason):
        load_head(tmp_path, target)


def test_an_unknown_hash_is_not_compared(tmp_path: Path) -> None:
    save_head(tmp_path, eagle())
    assert load_head(tmp_path, replace(TARGET, sha256="")).config == CONFIG


def test_a_head_of_an_unknown_method_is_refused(tmp_path: Path) -> None:
    save_head(tmp_path, eagle())
    break_config(tmp_path, method="medusa")
    with pytest.raises(UnsupportedModel, match="method 'medusa' is unknown"):
        load_head(tmp_path, TARGET)


def test_a_missing_head_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingModel, match=r"config\.json is missing"):
        load_head(tmp_path / "nowhere", TARGET)
    save_head(tmp_path, eagle())
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(MissingModel, match="no safetensors file"):
        load_head(tmp_path, TARGET)


def break_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps(config))


def break_array(folder: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    arrays = load_file(folder / "model.safetensors")
    arrays[name] = change(arrays[name]).contiguous()
    save_file(arrays, folder / "model.safetensors")


def nan_at_start(tensor: torch.Tensor) -> torch.Tensor:
    tensor[0] = float("nan")
    return tensor


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda f: (f / "config.json").write_text("{"), "not readable JSON"),
        (lambda f: (f / "config.json").write_text("[]"), "must hold a JSON object"),
        (lambda f: break_config(f, num_heads=3), "does not describe a head"),
        (lambda f: break_config(f, colour="red"), "does not describe a head"),
        (lambda f: break_array(f, "d2t", lambda t: t + torch.arange(12)), "holds target ids"),
        (lambda f: break_config(f, intermediate_size=25), "has shape"),
        (lambda f: (f / "model.safetensors").write_bytes(b"nonsense"), "not a readable"),
        (lambda f: break_array(f, "d2t", lambda t: t.flip(0)), "sorted draft vocabulary"),
        (lambda f: break_array(f, "d2t", lambda t: t + 50), "sorted draft vocabulary"),
        (lambda f: break_array(f, "t2d", lambda t: ~t), "sorted draft vocabulary"),
        (lambda f: break_array(f, "fc.weight", nan_at_start), "not finite"),
        (lambda f: save_file({"fc.weight": torch.zeros(16, 48)}, f / "model.safetensors"), "lacks"),
        (lambda f: save_file({"extra": torch.zeros(1)}, f / "z.safetensors"), "unknown parts"),
    ],
)
def test_a_damaged_head_is_refused_with_the_reason(
    damage: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    save_head(tmp_path, eagle())
    damage(tmp_path)
    with pytest.raises(CorruptModel, match=reason):
        load_head(tmp_path, TARGET)


def test_the_hash_of_a_head_is_that_of_its_weights(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        save_head(tmp_path / name, eagle(seed), {"name": name})
    hashes = [sha256_of_head(tmp_path / name) for name in "abc"]
    assert hashes[0] == hashes[1] != hashes[2]
    assert len(hashes[0]) == 64


def foreseeing() -> ConfuHead:
    config = ConfuHeadConfig(eagle=CONFIG, num_soft_prompts=3, num_experts=5, foresight_depths=4)
    head = ConfuHead.from_eagle(eagle(), config)
    assert head.foresight_weights is not None
    with torch.no_grad():
        head.foresight_weights.copy_(torch.tensor([0.5, 0.2, 0.1, -0.1]))
    return head


def test_foresight_weights_are_kept_and_heads_without_them_still_load(tmp_path: Path) -> None:
    save_head(tmp_path / "with", foreseeing())
    loaded = load_head(tmp_path / "with", TARGET)
    assert isinstance(loaded, ConfuHead)
    assert loaded.foresight_weights is not None
    assert torch.equal(loaded.foresight_weights, torch.tensor([0.5, 0.2, 0.1, -0.1]))
    save_head(tmp_path / "without", confu())
    for name in ("foresight_depths", "future_worth"):  # as heads were before these existed
        config = json.loads((tmp_path / "without" / "config.json").read_text(encoding="utf-8"))
        del config[name]
        (tmp_path / "without" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    older = load_head(tmp_path / "without", TARGET)
    assert isinstance(older, ConfuHead)
    assert older.foresight_weights is None
    assert older.config.future_worth is None
    with pytest.raises(ValueError, match="foresight_depths must be 0 to 16"):
        ConfuHeadConfig(eagle=CONFIG, foresight_depths=17)


@pytest.mark.parametrize(
    ("on", "hidden", "worth"), [(2.2, 2.0, 0.1), (1.9, 2.0, 0.0), (2.0, 2.0, 0.0)]
)
def test_what_f_is_worth_is_what_it_added_on_held_out_answers(
    on: float, hidden: float, worth: float, tmp_path: Path
) -> None:
    lengths = {"confu, f on": on, "confu, f hidden": hidden}
    scores = {name: {"walked_length": length} for name, length in lengths.items()}
    save_head(tmp_path, confu(), {"heldout": scores})
    loaded = load_head(tmp_path, TARGET)
    assert isinstance(loaded, ConfuHead)
    assert loaded.config.future_worth == pytest.approx(worth)
