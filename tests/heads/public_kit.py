"""Random heads written as other projects write theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from confu_demo.heads.eagle import EagleConfig
from tests.heads.kit import CONFIG, eagle


def llama_config(config: EagleConfig = CONFIG, **changes: Any) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": None,
        "max_position_embeddings": config.max_positions,
        "vocab_size": config.target_vocab_size,
        **changes,
    }


def safeai_folder(
    folder: Path, arrays: dict[str, Tensor] | None = None, *, pickled: bool = False, **changes: Any
) -> dict[str, Tensor]:
    """A head in the SafeAILab EAGLE-3 layout; returns its arrays, as they are on disk."""
    arrays = arrays or {name: tensor.clone() for name, tensor in eagle().state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    if pickled:
        torch.save(arrays, folder / "pytorch_model.bin")
    else:
        save_file(arrays, folder / "model.safetensors")
    config = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 12}
    write_config(folder, {**llama_config(), **config, **changes})
    return arrays


def speculators_folder(
    folder: Path,
    arrays: dict[str, Tensor] | None = None,
    *,
    layer: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Tensor]:
    """A head in the speculators layout; returns its arrays under the names of [E]."""
    arrays = arrays or {name: tensor.clone() for name, tensor in eagle().state_dict().items()}
    stored = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in arrays.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file({**stored, "embed_tokens.weight": torch.zeros(30, 16)}, folder / "model.safetensors")
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_config": {"algorithm": "eagle3"},
        "transformer_layer_config": llama_config(**(layer or {})),
        "draft_vocab_size": 12,
        "norm_before_residual": False,
        "target_hidden_size": None,
        "eagle_aux_hidden_state_layer_ids": [1, 3, 6],
        **changes,
    }
    write_config(folder, config)
    return arrays


def write_config(folder: Path, config: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
