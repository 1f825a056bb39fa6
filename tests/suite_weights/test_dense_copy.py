from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from confu_demo.engine.loading import load_model, load_tokenizer, sha256_of_folder
from confu_demo.suite_parts import eos_ids
from confu_demo.suite_weights.dense_copy import safetensors_header, write_dense_copy
from confu_demo.suite_weights.errors import FetchError
from confu_demo.suite_weights.gguf_model import GgufModel, hf_name, rotary_halves
from confu_demo.suite_weights.sources import WeightSource
from tests.suite_weights.kit import drain, offer, write_gguf


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, WeightSource]:
    folder = tmp_path_factory.mktemp("offer")
    return folder / "gguf" / "tiny.gguf", offer(folder)


@pytest.fixture(scope="module")
def dense(offered: tuple[Path, WeightSource], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense") / "target"
    drain(write_dense_copy(offered[0], folder, offered[1]))
    return folder


def test_the_weights_are_those_that_transformers_reads_from_the_gguf(
    offered: tuple[Path, WeightSource], dense: Path
):
    path = offered[0]
    theirs = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, local_files_only=True
    )
    ours = load_file(dense / "model.safetensors")
    wanted = {name: t for name, t in theirs.state_dict().items() if name != "lm_head.weight"}
    assert ours.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(ours[name], tensor.to(torch.bfloat16)), name


def test_the_file_has_the_bytes_that_the_safetensors_library_writes(dense: Path, tmp_path: Path):
    written = dense / "model.safetensors"
    save_file(load_file(written), tmp_path / "theirs", metadata={"format": "pt"})
    assert written.read_bytes() == (tmp_path / "theirs").read_bytes()


def test_the_header_is_padded_to_eight_bytes():
    header = safetensors_header({"a": (3,)})
    assert int.from_bytes(header[:8], "little") == len(header) - 8
    assert len(header) % 8 == 0
    entries = json.loads(header[8:])
    assert entries["a"] == {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}


def test_the_engine_and_transformers_agree_on_the_copy(dense: Path):
    ids = torch.tensor([1, 5, 9, 40, 2, 77])
    model = load_model(dense, device="cpu", dtype="float32", threads=1)
    theirs = AutoModelForCausalLM.from_pretrained(dense, dtype=torch.float32, local_files_only=True)
    with torch.inference_mode():
        ours = model.forward(model.new_cache(8), token_ids=ids).logits
        assert torch.allclose(ours, theirs(ids[None]).logits[0], atol=1e-4)


def test_the_copy_is_an_ordinary_folder_with_tokenizer_and_ends(
    offered: tuple[Path, WeightSource], dense: Path
):
    tokenizer = load_tokenizer(dense)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert "<|im_start|>" in tokenizer.chat_template
    assert eos_ids(dense, tokenizer) == {0, 2}
    assert sha256_of_folder(dense) == offered[1].dense.sha256


def test_weights_that_differ_from_those_of_the_heads_are_refused(
    offered: tuple[Path, WeightSource], tmp_path: Path
):
    path, source = offered
    other = replace(source, dense=replace(source.dense, sha256="0" * 64))
    with pytest.raises(FetchError, match="other weights than the shipped heads were trained on"):
        drain(write_dense_copy(path, tmp_path / "target", other))


def test_query_rows_are_put_back_into_two_halves():
    """Two heads of four rows; llama.cpp stores rotary pairs next to each other."""
    rows = torch.tensor([0.0, 2, 1, 3, 4, 6, 5, 7])[:, None]
    assert rotary_halves(rows, 2).flatten().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_unknown_contents_are_refused_by_name(tmp_path: Path):
    path = tmp_path / "other.gguf"
    write_gguf(path, architecture="mamba")
    with pytest.raises(FetchError, match="of the kind 'mamba', not llama"):
        GgufModel(path)
    path.write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(FetchError, match="no readable GGUF file"):
        GgufModel(path)
    with pytest.raises(FetchError, match=r"no Llama has: 'blk\.0\.attn_q\.bias'"):
        hf_name("blk.0.attn_q.bias")
