"""Whole trainings of both heads on a tiny target folder: files, cards, and what fits what."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from confu_demo.engine.errors import UnsupportedModel
from confu_demo.engine.loading import sha256_of_folder
from confu_demo.heads.checkpoint import TargetInfo, load_head
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from confu_demo.training import own_outputs
from confu_demo.training.anchors import AnchorSettings
from confu_demo.training.confu import ConfuSettings, train_confu
from confu_demo.training.eagle3 import EagleSettings, train_eagle3
from confu_demo.training.head_card import head_card, score_table
from confu_demo.training.head_job import HeadJob
from confu_demo.training.head_trainer import HeadSettings
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.model_files import save_language_model
from confu_demo.training.own_outputs import OwnOutputSettings
from tests.training.head_kit import tiny_config

TRAINING = HeadSettings(
    total_tokens=400, unroll_steps=3, batch_tokens=100, evaluations=2, eval_documents=4
)
EAGLE = EagleSettings(training=TRAINING, draft_vocab_size=40)
CONFU = ConfuSettings(
    training=TRAINING, anchors=AnchorSettings(num_anchors=5), num_soft_prompts=2, num_experts=3
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    pieces = ["<|bos|>", "<|eos|>", "<|pad|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|bos|>", eos_token="<|eos|>", pad_token="<|pad|>"
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A target, its EAGLE-3 head, its ConFu head and the control."""
    folder = tmp_path_factory.mktemp("heads")
    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    config = replace(tiny_config(), vocab_size=len(tokenizer), max_positions=512)
    save_language_model(LanguageModel(config), tokenizer, folder / "target", "a test")

    def questions(self: OwnOutputSettings, shard: int) -> list[str]:
        rng = random.Random(f"{self.split}:{shard}")
        return ["".join(rng.choices("abc ", k=5)) for _ in range(self.batch_size)]

    job = HeadJob(
        target=folder / "target",
        outputs=folder / "outputs",
        work=folder / "work",
        out=folder / "eagle3",
        own_outputs=OwnOutputSettings(num_documents=12, batch_size=4, max_new_tokens=14),
        heldout_documents=4,
        command="python -m confu_demo train eagle3",
    )
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_outputs.OwnOutputSettings, "questions", questions)
        train_eagle3(job, EAGLE, lines.append)
        for name, control in (("confu", False), ("control", True)):
            later = replace(job, work=folder / f"work-{name}", out=folder / name)
            train_confu(later, folder / "eagle3", CONFU, lines.append, control=control)
    (folder / "log.txt").write_text("\n".join(lines), encoding="utf-8")
    return {path.name: path for path in folder.iterdir()}


def info(made: dict[str, Path]) -> TargetInfo:
    config = replace(tiny_config(), vocab_size=len(byte_tokenizer()))
    return TargetInfo.of(config, sha256_of_folder(made["target"]))


def test_finished_heads_load_for_their_target_and_for_no_other(made: dict[str, Path]) -> None:
    target = info(made)
    assert isinstance(load_head(made["eagle3"], target), EagleHead)
    assert isinstance(load_head(made["confu"], target), ConfuHead)
    assert isinstance(load_head(made["control"], target), EagleHead)
    with pytest.raises(UnsupportedModel, match="another target"):
        load_head(made["confu"], replace(target, sha256="0" * 64))


def test_training_moves_every_part_and_starts_confu_from_the_eagle3_head(
    made: dict[str, Path],
) -> None:
    target = info(made)
    eagle, confu = load_head(made["eagle3"], target), load_head(made["confu"], target)
    assert isinstance(eagle, EagleHead)
    assert isinstance(confu, ConfuHead)
    assert torch.equal(confu.eagle.d2t, eagle.d2t)
    for name, value in eagle.named_parameters():
        moved = (confu.eagle.get_parameter(name) - value).norm() / value.norm()
        assert 0 < moved < 0.5, name
    assert float(confu.future_bias) != CONFU.initial_future_bias


@pytest.mark.parametrize("name", ["eagle3", "confu", "control"])
def test_the_card_states_the_measured_figures(made: dict[str, Path], name: str) -> None:
    record = json.loads((made[name] / "training.json").read_text(encoding="utf-8"))
    card = (made[name] / "README.md").read_text(encoding="utf-8")
    assert score_table(record["heldout"]) in card
    for scored in record["heldout"].values():
        assert f"{scored['walked_length']:.2f}" in card
        assert len(scored["acceptance"]) == 3
        assert scored["positions"] > 0
    assert record["tokens"] >= 400
    assert len(record["history"]) == 3
    assert "python -m confu_demo train eagle3" in card
    assert str(made[name].parent) not in card
    assert "by depth" in made["log.txt"].read_text(encoding="utf-8")


def test_confu_and_its_control_see_the_same_batches(made: dict[str, Path]) -> None:
    confu, control = (
        json.loads((made[name] / "training.json").read_text(encoding="utf-8"))
        for name in ("confu", "control")
    )
    assert (confu["steps"], confu["tokens"]) == (control["steps"], control["tokens"])
    start = confu["history"][0]["confu, f hidden"]
    assert start["acceptance"] == control["history"][0]["eagle3"]["acceptance"]


def test_a_frozen_drafter_stays_the_eagle3_head_while_the_rest_learns(
    made: dict[str, Path], tmp_path: Path
) -> None:
    job = HeadJob(
        target=made["target"], outputs=made["outputs"], work=tmp_path / "w", out=tmp_path / "o",
        own_outputs=OwnOutputSettings(num_documents=12, batch_size=4, max_new_tokens=14),
        heldout_documents=4,
    )  # fmt: skip
    settings = replace(CONFU, frozen_drafter=True)
    train_confu(job, made["eagle3"], settings, lambda line: None)
    target = info(made)
    eagle, confu = load_head(made["eagle3"], target), load_head(tmp_path / "o", target)
    assert isinstance(confu, ConfuHead)
    for name, value in eagle.state_dict().items():
        assert torch.equal(confu.eagle.state_dict()[name], value), name
    assert float(confu.future_bias) != CONFU.initial_future_bias
    scores = json.loads((tmp_path / "o" / "training.json").read_text(encoding="utf-8"))["heldout"]
    eagles = json.loads((made["eagle3"] / "training.json").read_text(encoding="utf-8"))["heldout"]
    assert scores["confu, f hidden"]["documents"] == eagles["eagle3"]["documents"]


def test_confu_does_not_start_from_a_confu_head(made: dict[str, Path], tmp_path: Path) -> None:
    job = HeadJob(
        target=made["target"], outputs=made["outputs"], work=tmp_path / "w", out=tmp_path / "o",
        own_outputs=OwnOutputSettings(num_documents=12, batch_size=4, max_new_tokens=14),
        heldout_documents=4,
    )  # fmt: skip
    with pytest.raises(UnsupportedModel, match="no EAGLE-3 head"):
        train_confu(job, made["confu"], CONFU, lambda line: None)
    assert not (tmp_path / "o").exists()


def test_a_card_names_its_suite_and_carries_a_note(made: dict[str, Path]) -> None:
    record = json.loads((made["eagle3"] / "training.json").read_text(encoding="utf-8"))
    arguments = ("eagle3", 10, record["settings"], record, "command", "cpu")
    card = head_card(*arguments)
    assert "# confu_demo bundled/eagle3" in card
    assert "It fits the target beside it" in card
    record["note"] = "Trained in two legs."
    card = head_card(*arguments, "smollm2-135m", "bfloat16")
    assert "# confu_demo smollm2-135m/eagle3" in card
    assert "the target of the suite `smollm2-135m`" in card
    assert "held-out free-text prompts" in card
    assert "(bfloat16)" in card
    assert "\n\nTrained in two legs.\n\n## Held-out" in card
