"""The shape of a decoder-only transformer of the Llama family, read from a Hugging Face config.

Owns: which families and settings the engine implements, and the refusal of all others by name.
Knows no weights. transformers 5 keeps rotary settings in ``rope_parameters``, older config files
in ``rope_theta`` and ``rope_scaling``; both arrive here as ``rope_theta`` and ``rope_scaling``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from confu_demo.engine.errors import UnsupportedModel

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Family = Literal["llama", "qwen2", "qwen3"]
FAMILIES: tuple[Family, ...] = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """Llama 3's rotary scaling: long wavelengths are stretched by ``factor``, short ones kept,
    those between blended (transformers, ``_compute_llama3_parameters``)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Everything the forward needs to know. ``attention_bias``: q, k and v have biases (Qwen2);
    ``qk_norm``: every head of q and k is RMS-normalised before the rotation (Qwen3)."""

    family: Family
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    max_positions: int
    tie_embeddings: bool
    attention_bias: bool
    qk_norm: bool

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise UnsupportedModel(
                f"the {self.num_heads} attention heads must be a multiple of the "
                f"{self.num_kv_heads} key/value heads"
            )
        if self.head_dim % 2:
            raise UnsupportedModel(f"the head size must be even, not {self.head_dim}")

    @classmethod
    def from_hf(cls, source: Mapping[str, Any] | PretrainedConfig) -> ModelConfig:
        """Reads a ``config.json`` dictionary or a transformers config.

        Raises :class:`UnsupportedModel` (a ``ValueError``) that names what is not implemented.
        """
        config = _as_hf_config(source)
        family = cast(Family, config.model_type)
        _refuse_unsupported(config)
        rope_theta, rope_scaling = _rope(config)
        head_dim = getattr(config, "head_dim", None)
        return cls(
            family=family,
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_layers=config.num_hidden_layers,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads or config.num_attention_heads,
            head_dim=head_dim or config.hidden_size // config.num_attention_heads,
            rms_norm_eps=config.rms_norm_eps,
            rope_theta=rope_theta,
            rope_scaling=rope_scaling,
            max_positions=config.max_position_embeddings,
            tie_embeddings=bool(config.tie_word_embeddings),
            attention_bias=family == "qwen2",
            qk_norm=family == "qwen3",
        )


def default_feature_layers(num_layers: int) -> tuple[int, ...]:
    """Layers whose input EAGLE-3 reads: 2, L//2, L-3 [E]; moved apart where they collide.

    Three distinct increasing layers if there are three, else all of them (our choice).
    """
    if num_layers <= 3:
        return tuple(range(num_layers))
    low = min(2, num_layers - 3)
    middle = max(num_layers // 2, low + 1)
    high = max(num_layers - 3, middle + 1)
    return low, middle, high


def _as_hf_config(source: Mapping[str, Any] | PretrainedConfig) -> Any:
    """Fills the defaults of the family, which old ``config.json`` files leave out."""
    family = source.get("model_type") if isinstance(source, Mapping) else source.model_type
    if family not in FAMILIES:
        raise UnsupportedModel(
            f"model family {family!r} is not supported; choose a model of one of these: "
            f"{', '.join(FAMILIES)} (SmolLM2 is llama)"
        )
    if not isinstance(source, Mapping):
        return source
    from transformers import AutoConfig  # slow to import, and needed only here

    settings = copy.deepcopy(dict(source))  # transformers writes into nested dictionaries
    del settings["model_type"]
    try:
        return AutoConfig.for_model(family, **settings)
    except Exception as error:  # strict config classes raise their own exception types
        reason = str(error).replace("\n", " ")
        raise UnsupportedModel(f"the {family} config cannot be read: {reason}") from error


def _refuse_unsupported(config: Any) -> None:
    """Raises for settings of the three families that the forward does not implement."""
    refused = {
        "hidden_act": config.hidden_act != "silu" and config.hidden_act,
        "mlp_bias": getattr(config, "mlp_bias", False),
        "attention_bias": getattr(config, "attention_bias", False),
        "use_sliding_window": getattr(config, "use_sliding_window", False),
        "quantization_config": getattr(config, "quantization_config", None),
    }
    for name, value in refused.items():
        if value:
            raise UnsupportedModel(
                f"{config.model_type} with {name}={value!r} is not supported; "
                "use a model without it"
            )


def _rope(config: Any) -> tuple[float, RopeScaling | None]:
    """(theta, scaling) from either layout. Raises for any scaling but llama3."""
    rope = dict(getattr(config, "rope_parameters", None) or {})
    rope = {**dict(getattr(config, "rope_scaling", None) or {}), **rope}
    theta = rope.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0
    kind = rope.get("rope_type") or rope.get("type") or "default"
    partial = rope.get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", 1.0)
    if kind not in ("default", "llama3") or partial not in (None, 1.0):
        name = kind if kind not in ("default", "llama3") else f"partial_rotary_factor={partial}"
        raise UnsupportedModel(
            f"rotary embedding {name!r} is not supported; use a model with 'default' or 'llama3'"
        )
    if kind == "default":
        return float(theta), None
    original = rope.get("original_max_position_embeddings") or config.max_position_embeddings
    return float(theta), RopeScaling(
        factor=float(rope["factor"]),
        low_freq_factor=float(rope["low_freq_factor"]),
        high_freq_factor=float(rope["high_freq_factor"]),
        original_max_positions=int(original),
    )
