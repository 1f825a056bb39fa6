"""EAGLE-3 heads of other projects: their configs and parameter names, turned into ours.

Owns two public layouts and the reasons to refuse what :class:`EagleHead` cannot compute:

* SafeAILab [E] (also written by SpecForge): ``config.json`` is a Llama config with
  ``draft_vocab_size``; the layer is ``midlayer.*``.
* speculators (vLLM): ``config.json`` has ``speculators_model_type`` and holds the Llama config
  in ``transformer_layer_config``; the layer is ``layers.0.*``. ``norm_before_residual`` is a
  flag of :class:`EagleConfig`; vLLM reads it in either layout, so do we.

Layer ids, where a config names them, are of two kinds. Ours say which layer a residual stream
ENTERS (0 = the embeddings). ``eagle_aux_hidden_state_layer_ids`` at the top of a config, as
speculators writes it and vLLM reads it, means the same. Inside ``eagle_config``, as SpecForge
writes it and SGLang reads it, an id names the layer whose OUTPUT is read: one more in our count.
Without ids both mean 2, L//2, L-3 in our count. Knows no files and no decoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from confu_demo.engine.errors import CorruptModel, UnsupportedModel
from confu_demo.engine.model_config import RopeScaling, default_feature_layers
from confu_demo.heads.eagle import EagleConfig
from confu_demo.heads.target_info import TargetInfo

LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
_NOT_READ = ("embed_tokens.", "verifier_norm.", "verifier_lm_head.")
"""Copies of the target's own weights; the engine has them already."""


def public_config(raw: Mapping[str, Any], target: TargetInfo | None) -> EagleConfig:
    """The config of a head in either public layout.

    ``target`` is needed only where the config leaves the layers to the target's depth. Raises
    :class:`UnsupportedModel` naming what is not supported; KeyError, TypeError or ValueError
    where the config does not describe a head.
    """
    layer = _layer_config(raw)
    _refuse_other_maths(raw, layer)
    hidden, heads = layer["hidden_size"], layer["num_attention_heads"]
    target_hidden = raw.get("target_hidden_size") or hidden
    if target_hidden != hidden:
        raise UnsupportedModel(
            f"heads with their own embeddings (hidden size {hidden}, the target has "
            f"{target_hidden}) are not supported; use a head of the target's size"
        )
    rope_theta, rope_scaling = _rope(layer)
    return EagleConfig(
        hidden_size=hidden,
        intermediate_size=layer["intermediate_size"],
        num_heads=heads,
        num_kv_heads=layer.get("num_key_value_heads") or heads,
        head_dim=layer.get("head_dim") or hidden // heads,
        rms_norm_eps=layer.get("rms_norm_eps", 1e-6),
        rope_theta=rope_theta,
        max_positions=layer.get("max_position_embeddings", 2048),
        target_hidden_size=hidden,
        target_vocab_size=layer["vocab_size"],
        draft_vocab_size=raw.get("draft_vocab_size") or layer["vocab_size"],
        feature_layers=_feature_layers(raw, target),
        target_sha256="",
        norm_before_residual=bool(raw.get("norm_before_residual", False)),
        rope_scaling=rope_scaling,
    )


def public_arrays(arrays: Mapping[str, Tensor], config: EagleConfig) -> dict[str, Tensor]:
    """Parameters under our names, without copies of the target's weights.

    ``t2d`` follows from ``d2t``; a head that drafts the whole vocabulary needs neither.
    """
    named = {
        ("midlayer." + name.removeprefix("layers.0.") if name.startswith("layers.0.") else name): v
        for name, v in arrays.items()
        if not name.startswith(_NOT_READ) and not name.endswith("rotary_emb.inv_freq")
    }
    if "d2t" not in named and config.draft_vocab_size == config.target_vocab_size:
        named["d2t"] = torch.zeros(config.draft_vocab_size, dtype=torch.long)
    if "t2d" not in named and "d2t" in named:
        ids = named["d2t"].long() + torch.arange(len(named["d2t"]))
        inside = ids[(ids >= 0) & (ids < config.target_vocab_size)]
        named["t2d"] = torch.zeros(config.target_vocab_size, dtype=torch.bool)
        named["t2d"][inside] = True
    return named


def _layer_config(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The Hugging Face config of the draft layer."""
    kind = raw.get("speculators_model_type")
    if kind is None:
        return raw
    if kind != "eagle3":
        raise UnsupportedModel(f"speculators of type {kind!r} are not supported; use an eagle3 one")
    layer = raw.get("transformer_layer_config")
    if not isinstance(layer, dict):
        raise CorruptModel("a speculators config must hold transformer_layer_config")
    return layer


def _refuse_other_maths(raw: Mapping[str, Any], layer: Mapping[str, Any]) -> None:
    """Settings that change what the layer computes and that :class:`EagleHead` does not know."""
    family = layer.get("model_type", "llama")
    if family != "llama":
        raise UnsupportedModel(f"a draft layer of family {family!r} is not supported; use llama")
    if layer.get("num_hidden_layers", 1) != 1:
        raise UnsupportedModel(
            f"heads of {layer['num_hidden_layers']} layers are not supported; use one of one layer"
        )
    if layer.get("hidden_act", "silu") != "silu":
        raise UnsupportedModel(f"hidden_act {layer['hidden_act']!r} is not supported; use silu")
    for name in ("attention_bias", "mlp_bias"):
        if layer.get(name):
            raise UnsupportedModel(f"heads with {name} are not supported; use one without biases")
    for name in ("norm_before_fc", "fc_norm", "norm_output"):
        if raw.get(name):
            raise UnsupportedModel(f"heads with {name} are not supported; use one without it")
    if raw.get("embed_requires_grad"):
        raise UnsupportedModel(
            "heads that trained their own embeddings (embed_requires_grad) are not supported; "
            "use one that reads the target's"
        )
    if (raw.get("eagle_config") or {}).get("use_aux_hidden_state") is False:
        raise UnsupportedModel(
            "heads without use_aux_hidden_state read one layer and are not supported; "
            "use one that reads three"
        )


def _rope(layer: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """Base and scaling; newer configs keep both in ``rope_parameters``, old ones may leave the
    base out."""
    new = layer.get("rope_parameters") or {}
    scaling = layer.get("rope_scaling") or new
    theta = float(layer.get("rope_theta") or new.get("rope_theta") or 10_000.0)
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise UnsupportedModel(
            f"heads with rope_scaling {kind!r} are not supported; use one with default or llama3"
        )
    return theta, RopeScaling(
        factor=float(scaling["factor"]),
        low_freq_factor=float(scaling["low_freq_factor"]),
        high_freq_factor=float(scaling["high_freq_factor"]),
        original_max_positions=int(scaling["original_max_position_embeddings"]),
    )


def _feature_layers(raw: Mapping[str, Any], target: TargetInfo | None) -> tuple[int, ...]:
    """Which layers' input the head reads; see the module's note on the two kinds of ids."""
    if entered := raw.get(LAYER_IDS):
        return tuple(entered)
    if left := (raw.get("eagle_config") or {}).get(LAYER_IDS):
        return tuple(layer + 1 for layer in left)
    if target is None:
        raise UnsupportedModel(
            "this head reads layers that depend on its target's depth; say target=TargetInfo(...)"
        )
    return default_feature_layers(target.num_layers)
