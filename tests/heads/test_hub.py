"""Heads through save_pretrained, from_pretrained and push_to_hub; nothing here has a network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub.hub_mixin
import pytest
import torch
from huggingface_hub import ModelCard
from huggingface_hub.errors import LocalEntryNotFoundError

from confu_demo.engine.errors import CorruptModel, MissingModel, UnsupportedModel
from confu_demo.heads import checkpoint, hub
from confu_demo.heads.checkpoint import load_card, load_head
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from tests.heads.kit import TARGET, confu, eagle
from tests.heads.public_kit import safeai_folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr(hub, "snapshot_download", refuse)


def check_equal(one: torch.nn.Module, other: torch.nn.Module) -> None:
    assert type(one) is type(other)
    assert one.config == other.config
    for name, tensor in one.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name


@pytest.mark.parametrize("build", [eagle, confu])
def test_a_saved_head_comes_back_as_it_was(build: Callable[[], EagleHead], tmp_path: Path) -> None:
    head = build()
    head.card = {"seed": 7}
    head.save_pretrained(tmp_path / "head")
    again = type(head).from_pretrained(tmp_path / "head", target=TARGET)
    check_equal(head, again)
    assert again.card == load_card(tmp_path / "head") == {"seed": 7}
    check_equal(head, load_head(tmp_path / "head", TARGET))
    again.save_pretrained(tmp_path / "again")
    assert load_card(tmp_path / "again") == {"seed": 7}


def test_the_card_says_licence_target_and_how_to_load(tmp_path: Path) -> None:
    confu().save_pretrained(tmp_path)
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.license == "apache-2.0"
    assert {"confu", "speculative-decoding"} <= set(card.data.tags)
    assert "hidden size\n16, vocabulary 30" in card.text
    assert "layers 1, 3, 5, weights with sha256 `abc`. It drafts 12" in card.text
    assert "from confu_demo.heads.confu import ConfuHead" in card.text
    assert "2603.08899" in card.text


def test_the_two_kinds_of_heads_have_their_own_tags(tmp_path: Path) -> None:
    eagle().save_pretrained(tmp_path)
    tags = ModelCard.load(tmp_path / "README.md").data.tags
    assert "eagle3" in tags
    assert "confu" not in tags


def test_large_heads_are_saved_in_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 3000)
    head = eagle()  # its fc alone takes 3072 bytes
    head.save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    check_equal(head, EagleHead.from_pretrained(str(tmp_path)))


def test_a_head_of_another_project_is_saved_in_our_layout_without_a_licence_of_ours(
    tmp_path: Path,
) -> None:
    safeai_folder(tmp_path / "public", pickled=True)
    head = EagleHead.from_pretrained(tmp_path / "public", target=replace(TARGET, sha256=""))
    head.save_pretrained(tmp_path / "own")
    check_equal(head, EagleHead.from_pretrained(tmp_path / "own"))
    assert ModelCard.load(tmp_path / "own" / "README.md").data.license == "unknown"


def test_a_head_for_another_target_is_refused(tmp_path: Path) -> None:
    eagle().save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match="vocabulary 30, the target has 31"):
        EagleHead.from_pretrained(tmp_path, target=replace(TARGET, vocab_size=31))


def test_the_other_kind_of_head_is_refused(tmp_path: Path) -> None:
    eagle().save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match=r"use EagleHead\.from_pretrained"):
        ConfuHead.from_pretrained(tmp_path)


@pytest.mark.parametrize("place", ["./nowhere", "/nowhere/head", "~/head", "a/b/c"])
def test_a_folder_that_is_not_there_is_not_asked_of_the_network(place: str) -> None:
    with pytest.raises(MissingModel, match="no such folder"):
        EagleHead.from_pretrained(place)


def test_a_folder_that_holds_no_head_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(MissingModel, match=r"config\.json is missing"):
        EagleHead.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CorruptModel, match="not readable JSON"):
        EagleHead.from_pretrained(tmp_path)


def test_a_name_of_the_hub_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = eagle()
    head.save_pretrained(tmp_path)
    asked: dict[str, Any] = {}

    def give(name: str, **how: Any) -> str:
        asked.update(how, name=name)
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", give)
    check_equal(head, EagleHead.from_pretrained("someone/head", revision="v2", target=TARGET))
    assert (asked["name"], asked["revision"]) == ("someone/head", "v2")
    assert asked["local_files_only"] is False
    EagleHead.from_pretrained(Path("someone/head"))
    assert asked["local_files_only"] is True  # a Path is meant as a folder


def test_a_name_that_the_hub_does_not_give_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise LocalEntryNotFoundError("nothing cached\nand no connection")

    monkeypatch.setattr(hub, "snapshot_download", fail)
    with pytest.raises(MissingModel, match=r"someone/head is no folder here.*nothing cached$"):
        EagleHead.from_pretrained("someone/head")


def test_what_is_pushed_is_what_is_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The Hub's client is replaced; what it would upload is loaded again."""
    head = confu()

    class Client:
        def __init__(self, token: str | None = None) -> None:
            pass

        def create_repo(self, repo_id: str, **_: Any) -> Any:
            return type("Made", (), {"repo_id": repo_id})

        def upload_folder(self, folder_path: Path, **how: Any) -> str:
            names = {file.name for file in folder_path.iterdir()}
            assert names == {"README.md", "config.json", "model.safetensors"}
            check_equal(head, ConfuHead.from_pretrained(folder_path, target=TARGET))
            return f"pushed {how['repo_id']}"

    monkeypatch.setattr(huggingface_hub.hub_mixin, "HfApi", Client)
    assert head.push_to_hub("someone/head") == "pushed someone/head"


def test_a_head_can_still_be_copied() -> None:
    head = confu()
    check_equal(head, copy.deepcopy(head))
