"""``--suite FOLDER`` with an EAGLE-3 head of another project in it, from the files to the race."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from confu_demo.__main__ import main
from confu_demo.engine.loading import load_model
from confu_demo.heads.eagle import EagleHead
from tests.heads.public_kit import llama_config, safeai_folder, speculators_folder
from tests.tiny_suite import copy_of_suite, eagle_config

LAYOUTS = ("safetensors", "pickle", "speculators")


def suite_with_public_head(tmp_path: Path, layout: str) -> Path:
    """A copy of the tiny suite; its eagle3 is a random head as another project stores it."""
    folder = copy_of_suite(tmp_path)
    for file in (folder / "eagle3").iterdir():
        file.unlink()
    config = eagle_config(load_model(folder / "target", device="cpu").config, "")
    torch.manual_seed(4)
    head = EagleHead(config)
    kept = torch.randperm(config.target_vocab_size)[: config.draft_vocab_size].sort().values
    head.set_draft_vocabulary(kept)
    arrays = {name: tensor.detach() for name, tensor in head.state_dict().items()}
    if layout == "speculators":
        speculators_folder(
            folder / "eagle3",
            arrays,
            layer=llama_config(config),
            draft_vocab_size=config.draft_vocab_size,
            norm_before_residual=True,
            eagle_aux_hidden_state_layer_ids=list(config.feature_layers),
        )
    else:
        safeai_folder(
            folder / "eagle3",
            arrays,
            pickled=layout == "pickle",
            **{**llama_config(config), "draft_vocab_size": config.draft_vocab_size},
        )
    return folder


def race(folder: Path, *more: str) -> int:
    return main([
        "race", "--problem", "heldout:3", "--suite", str(folder), "--max-new-tokens", "24",
        "--methods", "autoregressive,eagle3", "--device", "cpu", "--dtype", "float32",
        "--threads", "1", "--tree", "fixed:20", *more,
    ])  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_public_head_in_a_folder_of_ones_own_says_what_plain_decoding_says(
    layout: str, tmp_path: Path
) -> None:
    folder = suite_with_public_head(tmp_path, layout)
    assert race(folder, "--json", str(tmp_path / "race.json")) == 0
    lanes = json.loads((tmp_path / "race.json").read_text(encoding="utf-8"))["lanes"]
    assert lanes["eagle3"]["text"] == lanes["autoregressive"]["text"]
    assert lanes["eagle3"]["identical_to_target"] is True
    assert lanes["eagle3"]["num_tokens"] == lanes["autoregressive"]["num_tokens"] == 24
    verified = lanes["eagle3"]["target_tokens"] / lanes["eagle3"]["target_forwards"]
    assert verified > 10  # it drafted trees


def test_a_public_head_for_another_target_stops_the_race_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = suite_with_public_head(tmp_path, "safetensors")
    file = folder / "eagle3" / "config.json"
    raw = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**raw, "vocab_size": raw["vocab_size"] + 1}), encoding="utf-8")
    assert race(folder) != 0
    printed = capsys.readouterr()
    assert "is for another target: vocabulary" in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err
