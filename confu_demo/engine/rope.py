"""Rotary position embedding as one complex multiplication.

Hugging Face rotates the pairs (i, i + head_dim/2) of a head. Reordering the rows of the q and k
projections once at load time makes each pair neighbours, so a head is head_dim/2 complex numbers
and the rotation is a product with ``exp(i * position * frequency)``. Scores are sums over a head,
so the order changes nothing else; keys stay in this order in the cache.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from confu_demo.engine.model_config import ModelConfig, RopeScaling


def inverse_frequencies(config: ModelConfig) -> Tensor:
    """Float32[head_dim/2], computed as transformers does, bit for bit."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    if config.rope_scaling is not None:
        frequencies = scale_llama3(frequencies, config.rope_scaling)
    return frequencies


def rotation_table(config: ModelConfig, num_positions: int) -> Tensor:
    """Complex64[num_positions, head_dim/2]: the unit rotation of every pair at every position."""
    positions = torch.arange(num_positions, dtype=torch.float32)
    angles = positions[:, None] * inverse_frequencies(config)[None, :]
    return torch.complex(angles.cos(), angles.sin())


def pair_neighbours(weight: Tensor, head_dim: int) -> Tensor:
    """Reorders dimension 0 ([heads * head_dim, ...]) so that rotary pairs are neighbours."""
    heads = weight.unflatten(0, (-1, 2, head_dim // 2))  # [heads, half, pair, ...]
    return heads.transpose(1, 2).reshape(weight.shape)


def as_pairs(heads: Tensor) -> Tensor:
    """Float32 or float64 [.., head_dim] -> complex [.., head_dim/2], the same memory."""
    return torch.view_as_complex(heads.unflatten(-1, (-1, 2)))


def rotate_half_precision_(heads: Tensor, rotation: Tensor) -> None:
    """Rotates float16 or bfloat16 heads in float32, which complex numbers need."""
    pairs = as_pairs(heads.float()).mul_(rotation)
    heads.copy_(torch.view_as_real(pairs).flatten(-2))


def scale_llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama 3's stretching of the slow pairs: Float32[head_dim/2] -> Float32[head_dim/2]."""
    low_wavelength = scaling.original_max_positions / scaling.low_freq_factor
    high_wavelength = scaling.original_max_positions / scaling.high_freq_factor
    wavelengths = 2 * math.pi / frequencies
    stretched = torch.where(wavelengths > low_wavelength, frequencies / scaling.factor, frequencies)
    smooth = (scaling.original_max_positions / wavelengths - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blended = (1 - smooth) * stretched / scaling.factor + smooth * stretched
    is_between = ~(wavelengths < high_wavelength) & ~(wavelengths > low_wavelength)
    return torch.where(is_between, blended, stretched)
