"""Heads of other projects: their logits by hand, and every reason to refuse one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from confu_demo.engine.errors import CorruptModel, UnsupportedModel
from confu_demo.heads.checkpoint import TargetInfo, load_card, load_head, sha256_of_head
from confu_demo.heads.eagle import EagleConfig, EagleHead
from tests.heads.kit import TARGET, eagle
from tests.heads.public_kit import llama_config, safeai_folder, speculators_folder, write_config
from tests.heads.test_eagle import by_hand, by_head

OTHER = replace(TARGET, sha256="anything")
"""Public heads do not say which weights they were trained for."""


def loaded(folder: Path, target: TargetInfo | None = OTHER) -> EagleHead:
    head = load_head(folder, target)
    assert isinstance(head, EagleHead)
    return head


def check_logits(head: EagleHead, arrays: dict[str, Tensor], *, normed_first: bool = False) -> None:
    """The head's logits against those computed by hand from the arrays on disk, in float64."""
    torch.manual_seed(3)
    embeddings = torch.randn(5, 16, dtype=torch.float64)
    features = torch.randn(5, 48, dtype=torch.float64)
    wide = {name: v.double() if v.is_floating_point() else v for name, v in arrays.items()}
    with torch.no_grad():
        expected = by_hand(wide, embeddings, features, normed_first=normed_first)
        got = by_head(head.double(), embeddings, features)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
    ids = torch.arange(30)[arrays["t2d"].bool()]
    assert torch.equal(head.draft_to_target(torch.arange(12)), ids)


@pytest.mark.parametrize("pickled", [False, True])
def test_a_safeailab_head_gives_the_logits_computed_by_hand(tmp_path: Path, pickled: bool) -> None:
    arrays = safeai_folder(tmp_path, pickled=pickled)
    head = loaded(tmp_path)
    check_logits(head, arrays)
    assert head.config.feature_layers == (2, 4, 5)  # 2, L//2, L-3 of eight layers
    assert load_card(tmp_path) == {}
    assert len(sha256_of_head(tmp_path)) == 64


@pytest.mark.parametrize("normed_first", [False, True])
def test_a_speculators_head_gives_the_logits_computed_by_hand(
    tmp_path: Path, normed_first: bool
) -> None:
    arrays = speculators_folder(tmp_path, norm_before_residual=normed_first)
    head = loaded(tmp_path)
    assert head.config.norm_before_residual is normed_first
    check_logits(head, arrays, normed_first=normed_first)


def test_a_safeailab_head_may_say_norm_before_residual_too(tmp_path: Path) -> None:
    arrays = safeai_folder(tmp_path, norm_before_residual=True)
    check_logits(loaded(tmp_path), arrays, normed_first=True)


def test_layer_ids_of_speculators_name_the_layer_entered(tmp_path: Path) -> None:
    speculators_folder(tmp_path)
    assert loaded(tmp_path, None).config.feature_layers == (1, 3, 6)
    speculators_folder(tmp_path, eagle_aux_hidden_state_layer_ids=None)
    assert loaded(tmp_path).config.feature_layers == (2, 4, 5)


def test_layer_ids_of_specforge_name_the_layer_left(tmp_path: Path) -> None:
    ids = {"eagle_aux_hidden_state_layer_ids": [1, 3, 4]}  # its defaults for eight layers
    safeai_folder(tmp_path, eagle_config=ids)
    assert loaded(tmp_path).config.feature_layers == (2, 4, 5)


def test_without_ids_and_target_the_layers_cannot_be_known(tmp_path: Path) -> None:
    safeai_folder(tmp_path)
    with pytest.raises(UnsupportedModel, match=r"target's depth; say target=TargetInfo"):
        load_head(tmp_path, None)


def test_t2d_follows_from_d2t(tmp_path: Path) -> None:
    arrays = {name: v.clone() for name, v in eagle().state_dict().items()}
    safeai_folder(tmp_path, {name: v for name, v in arrays.items() if name != "t2d"})
    check_logits(loaded(tmp_path), arrays)


def test_a_head_of_the_whole_vocabulary_needs_no_mapping(tmp_path: Path) -> None:
    arrays = {n: v for n, v in eagle().state_dict().items() if n not in ("d2t", "t2d")}
    arrays["lm_head.weight"] = torch.randn(30, 16)
    safeai_folder(tmp_path, arrays, draft_vocab_size=None)
    head = loaded(tmp_path)
    assert torch.equal(head.draft_to_target(torch.arange(30)), torch.arange(30))
    assert bool(head.t2d.all())


def test_a_reduced_vocabulary_needs_its_mapping(tmp_path: Path) -> None:
    arrays = {n: v for n, v in eagle().state_dict().items() if n not in ("d2t", "t2d")}
    safeai_folder(tmp_path, arrays)
    with pytest.raises(CorruptModel, match="lacks d2t, t2d"):
        load_head(tmp_path, OTHER)


def test_copies_of_the_targets_weights_are_not_read(tmp_path: Path) -> None:
    copies = {
        "embed_tokens.weight": torch.zeros(30, 16),
        "verifier_norm.weight": torch.ones(16),
        "verifier_lm_head.weight": torch.zeros(12, 16),
        "midlayer.self_attn.rotary_emb.inv_freq": torch.ones(2),
    }
    arrays = {name: tensor.clone() for name, tensor in eagle().state_dict().items()}
    safeai_folder(tmp_path, {**arrays, **copies})
    check_logits(loaded(tmp_path), arrays)


@pytest.mark.parametrize("build", [safeai_folder, speculators_folder])
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (replace(OTHER, hidden_size=32), "another target: hidden size 16, the target has 32"),
        (replace(OTHER, vocab_size=31), "another target: vocabulary 30, the target has 31"),
    ],
)
def test_the_public_head_of_another_target_is_refused_with_the_reason(
    build: Callable[[Path], Any], target: TargetInfo, reason: str, tmp_path: Path
) -> None:
    build(tmp_path)
    with pytest.raises(UnsupportedModel, match=reason):
        load_head(tmp_path, target)


def test_layers_that_the_target_lacks_are_refused(tmp_path: Path) -> None:
    speculators_folder(tmp_path)
    with pytest.raises(UnsupportedModel, match=r"feature layers \(1, 3, 6\), the target has 6"):
        load_head(tmp_path, replace(OTHER, num_layers=6))
    speculators_folder(tmp_path, eagle_aux_hidden_state_layer_ids=[2, 4])
    with pytest.raises(CorruptModel, match=r"fc.weight .* has shape \[16, 48\], .* \[16, 32\]"):
        load_head(tmp_path, OTHER)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"target_hidden_size": 32}, "their own embeddings .hidden size 16, the target has 32"),
        ({"num_hidden_layers": 2}, "heads of 2 layers"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"attention_bias": True}, "heads with attention_bias"),
        ({"mlp_bias": True}, "heads with mlp_bias"),
        ({"norm_before_fc": True}, "heads with norm_before_fc"),
        ({"norm_output": True}, "heads with norm_output"),
        ({"embed_requires_grad": True}, "trained their own embeddings"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "without use_aux_hidden_state"),
        ({"model_type": "qwen3"}, "draft layer of family 'qwen3'"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling 'linear'"),
        ({"rope_scaling": None, "rope_parameters": {"rope_type": "yarn"}}, "rope_scaling 'yarn'"),
    ],
)
def test_a_head_that_we_cannot_compute_is_refused_by_name(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    safeai_folder(tmp_path, **changes)
    with pytest.raises(UnsupportedModel, match=reason) as caught:
        load_head(tmp_path, OTHER)
    assert str(tmp_path) in str(caught.value)


def test_settings_of_the_layer_count_in_the_speculators_layout_too(tmp_path: Path) -> None:
    speculators_folder(tmp_path, layer={"attention_bias": True})
    with pytest.raises(UnsupportedModel, match="heads with attention_bias"):
        load_head(tmp_path, OTHER)
    speculators_folder(tmp_path, speculators_model_type="mlp")
    with pytest.raises(UnsupportedModel, match="speculators of type 'mlp'"):
        load_head(tmp_path, OTHER)
    speculators_folder(tmp_path, transformer_layer_config=None)
    with pytest.raises(CorruptModel, match="must hold transformer_layer_config"):
        load_head(tmp_path, OTHER)


def test_the_base_of_the_rotation_is_read_in_its_old_and_its_new_place(tmp_path: Path) -> None:
    arrays = safeai_folder(
        tmp_path, rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 500.0}
    )
    check_logits(loaded(tmp_path), arrays)
    config = llama_config()
    del config["rope_theta"]
    write_config(tmp_path, {**config, "draft_vocab_size": 12})
    assert loaded(tmp_path).config.rope_theta == 10_000.0  # what [E] takes then


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def test_llama3_scaling_stretches_the_slow_pair_as_computed_by_hand(tmp_path: Path) -> None:
    """Two pairs: wavelength 6.3 lies between 16/4 and 16/1 and is blended, 140 is beyond 16."""
    speculators_folder(tmp_path / "public", layer={"rope_scaling": LLAMA3})
    head = loaded(tmp_path / "public")
    wavelengths = (2 * math.pi, 2 * math.pi * 500**0.5)
    smooth = (16 / wavelengths[0] - 1.0) / (4.0 - 1.0)
    expected = ((1 - smooth) / 8.0 + smooth, 500**-0.5 / 8.0)
    torch.testing.assert_close(head.config.frequencies(), torch.tensor(expected))
    rows = torch.randn(3, 16)
    q, _, _ = head.project(rows, rows, torch.arange(3))
    still, _, _ = head.project(rows, rows, torch.zeros(3).long())
    angle = 2 * expected[0]
    low, high = still[0, 2, 0], still[0, 2, 2]
    turned = low * math.cos(angle) - high * math.sin(angle)
    assert q[0, 2, 0].item() == pytest.approx(turned.item(), abs=1e-5)
    head.save_pretrained(tmp_path / "own")
    assert loaded(tmp_path / "own").config == head.config


def test_d2t_must_hold_offsets(tmp_path: Path) -> None:
    arrays = {name: tensor.clone() for name, tensor in eagle().state_dict().items()}
    arrays["d2t"] = arrays["d2t"] + torch.arange(12)
    safeai_folder(tmp_path, arrays)
    with pytest.raises(CorruptModel, match=r"holds target ids; it must hold offsets"):
        load_head(tmp_path, OTHER)
    arrays["d2t"] = arrays["d2t"].flip(0)
    safeai_folder(tmp_path, arrays)
    with pytest.raises(CorruptModel, match="one sorted draft vocabulary"):
        load_head(tmp_path, OTHER)


class Unwelcome:
    """What a pickle can name besides tensors."""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"nonsense", "not a readable file of tensors"),
        ({"fc.weight": Unwelcome()}, "not a readable file of tensors"),
        ([torch.zeros(2)], "does not hold named tensors"),
        ({"fc.weight": 3}, "does not hold named tensors"),
    ],
)
def test_a_pickle_that_is_no_set_of_tensors_is_refused(
    content: Any, reason: str, tmp_path: Path
) -> None:
    safeai_folder(tmp_path, pickled=True)
    file = tmp_path / "pytorch_model.bin"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        torch.save(content, file)
    with pytest.raises(CorruptModel, match=reason):
        load_head(tmp_path, OTHER)


def test_safetensors_are_preferred_to_a_pickle(tmp_path: Path) -> None:
    arrays = safeai_folder(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"nonsense")
    check_logits(loaded(tmp_path), arrays)


def test_unknown_parts_of_a_public_head_are_named(tmp_path: Path) -> None:
    arrays = {name: tensor.clone() for name, tensor in eagle().state_dict().items()}
    safeai_folder(tmp_path, arrays)
    save_file({"midlayer.self_attn.q_norm.weight": torch.ones(4)}, tmp_path / "z.safetensors")
    with pytest.raises(CorruptModel, match=r"unknown parts: midlayer\.self_attn\.q_norm\.weight"):
        load_head(tmp_path, OTHER)


def test_the_config_of_a_head_knows_nothing_that_the_public_one_does_not_say(
    tmp_path: Path,
) -> None:
    safeai_folder(tmp_path)
    config: EagleConfig = loaded(tmp_path).config
    assert config.target_sha256 == ""
    assert config.norm_before_residual is False
