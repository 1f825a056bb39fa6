"""The tensors that a model of the family has, by name and shape.

Names are Hugging Face's without the ``model.`` prefix. What the forward makes of them is in
:mod:`confu_demo.engine.fused`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from confu_demo.engine.errors import CorruptModel
from confu_demo.engine.model_config import ModelConfig


def weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that a model of this shape has: name -> shape, [out, in] for matrices."""
    d, heads, kv = config.hidden_size, config.num_heads, config.num_kv_heads
    q_size, kv_size = heads * config.head_dim, kv * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {"embed_tokens.weight": (config.vocab_size, d)}
    for layer in range(config.num_layers):
        prefix = f"layers.{layer}."
        shapes[f"{prefix}input_layernorm.weight"] = (d,)
        shapes[f"{prefix}post_attention_layernorm.weight"] = (d,)
        for name, size in (("q", q_size), ("k", kv_size), ("v", kv_size)):
            shapes[f"{prefix}self_attn.{name}_proj.weight"] = (size, d)
            if config.attention_bias:
                shapes[f"{prefix}self_attn.{name}_proj.bias"] = (size,)
        if config.qk_norm:
            shapes[f"{prefix}self_attn.q_norm.weight"] = (config.head_dim,)
            shapes[f"{prefix}self_attn.k_norm.weight"] = (config.head_dim,)
        shapes[f"{prefix}self_attn.o_proj.weight"] = (d, q_size)
        shapes[f"{prefix}mlp.gate_proj.weight"] = (config.intermediate_size, d)
        shapes[f"{prefix}mlp.up_proj.weight"] = (config.intermediate_size, d)
        shapes[f"{prefix}mlp.down_proj.weight"] = (d, config.intermediate_size)
    shapes["norm.weight"] = (d,)
    if not config.tie_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, d)
    return shapes


def num_parameters_of(config: ModelConfig) -> int:
    """Parameters of a model of this shape; tied embeddings count once."""
    return sum(math.prod(shape) for shape in weight_shapes(config).values())


def checked_weights(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Strips the ``model.`` prefix. Raises :class:`CorruptModel` for a tensor that is missing or
    has another shape than the config says; ignores tensors that the forward does not use."""
    named = {name.removeprefix("model."): tensor for name, tensor in weights.items()}
    for name, shape in weight_shapes(config).items():
        if name not in named:
            raise CorruptModel(
                f"weight {name} is missing; the files are incomplete, fetch the model again"
            )
        if tuple(named[name].shape) != shape:
            raise CorruptModel(
                f"weight {name} has shape {list(named[name].shape)} where config.json asks for "
                f"{list(shape)}; weights and config do not belong together, fetch both again"
            )
    return named


def random_weights(
    config: ModelConfig, *, seed: int = 0, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Weights of a model nobody trained, under Hugging Face's names; for tests and probes."""
    generator = torch.Generator().manual_seed(seed)
    weights: dict[str, Tensor] = {}
    for name, shape in weight_shapes(config).items():
        tensor = torch.randn(shape, generator=generator) * 0.1
        if len(shape) == 2 and not name.startswith("embed"):
            tensor *= 10 * shape[1] ** -0.5  # keeps the residual stream near unit scale
        elif name.endswith("norm.weight"):
            tensor += 1.0
        prefix = "" if name.startswith("lm_head") else "model."
        weights[prefix + name] = tensor.to(dtype)
    return weights
