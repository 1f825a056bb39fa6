"""Folders that are whole load; whatever is wrong is one sentence that says what to do."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from confu_demo.engine.loading import (
    CorruptModel,
    MissingModel,
    UnsupportedModel,
    load_model,
    load_tokenizer,
    num_parameters,
    pick_device,
    sha256_of_folder,
    synchronise,
)
from tests.engine.kit import VARIANTS, random_ids, reference_model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """variant -> (folder as transformers saves it, its model)."""
    made = {}
    for variant in ("llama", "qwen2_bias", "qwen3_qk_norm"):
        folder = tmp_path_factory.mktemp(variant)
        model = reference_model(variant, torch.float32, seed=4)
        model.save_pretrained(folder)
        made[variant] = (folder, model)
    return made


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of a good folder, to be damaged."""
    return shutil.copytree(saved["llama"][0], tmp_path / "model")


def load(path, **settings):
    return load_model(path, **{"device": "cpu", "dtype": "float32", "threads": 1, **settings})


def assert_one_clear_sentence(error):
    text = str(error.value)
    assert "\n" not in text
    assert any(word in text for word in ("fetch", "use ", "choose", "check"))


@pytest.mark.parametrize("variant", ["llama", "qwen2_bias", "qwen3_qk_norm"])
def test_a_saved_model_loads_and_gives_the_same_logits(saved, variant):
    path, reference = saved[variant]
    lean = load(path)
    ids = random_ids(9)
    with torch.no_grad():
        want = reference(ids[None]).logits[0]
    got = lean.forward(lean.new_cache(9), token_ids=ids).logits
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert (lean.dtype, lean.threads) == (torch.float32, 1)
    assert num_parameters(lean) == sum(parameter.numel() for parameter in reference.parameters())


def test_shards_load_as_the_single_file_does(saved, tmp_path):
    path, reference = saved["llama"]
    logging.disable(logging.WARNING)
    try:
        reference.save_pretrained(tmp_path, max_shard_size="20KB")
    finally:
        logging.disable(logging.NOTSET)
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    ids = random_ids(5)
    whole, sharded = (load(it) for it in (path, tmp_path))
    outputs = [it.forward(it.new_cache(5), token_ids=ids).logits for it in (whole, sharded)]
    assert torch.equal(*outputs)
    next(tmp_path.glob("*-00002-of-*")).unlink()
    with pytest.raises(MissingModel, match=r"00002-of-.*is missing") as error:
        load(tmp_path)
    assert_one_clear_sentence(error)


def test_a_missing_folder_is_missing(tmp_path):
    for action in (load, load_tokenizer, sha256_of_folder):
        with pytest.raises(MissingModel, match="there is no model folder") as error:
            action(tmp_path / "nowhere")
        assert_one_clear_sentence(error)
        assert isinstance(error.value, FileNotFoundError)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(MissingModel, match=name.replace(".", r"\.")) as error:
        load(folder)
    assert_one_clear_sentence(error)


@pytest.mark.parametrize("keep", [0, 6, 200, -10])
def test_a_weight_file_cut_short_is_corrupt(folder, keep):
    file = folder / "model.safetensors"
    os.truncate(file, keep if keep >= 0 else file.stat().st_size + keep)
    with pytest.raises(CorruptModel, match="damaged or cut short") as error:
        load(folder)
    assert_one_clear_sentence(error)


def test_garbage_in_place_of_weights_is_corrupt(folder):
    (folder / "model.safetensors").write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(CorruptModel, match="damaged"):
        load(folder)


@pytest.mark.parametrize("content", ["{", "[1]", ""])
def test_a_broken_config_is_corrupt(folder, content):
    (folder / "config.json").write_text(content)
    with pytest.raises(CorruptModel, match=r"config\.json") as error:
        load(folder)
    assert_one_clear_sentence(error)


def test_a_broken_index_is_corrupt(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    with pytest.raises(CorruptModel, match="lists no weights"):
        load(folder)


def test_a_weight_of_another_shape_is_named(folder):
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.2.mlp.up_proj.weight"] = torch.zeros(40, 31)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(CorruptModel, match=r"layers\.2\.mlp\.up_proj\.weight.*\[40, 31\]") as error:
        load(folder)
    assert_one_clear_sentence(error)


def test_a_missing_weight_is_named(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(CorruptModel, match=r"lm_head\.weight is missing") as error:
        load(folder)
    assert_one_clear_sentence(error)


def test_another_family_is_unsupported_by_name(folder):
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "model_type": "mamba"}))
    with pytest.raises(UnsupportedModel, match="'mamba'") as error:
        load(folder)
    assert_one_clear_sentence(error)


def test_wrong_arguments_are_refused(folder):
    for settings in ({"dtype": "int4"}, {"threads": 0}, {"device": "tpu9"}, {"device": "xpu"}):
        with pytest.raises(ValueError, match=r"dtype|threads|device"):
            load(folder, **settings)


def test_auto_settings_are_probed_and_carried(folder):
    lean = load_model(folder, device="cpu")
    assert lean.probe is not None
    assert (lean.dtype, lean.threads) == (lean.probe.dtype, lean.probe.threads)
    assert {row.dtype for row in lean.probe.table} == {torch.float32, torch.bfloat16}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_stored_half_precision_model_runs_in_float32(variant, tmp_path):
    model = reference_model(variant, torch.bfloat16, seed=1)
    model.save_pretrained(tmp_path)
    lean = load(tmp_path)
    wide = model.float()
    ids = random_ids(6)
    with torch.no_grad():
        want = wide(ids[None]).logits[0]
    got = lean.forward(lean.new_cache(6), token_ids=ids).logits
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_the_hash_of_one_file_is_its_sha256_and_changes_with_it(folder):
    file = folder / "model.safetensors"
    before = sha256_of_folder(folder)
    assert before == hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(file.read_bytes() + b" ")
    assert sha256_of_folder(folder) != before
    file.unlink()
    with pytest.raises(MissingModel, match="no safetensors"):
        sha256_of_folder(folder)


def test_a_tokenizer_loads_and_a_broken_one_is_named(tmp_path):
    backend = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path).encode("b a") == [1, 0]
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(CorruptModel, match="tokenizer") as error:
        load_tokenizer(tmp_path)
    assert_one_clear_sentence(error)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(MissingModel, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_the_picked_device_computes_and_synchronises():
    device = pick_device()
    assert torch.ones(2, device=device).sum().item() == 2.0
    synchronise(device)()
    synchronise(torch.device("cpu"))()
