"""Which tensors a model has, and how they are laid out for the fastest small products.

Names are Hugging Face's without the ``model.`` prefix. q, k and v become one matrix, gate and up
another; q and k are reordered for :mod:`confu_demo.engine.rope`. Every matrix is stored so that
``x @ matrix`` is one ``mm``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.engine.errors import CorruptModel
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.rope import pair_neighbours


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer, ready for the forward. Matrices are [in, out]."""

    input_norm: Tensor  # [D]
    qkv: Tensor  # [D, (H + 2 H_kv) * head_dim]
    qkv_bias: Tensor | None  # [(H + 2 H_kv) * head_dim]
    qk_norm: Tensor | None  # [H + H_kv, head_dim]
    out: Tensor  # [H * head_dim, D]
    mlp_norm: Tensor  # [D]
    gate_up: Tensor  # [D, 2 I]
    down: Tensor  # [I, D]


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


def fuse_layer(
    config: ModelConfig, named: Mapping[str, Tensor], layer: int, like: Tensor
) -> LayerWeights:
    """Builds one layer on the device and in the dtype of ``like``."""
    prefix = f"layers.{layer}."

    def get(name: str) -> Tensor:
        return named[prefix + name].to(like)

    def paired(name: str) -> Tensor:
        return pair_neighbours(get(name), config.head_dim)

    def attention(kind: str) -> Tensor:
        names = (f"self_attn.{part}_proj.{kind}" for part in "qkv")
        q_name, k_name, v_name = names
        return torch.cat((paired(q_name), paired(k_name), get(v_name)))

    qk_norm = None
    if config.qk_norm:
        q_norm = paired("self_attn.q_norm.weight").expand(config.num_heads, -1)
        k_norm = paired("self_attn.k_norm.weight").expand(config.num_kv_heads, -1)
        qk_norm = torch.cat((q_norm, k_norm))
    gate_up = torch.cat((get("mlp.gate_proj.weight"), get("mlp.up_proj.weight")))
    return LayerWeights(
        input_norm=get("input_layernorm.weight"),
        qkv=attention("weight").t().contiguous(),
        qkv_bias=attention("bias") if config.attention_bias else None,
        qk_norm=qk_norm,
        out=get("self_attn.o_proj.weight").contiguous().t(),
        mlp_norm=get("post_attention_layernorm.weight"),
        gate_up=gate_up.t().contiguous(),
        down=get("mlp.down_proj.weight").contiguous().t(),
    )
