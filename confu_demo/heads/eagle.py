"""The EAGLE-3 draft head: one decoder layer on fused target features, reduced vocabulary.

Owns the weights, in the public SafeAILab layout (``fc``, ``midlayer.*``, ``norm``, ``lm_head``,
``d2t``, ``t2d``), and the maths of one row. Knows no cache and no attention pattern: callers
project rows, attend as they need (training unrolls, decoding builds trees) and finish rows.

Everything here is EAGLE-3 [E] (arXiv 2503.01840, public ``cnets.py``). The input of row t is the
embedding of token t+1 and the feature of token t; the un-normalised output of a row is the
feature of the next row. Shape letters: S rows, D hidden, V vocabulary; ``hd`` is head_dim and
``..`` any leading batch dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from confu_demo.engine.model_config import RopeScaling
from confu_demo.engine.rope import scale_llama3
from confu_demo.heads.hub import HubHead


@dataclass(frozen=True, slots=True, kw_only=True)
class EagleConfig:
    """Sizes of a head and of the target it belongs to. ``target_sha256`` is the hash of the
    target's weights, or "" where it is unknown (public heads). ``norm_before_residual``: the
    layer's first residual is the normed feature, as some speculators heads have it, not the
    feature itself [E]."""

    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_positions: int
    target_hidden_size: int
    target_vocab_size: int
    draft_vocab_size: int
    feature_layers: tuple[int, ...]
    target_sha256: str
    norm_before_residual: bool = False
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        if self.hidden_size != self.target_hidden_size:
            raise ValueError(
                f"the head reads the target's embeddings, so its hidden size {self.hidden_size} "
                f"must be the target's {self.target_hidden_size}"
            )
        if not 1 <= self.draft_vocab_size <= self.target_vocab_size:
            raise ValueError(
                f"draft vocabulary {self.draft_vocab_size} must be 1 to {self.target_vocab_size}"
            )
        if self.num_heads % self.num_kv_heads or self.head_dim % 2:
            raise ValueError("num_heads must divide by num_kv_heads and head_dim by 2")
        if not self.feature_layers or list(self.feature_layers) != sorted(set(self.feature_layers)):
            raise ValueError(f"feature layers must increase, not {self.feature_layers}")

    @property
    def feature_size(self) -> int:
        """Width of the concatenated target features."""
        return len(self.feature_layers) * self.target_hidden_size

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        """Float32[hd/2]: how fast each pair of a head turns with the position."""
        steps = torch.arange(0, self.head_dim, 2, device=device).float() / self.head_dim
        plain = self.rope_theta**-steps
        return plain if self.rope_scaling is None else scale_llama3(plain, self.rope_scaling)


class RMSNorm(nn.Module):
    """Root-mean-square norm; the mean is taken in float32 or better, as Llama does."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[.., D] -> [.., D] in the dtype of x."""
        wide = x if x.dtype == torch.float64 else x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide * scale).to(x.dtype)


class Attention(nn.Module):
    """The projections of the draft layer; q, k and v read 2D: norm(embedding), norm(feature)."""

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        wide = 2 * config.hidden_size
        heads, kv_heads = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(wide, heads, bias=False)
        self.k_proj = nn.Linear(wide, kv_heads, bias=False)
        self.v_proj = nn.Linear(wide, kv_heads, bias=False)
        self.o_proj = nn.Linear(heads, config.hidden_size, bias=False)


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class DraftLayer(nn.Module):
    """The parameters of the one decoder layer; its maths is in :class:`EagleHead`."""

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)  # embedding
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)  # feature
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)


class EagleHead(nn.Module, HubHead, tags=["eagle3"]):
    """An EAGLE-3 head. ``d2t[i]`` is the offset that turns draft id i into target id i + d2t[i];
    ``t2d[j]`` says whether target id j is in the draft vocabulary."""

    d2t: Tensor
    t2d: Tensor
    _paper = "https://arxiv.org/abs/2503.01840"

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.feature_size, config.hidden_size, bias=False)
        self.midlayer = DraftLayer(config)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        self.row_dropout = 0.0  # training only: a few answers are soon known by heart [O]
        self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.long))
        t2d = torch.arange(config.target_vocab_size) < config.draft_vocab_size
        self.register_buffer("t2d", t2d)

    @classmethod
    def initial(
        cls, config: EagleConfig, target_lm_head: Tensor, token_counts: Tensor
    ) -> EagleHead:
        """An untrained head whose draft vocabulary is the most frequent tokens.

        ``token_counts`` Long[V]: how often the target's own answers use each token; ties go to
        the lower id. ``target_lm_head`` [V, D]: its rows of the chosen ids start ``lm_head``.
        """
        order = torch.argsort(token_counts, descending=True, stable=True)
        chosen = order[: config.draft_vocab_size].sort().values
        head = cls(config)
        head.set_draft_vocabulary(chosen)
        with torch.no_grad():
            head.lm_head.weight.copy_(target_lm_head[chosen])
        return head

    def set_draft_vocabulary(self, target_ids: Tensor) -> None:
        """``target_ids`` Long[V_draft], increasing: target id of every draft id."""
        if bool((target_ids[1:] <= target_ids[:-1]).any()):
            raise ValueError("the draft vocabulary must be sorted and without repeats")
        self.d2t.copy_(target_ids - torch.arange(len(target_ids)))
        self.t2d.zero_()[target_ids] = True

    def fuse(self, features: Tensor) -> Tensor:
        """Target features [.., 3*D_t] -> the drafter's feature [.., D]."""
        fused: Tensor = self.fc(features)
        return fused

    def project(
        self, embeddings: Tensor, features: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rows to rotated queries, rotated keys and values.

        ``embeddings``, ``features`` [.., S, D]; ``positions`` Long[.., S] (or [S], shared).
        Returns q [.., H, S, hd], k [.., H_kv, S, hd], v [.., H_kv, S, hd].
        """
        layer = self.midlayer
        rows = torch.cat((layer.input_layernorm(embeddings), layer.hidden_norm(features)), dim=-1)
        if self.training and self.row_dropout:
            rows = F.dropout(rows, self.row_dropout)
        q, k, v = (
            proj(rows).unflatten(-1, (-1, self.config.head_dim)).transpose(-3, -2)
            for proj in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj)
        )
        cos, sin = self._rotation(positions, rows.dtype)
        return _rotate(q, cos, sin), _rotate(k, cos, sin), v

    def finish(self, features: Tensor, attended: Tensor) -> Tensor:
        """Output projection, residual (the feature as the config has it), norm, SwiGLU, residual.

        ``features`` [.., S, D]; ``attended`` [.., S, H*hd]. Returns the un-normalised output
        [.., S, D], which is the next row's feature as it is (no fusion).
        """
        layer = self.midlayer
        if self.config.norm_before_residual:
            features = layer.hidden_norm(features)
        hidden = features + layer.self_attn.o_proj(attended)
        out: Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """[.., D] -> [.., V_draft]."""
        out: Tensor = self.lm_head(self.norm(hidden))
        return out

    def draft_to_target(self, ids: Tensor) -> Tensor:
        """Draft ids -> target ids, any shape."""
        return ids + self.d2t[ids]

    def target_to_draft(self, ids: Tensor) -> Tensor:
        """Target ids -> draft ids, -1 where the token is not in the draft vocabulary."""
        rank = torch.cumsum(self.t2d.long(), dim=0) - 1
        return torch.where(self.t2d[ids], rank[ids], -1)

    def _rotation(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin [.., 1, S, hd] of the rotary embedding (Hugging Face's half layout)."""
        frequencies = self.config.frequencies(positions.device)
        angles = positions.float().unsqueeze(-1) * frequencies
        angles = torch.cat((angles, angles), dim=-1).unsqueeze(-3)
        return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of [.., H, S, hd]."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin
