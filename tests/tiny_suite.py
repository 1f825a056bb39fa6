"""A whole suite of random weights in a temporary folder: every path of the program, no training.

Its texts are nonsense and its drafts are hardly ever right; what is tested with it is that
everything fits together, not how good anything is.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

from confu_demo.data.vocabulary import make_tokenizer
from confu_demo.engine.loading import sha256_of_folder
from confu_demo.engine.model_config import ModelConfig, default_feature_layers
from confu_demo.engine.weights import random_weights
from confu_demo.heads.checkpoint import save_head
from confu_demo.heads.confu import ConfuHead, ConfuHeadConfig
from confu_demo.heads.eagle import EagleConfig, EagleHead
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.suites import find_suite

MAX_POSITIONS = 192


@cache
def suite_folder() -> Path:
    """The folder, made once for all tests of a process; tests that change it take a copy."""
    folder = Path(tempfile.mkdtemp(prefix="confu-demo-tiny-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tokenizer = make_tokenizer(folder / "target", num_problems=300)
    tokenizer.save_pretrained(folder / "draft")
    target = write_model(folder / "target", tokenizer, num_layers=4, seed=1)
    write_model(folder / "draft", tokenizer, num_layers=2, seed=2)
    torch.manual_seed(0)
    head = EagleHead(eagle_config(target, sha256_of_folder(folder / "target")))
    save_head(folder / "eagle3", head)
    config = ConfuHeadConfig(eagle=head.config, num_soft_prompts=3, num_experts=4)
    save_head(folder / "confu", ConfuHead.from_eagle(head, config))
    return folder


@cache
def loaded() -> LoadedSuite:
    return LoadedSuite(find_suite(str(suite_folder())), device="cpu", dtype="float32", threads=1)


def copy_of_suite(folder: Path) -> Path:
    return Path(shutil.copytree(suite_folder(), folder / "suite"))


def write_model(
    folder: Path, tokenizer: PreTrainedTokenizerFast, *, num_layers: int, seed: int
) -> ModelConfig:
    """A qwen3 of random weights as Hugging Face saves it, beside the tokenizer that is there."""
    raw = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": num_layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "max_position_embeddings": MAX_POSITIONS,
        "tie_word_embeddings": False,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    (folder / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    config = ModelConfig.from_hf(raw)
    save_file(
        random_weights(config, seed=seed), folder / "model.safetensors", metadata={"format": "pt"}
    )
    return config


def eagle_config(target: ModelConfig, sha256: str) -> EagleConfig:
    return EagleConfig(
        hidden_size=target.hidden_size,
        intermediate_size=48,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        max_positions=MAX_POSITIONS,
        target_hidden_size=target.hidden_size,
        target_vocab_size=target.vocab_size,
        draft_vocab_size=target.vocab_size - 8,
        feature_layers=default_feature_layers(target.num_layers),
        target_sha256=sha256,
    )
