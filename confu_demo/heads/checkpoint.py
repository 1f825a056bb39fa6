"""Heads on disk: ``config.json`` and safetensors shards below 10 MB, checked when loaded.

Owns our own layout: the public SafeAILab parameter names, and a config with the sizes, layers and
hash of the target. Heads of other projects load as well (:mod:`.public_layouts`); what fits a
target is :mod:`.target_info`'s, the arrays are :mod:`.arrays`'. Knows nothing of decoding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from confu_demo.engine.errors import CorruptModel, MissingModel, UnsupportedModel
from confu_demo.engine.model_config import RopeScaling
from confu_demo.heads.arrays import array_files, fill, read_arrays, shards
from confu_demo.heads.confu import ConfuHead, ConfuHeadConfig
from confu_demo.heads.eagle import EagleConfig, EagleHead
from confu_demo.heads.public_layouts import public_arrays, public_config
from confu_demo.heads.target_info import TargetInfo, refuse_misfit

__all__ = ["TargetInfo", "is_own", "load_card", "load_head", "save_head", "sha256_of_head"]

SHARD_BYTES = 9_500_000
"""Our limit: every shipped file stays below 10 MB."""


def save_head(
    path: str | Path,
    head: EagleHead | ConfuHead,
    card: Mapping[str, Any] | None = None,
    *,
    dtype: torch.dtype | None = None,
    allow_larger: bool = False,
) -> None:
    """Writes ``head`` into the folder ``path``; replaces the head that was there.

    ``card`` (JSON values: provenance, losses, held-out figures) is kept in ``config.json``.
    ``dtype`` rounds the weights (bfloat16 halves the files); None keeps them as they are.
    An array that no shard can hold raises ValueError, unless ``allow_larger``.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model*.safetensors"):
        old.unlink()
    state = head.state_dict()
    arrays = {
        n: t.detach().cpu().to(dtype if t.is_floating_point() else None) for n, t in state.items()
    }
    files = shards(arrays, SHARD_BYTES, allow_larger=allow_larger)
    for index, shard in enumerate(files, start=1):
        suffix = f"-{index:05d}-of-{len(files):05d}" if len(files) > 1 else ""
        save_file(shard, folder / f"model{suffix}.safetensors", metadata={"format": "pt"})
    config = asdict(head.config)
    config["method"] = "confu" if isinstance(head, ConfuHead) else "eagle3"
    config["card"] = dict(card or {})
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")


def load_head(path: str | Path, target: TargetInfo | None) -> EagleHead | ConfuHead:
    """The head in the folder ``path`` as a float32 module in eval mode.

    ``target`` is what it must fit; None leaves that unchecked. Raises :class:`MissingModel`,
    :class:`CorruptModel` (unreadable, or not what its config says) or :class:`UnsupportedModel`
    (a good head that belongs to another target, or one that we cannot compute).
    """
    folder = Path(path)
    raw = _read_config(folder)
    try:
        config = _config(raw, target)
        eagle = config.eagle if isinstance(config, ConfuHeadConfig) else config
        if target is not None:
            refuse_misfit(folder, eagle, target)
        head = ConfuHead(config) if isinstance(config, ConfuHeadConfig) else EagleHead(config)
    except UnsupportedModel as error:
        place = "" if str(folder) in str(error) else f"the head in {folder} cannot be used: "
        raise UnsupportedModel(f"{place}{error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptModel(f"{folder / 'config.json'} does not describe a head: {error}") from error
    arrays = read_arrays(folder)
    fill(head, arrays if is_own(folder) else public_arrays(arrays, eagle), folder)
    return head.eval().requires_grad_(False)


def is_own(path: str | Path) -> bool:
    """Whether the head in ``path`` is in our layout, not in another project's."""
    return "method" in _read_config(Path(path))


def load_card(path: str | Path) -> dict[str, Any]:
    """The card that ``save_head`` was given ({} for public heads)."""
    card = _read_config(Path(path)).get("card", {})
    return dict(card) if isinstance(card, dict) else {}


def sha256_of_head(path: str | Path) -> str:
    """Hex sha256 over the weight files of a head, in the order of their names."""
    digest = hashlib.sha256()
    for file in array_files(Path(path)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


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


def _config(raw: dict[str, Any], target: TargetInfo | None) -> EagleConfig | ConfuHeadConfig:
    """Our own config, where ``method`` says so, or that of another project."""
    method = raw.get("method")
    if method == "confu":
        eagle = _eagle_config(raw["eagle"])
        own = ("num_soft_prompts", "num_experts", "experts_per_token")
        return ConfuHeadConfig(
            eagle=eagle,
            foresight_depths=raw.get("foresight_depths", 0),  # heads before that had none
            future_worth=_future_worth(raw),
            **{name: raw[name] for name in own},
        )
    if method == "eagle3":
        return _eagle_config({k: v for k, v in raw.items() if k not in ("method", "card")})
    if method is not None:
        raise UnsupportedModel(f"method {method!r} is unknown; use an eagle3 or a confu head")
    return public_config(raw, target)


def _future_worth(raw: Mapping[str, Any]) -> float | None:
    """From the held-out scores on the card, where there are such; 0 where f was of no use."""
    try:
        scores = raw["card"]["heldout"]
        with_f, without = (scores[f"confu, f {mode}"]["walked_length"] for mode in ("on", "hidden"))
        return max(0.0, float(with_f) / float(without) - 1.0)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        worth = raw.get("future_worth")
        return None if worth is None else float(worth)


def _eagle_config(values: Mapping[str, Any]) -> EagleConfig:
    """From JSON: lists back to tuples, the scaling back to its class."""
    fields: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in values.items()
    }
    if fields.get("rope_scaling"):
        fields["rope_scaling"] = RopeScaling(**fields["rope_scaling"])
    return EagleConfig(**fields)
