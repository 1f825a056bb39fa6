"""A differentiable, batched twin of the engine's forward, for training.

Parameter names are Hugging Face's, so a checkpoint of ours is an ordinary model folder. The
engine is proved equal to transformers' models; a test proves this twin equal to the engine.
Attention is written out (matmul, softmax, matmul): for documents of about 200 tokens on a CPU
that is faster than ``scaled_dot_product_attention``.

Shape letters: B documents, S tokens in this forward, P past tokens, D hidden, H heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from confu_demo.engine.model_config import ModelConfig

KeyValue = tuple[Tensor, Tensor]


@dataclass(slots=True)
class LmOutput:
    hidden: Tensor  # [B, S, D], the residual stream after the last layer, not normalised
    features: Tensor | None  # [B, S, n * D], the residual stream entering the chosen layers
    keys_values: list[KeyValue]  # per layer: [B, H_kv, S, head_dim] twice, keys rotated


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in the half-split layout. x [B, H, S, hd], cos and sin [B, 1, S, hd]."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        width, bias = config.num_heads * config.head_dim, config.attention_bias
        kv_width = config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_width, bias=bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=bias)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)
        if config.qk_norm:
            self.q_norm = nn.RMSNorm(config.head_dim, eps=config.rms_norm_eps)
            self.k_norm = nn.RMSNorm(config.head_dim, eps=config.rms_norm_eps)

    def forward(
        self, x: Tensor, rope: tuple[Tensor, Tensor], bias: Tensor, past: KeyValue | None
    ) -> tuple[Tensor, KeyValue]:
        config = self.config
        batch, length, _ = x.shape
        heads = (batch, length, -1, config.head_dim)
        q, k, v = (p(x).view(heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        if config.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        q, k = rotate(q, *rope), rotate(k, *rope)
        new = (k, v)
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        group = config.num_heads // config.num_kv_heads
        if group > 1:
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        # One fused product of scale, scores and mask: [B * H, S, P + S].
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        scale = 1.0 / math.sqrt(config.head_dim)
        scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=scale)
        attended = torch.bmm(torch.softmax(scores, dim=-1), v).view(batch, -1, *q.shape[1:])
        return self.o_proj(attended.transpose(1, 2).reshape(batch, length, -1)), new


class Mlp(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = Mlp(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self, x: Tensor, rope: tuple[Tensor, Tensor], bias: Tensor, past: KeyValue | None
    ) -> tuple[Tensor, KeyValue]:
        attended, new = self.self_attn(self.input_layernorm(x), rope, bias, past)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), new


class _Body(nn.Module):
    """Holds the parameters under the ``model.`` prefix of Hugging Face's names."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class LanguageModel(nn.Module):
    """Llama, Qwen2 and Qwen3 shapes without rope scaling (that is refused)."""

    inverse_frequencies: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.rope_scaling is not None:
            raise ValueError("training does not support rotary scaling: use a model without it")
        self.config = config
        self.model = _Body(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        self.register_buffer("inverse_frequencies", config.rope_theta**-exponents, persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        """Normal weights of 0.02 at width 576 and wider ones for narrower models; the output
        projections are shrunk with depth (GPT-2)."""
        std = 0.5 / math.sqrt(self.config.hidden_size)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            scale = (
                std / math.sqrt(2 * self.config.num_layers)
                if "o_proj" in name or "down_proj" in name
                else std
            )
            nn.init.normal_(parameter, std=scale)

    def embed(self, token_ids: Tensor) -> Tensor:
        return self.model.embed_tokens(token_ids)

    def lm_head_logits(self, hidden: Tensor) -> Tensor:
        """[..., D] un-normalised residual -> [..., V]."""
        return self.lm_head(self.model.norm(hidden))

    def rope(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions [B, S] -> cos, sin [B, 1, S, head_dim], computed in float64."""
        angles = positions.to(torch.float64)[..., None] * self.inverse_frequencies
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        dtype = self.model.norm.weight.dtype
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def forward(
        self,
        embeddings: Tensor,
        positions: Tensor,
        mask: Tensor,
        past: list[KeyValue] | None = None,
        feature_layers: tuple[int, ...] = (),
    ) -> LmOutput:
        """embeddings [B, S, D]; positions [B or 1, S]; mask bool [B or 1, S, P + S], True = may
        attend; past per layer [B, H_kv, P, head_dim] twice."""
        rope = self.rope(positions)
        bias = torch.zeros_like(mask, dtype=embeddings.dtype)
        bias = bias.masked_fill(~mask, torch.finfo(embeddings.dtype).min)
        if bias.size(0) > 1:  # one mask a document: repeat it for the document's heads
            bias = bias.repeat_interleave(self.config.num_heads, dim=0)
        hidden, features, new = embeddings, [], []
        for index, layer in enumerate(self.model.layers):
            if index in feature_layers:
                features.append(hidden)
            hidden, keys_values = layer(hidden, rope, bias, past[index] if past else None)
            new.append(keys_values)
        return LmOutput(hidden, torch.cat(features, dim=-1) if features else None, new)


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """[1, S, S], True on and below the diagonal."""
    return torch.ones(1, length, length, dtype=torch.bool, device=device).tril()
