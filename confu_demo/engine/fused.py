"""Weights as the forward wants them: few matrices, laid out for few rows.

q, k and v become one matrix, gate and up another; q and k are reordered for
:mod:`confu_demo.engine.rope`. On the CPU what can be multiplied in beforehand is: the weights of
norms, the sqrt(D) that turns a length into a root mean square, and the 1/sqrt(head_dim) of the
scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.packed import PackedMatrix, packed
from confu_demo.engine.rope import pair_neighbours


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """The four products of a layer for several rows, see :mod:`confu_demo.engine.packed`."""

    qkv: PackedMatrix
    out: PackedMatrix
    gate_up: PackedMatrix
    down: PackedMatrix


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer, ready for the forward. Matrices are [in, out]."""

    input_norm: Tensor | None  # [D]; None: folded into qkv
    qkv: Tensor  # [D, (H + 2 H_kv) * head_dim]
    qkv_bias: Tensor | None  # [(H + 2 H_kv) * head_dim]
    qk_norm: Tensor | None  # [H + H_kv, head_dim]
    out: Tensor  # [H * head_dim, D]
    mlp_norm: Tensor | None  # [D]; None: folded into gate_up
    gate_up: Tensor  # [D, 2 I]
    down: Tensor  # [I, D]
    packed: PackedLayer | None  # for several rows, where that is faster


def folds_scales(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether norms and the score scale go into the matrices: where that is exact to rounding
    and pays. Other devices have a fused norm, and half precision would round the products."""
    return device.type == "cpu" and dtype.itemsize >= 4


def product_layout(weight: Tensor) -> Tensor:
    """[out, in] -> [in, out] in the memory order that is fastest for few rows.

    On the CPU a matrix that widens is read up to twice as fast with its outputs side by side,
    one that narrows with its inputs side by side (measured, MKL with AVX2).
    """
    widens = weight.shape[0] >= weight.shape[1]
    if weight.device.type == "cpu" and widens:
        return weight.t().contiguous()
    return weight.contiguous().t()


def fuse_layer(
    config: ModelConfig, named: Mapping[str, Tensor], layer: int, like: Tensor, pack: bool
) -> LayerWeights:
    """Builds layer number ``layer`` on the device and in the dtype of ``like``; ``pack``: with
    packed matrices beside, if the device has them."""
    folds = folds_scales(like.device, like.dtype)
    part = {
        name.removeprefix(f"layers.{layer}."): tensor
        for name, tensor in named.items()
        if name.startswith(f"layers.{layer}.")
    }
    score_scale = config.head_dim**-0.5 if folds else 1.0
    qkv_scale = 1.0 if config.qk_norm else score_scale  # a norm would undo it
    qkv = _joined_qkv(config, part, "weight", qkv_scale)
    gate_up = torch.cat((part["mlp.gate_proj.weight"], part["mlp.up_proj.weight"]))
    input_norm, mlp_norm = part["input_layernorm.weight"], part["post_attention_layernorm.weight"]
    if folds:
        qkv, gate_up = _with_norm(qkv, input_norm, like), _with_norm(gate_up, mlp_norm, like)
    bias = _joined_qkv(config, part, "bias", qkv_scale) if config.attention_bias else None
    bias = None if bias is None else bias.to(like)
    qkv, gate_up = qkv.to(like), gate_up.to(like)
    out, down = part["self_attn.o_proj.weight"].to(like), part["mlp.down_proj.weight"].to(like)
    return LayerWeights(
        input_norm=None if folds else input_norm.to(like),
        qkv=product_layout(qkv),
        qkv_bias=bias,
        qk_norm=_joined_qk_norm(config, part, score_scale).to(like) if config.qk_norm else None,
        out=product_layout(out),
        mlp_norm=None if folds else mlp_norm.to(like),
        gate_up=product_layout(gate_up),
        down=product_layout(down),
        packed=_packed_layer(qkv, bias, out, gate_up, down) if pack else None,
    )


def _packed_layer(
    qkv: Tensor, bias: Tensor | None, out: Tensor, gate_up: Tensor, down: Tensor
) -> PackedLayer | None:
    made = packed(qkv, bias), packed(out), packed(gate_up), packed(down)
    if any(matrix is None for matrix in made):
        return None
    return PackedLayer(*(matrix for matrix in made if matrix is not None))


def _joined_qkv(
    config: ModelConfig, part: Mapping[str, Tensor], kind: str, query_scale: float
) -> Tensor:
    """[(H + 2 H_kv) * head_dim, ...] from the three projections, q and k in rotary order."""
    q, k, v = (part[f"self_attn.{name}_proj.{kind}"] for name in "qkv")
    q, k = pair_neighbours(q, config.head_dim), pair_neighbours(k, config.head_dim)
    return torch.cat((_scaled(q, query_scale), k, v))  # promotes to the widest


def _joined_qk_norm(config: ModelConfig, part: Mapping[str, Tensor], query_scale: float) -> Tensor:
    """[H + H_kv, head_dim]: the norm weight of every head that is rotated."""
    q, k = (part[f"self_attn.{name}_norm.weight"] for name in "qk")
    q, k = pair_neighbours(q, config.head_dim), pair_neighbours(k, config.head_dim)
    q = _scaled(q, query_scale)
    return torch.cat((q.expand(config.num_heads, -1), k.expand(config.num_kv_heads, -1)))


def _scaled(tensor: Tensor, factor: float) -> Tensor:
    """In at least float32: only folded weights are scaled, and those are wide."""
    wide = torch.promote_types(tensor.dtype, torch.float32)
    return tensor if factor == 1.0 else tensor.to(wide) * factor


def _with_norm(matrix: Tensor, norm: Tensor, like: Tensor) -> Tensor:
    """[out, in] with the norm weight [in] and sqrt(in) multiplied in."""
    return matrix.to(like) * (norm.double() * norm.shape[0] ** 0.5).to(like)
