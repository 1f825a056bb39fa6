"""Heads on disk: ``config.json`` and safetensors shards below 10 MB, checked when loaded.

Owns the file layout and every reason to refuse a head. A folder in the public SafeAILab EAGLE-3
layout (Hugging Face config with ``draft_vocab_size``, plain parameter names) loads as well; our
own folders add the sizes, layers and hash of the target. Knows nothing of decoding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from confu_demo.engine.errors import CorruptModel, MissingModel, UnsupportedModel
from confu_demo.engine.model_config import ModelConfig, default_feature_layers
from confu_demo.heads.confu import ConfuHead, ConfuHeadConfig
from confu_demo.heads.eagle import EagleConfig, EagleHead

SHARD_BYTES = 9_500_000
"""Our limit: every shipped file stays below 10 MB."""
_ARRAYS = "safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetInfo:
    """What a head must fit. ``sha256`` "" means unknown and is not compared."""

    hidden_size: int
    vocab_size: int
    num_layers: int
    sha256: str = ""

    @classmethod
    def of(cls, config: ModelConfig, sha256: str = "") -> TargetInfo:
        return cls(
            hidden_size=config.hidden_size,
            vocab_size=config.vocab_size,
            num_layers=config.num_layers,
            sha256=sha256,
        )


def save_head(
    path: str | Path,
    head: EagleHead | ConfuHead,
    card: Mapping[str, Any] | None = None,
    *,
    dtype: torch.dtype | None = None,
) -> None:
    """Writes ``head`` into the folder ``path``; replaces the head that was there.

    ``card`` (JSON values: provenance, losses, held-out figures) is kept in ``config.json``.
    ``dtype`` rounds the weights (bfloat16 halves the files); None keeps them as they are.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model*.safetensors"):
        old.unlink()
    state = head.state_dict()
    shards = _shards(
        {n: t.detach().cpu().to(dtype if t.is_floating_point() else None) for n, t in state.items()}
    )
    for index, shard in enumerate(shards, start=1):
        suffix = f"-{index:05d}-of-{len(shards):05d}" if len(shards) > 1 else ""
        save_file(shard, folder / f"model{suffix}.{_ARRAYS}", metadata={"format": "pt"})
    config = asdict(head.config)
    config["method"] = "confu" if isinstance(head, ConfuHead) else "eagle3"
    config["card"] = dict(card or {})
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")


def load_head(path: str | Path, target: TargetInfo) -> EagleHead | ConfuHead:
    """The head in the folder ``path`` as a float32 module in eval mode.

    Raises :class:`MissingModel`, :class:`CorruptModel` (unreadable, or not what its config
    says) or :class:`UnsupportedModel` (a good head that belongs to another target).
    """
    folder = Path(path)
    raw = _read_config(folder)
    head: EagleHead | ConfuHead
    try:
        if raw.get("method") == "confu":
            eagle = EagleConfig(**_tuples(raw["eagle"]))
            own = ("num_soft_prompts", "num_experts", "experts_per_token")
            config = ConfuHeadConfig(eagle=eagle, **{name: raw[name] for name in own})
            _refuse_misfit(folder, eagle, target)
            head = ConfuHead(config)
        else:
            eagle = _own_or_public_config(raw, target)
            _refuse_misfit(folder, eagle, target)
            head = EagleHead(eagle)
    except UnsupportedModel:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptModel(f"{folder / 'config.json'} does not describe a head: {error}") from error
    _fill(head, _read_arrays(folder), folder)
    return head.eval().requires_grad_(False)


def load_card(path: str | Path) -> dict[str, Any]:
    """The card that ``save_head`` was given ({} for public heads)."""
    card = _read_config(Path(path)).get("card", {})
    return dict(card) if isinstance(card, dict) else {}


def sha256_of_head(path: str | Path) -> str:
    """Hex sha256 over the safetensors files of a head, in the order of their names."""
    digest = hashlib.sha256()
    for file in _array_files(Path(path)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _shards(arrays: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Greedy packing in name order. A single array above the limit raises ValueError."""
    shards: list[dict[str, Tensor]] = [{}]
    used = 0
    for name, array in arrays.items():
        size = array.numel() * array.element_size()
        if size > SHARD_BYTES:
            raise ValueError(f"{name} alone takes {size} bytes; shards hold {SHARD_BYTES}")
        if used + size > SHARD_BYTES:
            shards.append({})
            used = 0
        shards[-1][name] = array.contiguous()
        used += size
    return shards


def _read_config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise MissingModel(f"there is no head in {folder} (config.json is missing)")
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise CorruptModel(f"{file} is not readable JSON: {error}") from error
    if not isinstance(raw, dict):
        raise CorruptModel(f"{file} must hold a JSON object")
    return raw


def _own_or_public_config(raw: dict[str, Any], target: TargetInfo) -> EagleConfig:
    """Our own config, or the public one completed with the defaults of [E]."""
    if raw.get("method") == "eagle3":
        return EagleConfig(**_tuples({k: v for k, v in raw.items() if k not in ("method", "card")}))
    if raw.get("rope_scaling"):
        raise UnsupportedModel("heads with rope_scaling are not supported; use a default-RoPE head")
    hidden, heads = raw["hidden_size"], raw["num_attention_heads"]
    if raw.get("target_hidden_size", hidden) != hidden:
        raise UnsupportedModel(
            f"heads with their own embeddings (hidden size {hidden}, the target has "
            f"{raw['target_hidden_size']}) are not supported; use a head of the target's size"
        )
    own_layers = raw.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids")
    return EagleConfig(
        hidden_size=hidden,
        intermediate_size=raw["intermediate_size"],
        num_heads=heads,
        num_kv_heads=raw.get("num_key_value_heads") or heads,
        head_dim=raw.get("head_dim") or hidden // heads,
        rms_norm_eps=raw["rms_norm_eps"],
        rope_theta=float(raw.get("rope_theta") or 10_000.0),
        max_positions=raw.get("max_position_embeddings", 2048),
        target_hidden_size=hidden,
        target_vocab_size=raw["vocab_size"],
        draft_vocab_size=raw["draft_vocab_size"],
        feature_layers=tuple(own_layers or default_feature_layers(target.num_layers)),
        target_sha256="",
    )


def _refuse_misfit(folder: Path, config: EagleConfig, target: TargetInfo) -> None:
    """Raises :class:`UnsupportedModel` with the reason if the head is another target's."""
    reason = ""
    if config.target_hidden_size != target.hidden_size:
        reason = f"hidden size {config.target_hidden_size}, the target has {target.hidden_size}"
    elif config.target_vocab_size != target.vocab_size:
        reason = f"vocabulary {config.target_vocab_size}, the target has {target.vocab_size}"
    elif config.feature_layers[0] < 0 or config.feature_layers[-1] >= target.num_layers:
        reason = f"feature layers {config.feature_layers}, the target has {target.num_layers}"
    elif config.target_sha256 and target.sha256 and config.target_sha256 != target.sha256:
        reason = (
            f"weights {config.target_sha256[:12]}..., the target is {target.sha256[:12]}...: "
            "train the head again for these weights"
        )
    if reason:
        raise UnsupportedModel(f"the head in {folder} is for another target: {reason}")


def _array_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob(f"*.{_ARRAYS}"))
    if not files:
        raise MissingModel(f"there is no head in {folder} (no safetensors file)")
    return files


def _read_arrays(folder: Path) -> dict[str, Tensor]:
    arrays: dict[str, Tensor] = {}
    for file in _array_files(folder):
        try:
            arrays.update(load_file(file))
        except (SafetensorError, OSError) as error:
            raise CorruptModel(f"{file} is not a readable safetensors file: {error}") from error
    return arrays


def _fill(head: EagleHead | ConfuHead, arrays: dict[str, Tensor], folder: Path) -> None:
    """Copies arrays into the head; names, shapes and the draft vocabulary must be right."""
    arrays.pop("embed_tokens.weight", None)  # some public heads repeat the target's embeddings
    wanted = head.state_dict()
    if missing := sorted(wanted.keys() - arrays.keys()):
        raise CorruptModel(f"the head in {folder} lacks {', '.join(missing[:3])}")
    if extra := sorted(arrays.keys() - wanted.keys()):
        raise CorruptModel(f"the head in {folder} has unknown parts: {', '.join(extra[:3])}")
    for name, want in wanted.items():
        got = arrays[name]
        if got.shape != want.shape:
            raise CorruptModel(
                f"{name} in {folder} has shape {list(got.shape)}, its config says "
                f"{list(want.shape)}"
            )
        if want.is_floating_point() and not bool(torch.isfinite(got).all()):
            raise CorruptModel(f"{name} in {folder} holds values that are not finite")
    head.load_state_dict(arrays)
    eagle = head.eagle if isinstance(head, ConfuHead) else head
    ids = eagle.draft_to_target(torch.arange(eagle.config.draft_vocab_size))
    inside = bool(((ids >= 0) & (ids < eagle.config.target_vocab_size)).all())
    rises = bool((ids[1:] > ids[:-1]).all())
    if not (inside and rises and torch.equal(ids, eagle.t2d.nonzero().flatten())):
        raise CorruptModel(f"d2t and t2d in {folder} do not describe one sorted draft vocabulary")


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """JSON lists back to tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
