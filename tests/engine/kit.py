"""Tiny models of every family, ours and transformers', with the same random weights.

transformers computes RMSNorm in float32 whatever the model's dtype. A float64 comparison to 1e-9
needs the same formula in float64: :func:`reference_model` puts PyTorch's own norm in its place.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.target import LeanModel

VOCAB_SIZE = 61
NUM_LAYERS = 4

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}

VARIANTS: dict[str, tuple[type, type, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "llama_tied_ungrouped": (
        LlamaConfig,
        LlamaForCausalLM,
        {"tie_word_embeddings": True, "num_key_value_heads": 4},
    ),
    "llama3_rope": (LlamaConfig, LlamaForCausalLM, {"rope_parameters": LLAMA3_ROPE}),
    "qwen2_bias": (Qwen2Config, Qwen2ForCausalLM, {"rope_parameters": {"rope_theta": 1e6}}),
    "qwen3_qk_norm": (
        Qwen3Config,
        Qwen3ForCausalLM,
        {"head_dim": 12, "num_key_value_heads": 1, "tie_word_embeddings": True},
    ),
}


@dataclass(frozen=True)
class Pair:
    """The same weights as our model and as transformers'."""

    lean: LeanModel
    reference: Any

    def reference_logits(self, token_ids: Tensor) -> Tensor:
        """[S] -> [S, V] by transformers in one pass without a cache."""
        with torch.no_grad():
            return self.reference(token_ids[None], use_cache=False).logits[0]


def hf_config(variant: str) -> Any:
    config_class, _, settings = VARIANTS[variant]
    base = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_hidden_layers": NUM_LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return config_class(**copy.deepcopy({**base, **settings}))  # transformers writes into it


def reference_model(variant: str, dtype: torch.dtype, seed: int) -> Any:
    """transformers' model with weights large enough that every part matters."""
    torch.manual_seed(seed)
    model = VARIANTS[variant][1](hf_config(variant)).to(dtype).eval()
    # ``to`` rounds the frequencies as well, which loading in that dtype would not.
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, mean=1.0 if "norm" in name else 0.0, std=0.3)
    for name, module in model.named_modules():
        if "norm" in name.rpartition(".")[2]:
            _use_dtype_of_input(module)
    return model


def make_pair(variant: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Pair:
    reference = reference_model(variant, dtype, seed)
    config = ModelConfig.from_hf(reference.config)
    return Pair(LeanModel(config, reference.state_dict(), "cpu", dtype), reference)


def random_ids(length: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCAB_SIZE, (length,), generator=generator)


def assert_exact(got: Tensor, want: Tensor) -> None:
    """Equal but for the rounding of float64."""
    torch.testing.assert_close(got, want, rtol=0.0, atol=1e-10)


def _use_dtype_of_input(norm: Any) -> None:
    weight, eps = norm.weight, norm.variance_epsilon
    norm.forward = lambda hidden: nn.functional.rms_norm(hidden, weight.shape, weight, eps)
