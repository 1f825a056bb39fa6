"""Ordinary Hugging Face folders -> models and tokenizers. Nothing is ever downloaded.

A folder holds ``config.json`` and weights as ``model.safetensors`` or as shards with
``model.safetensors.index.json``. Whatever is wrong becomes one of three errors with one sentence
that says what to do.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from confu_demo.engine.device import cpu_threads, default_dtype, pick_device, synchronise
from confu_demo.engine.errors import CorruptModel, MissingModel, UnsupportedModel
from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.probe import ProbeResult, probe_settings
from confu_demo.engine.target import LeanModel
from confu_demo.engine.weights import num_parameters_of

__all__ = [
    "CorruptModel",
    "MissingModel",
    "UnsupportedModel",
    "load_model",
    "load_tokenizer",
    "num_parameters",
    "pick_device",
    "probe_settings",
    "sha256_of_folder",
    "synchronise",
]

_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def load_model(
    path: str | Path,
    *,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    threads: int | None = None,
) -> LeanModel:
    """Loads a folder. On the CPU ``auto`` dtype and ``None`` threads are chosen by a probe, which
    the model carries as ``probe``.

    Raises MissingModel, CorruptModel or UnsupportedModel; ValueError for a wrong argument.
    """
    folder = Path(path)
    config = read_config(folder)
    target = pick_device(str(device))
    choice = _settings(config, target, dtype, threads)
    with cpu_threads(choice.threads):
        model = LeanModel(config, read_weights(folder), target, choice.dtype)
    if target.type == "cpu":
        model.threads, model.single_threads = choice.threads, choice.single_threads
    model.probe = choice
    return model


def load_tokenizer(path: str | Path) -> Any:
    """The folder's fast tokenizer. Raises MissingModel, CorruptModel or UnsupportedModel."""
    from transformers import AutoTokenizer

    folder = Path(path)
    _require_folder(folder)
    if not (folder / "tokenizer.json").is_file():
        raise MissingModel(f"{folder} has no tokenizer.json; fetch the model again, all files")
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # the tokenizer libraries raise bare Exceptions
        raise CorruptModel(
            f"the tokenizer in {folder} cannot be read ({_one_line(error)}); fetch it again"
        ) from error
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise UnsupportedModel(f"{folder} has no fast tokenizer; use a model with tokenizer.json")
    return tokenizer


def sha256_of_folder(path: str | Path) -> str:
    """Hex digest of the folder's safetensors files, in the order of their names; of a single
    file, what ``sha256sum`` prints."""
    folder = Path(path)
    _require_folder(folder)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise MissingModel(f"{folder} has no safetensors files; fetch the model again")
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def num_parameters(model: LeanModel) -> int:
    """Parameters of the model; tied embeddings count once."""
    return num_parameters_of(model.config)


def read_config(folder: Path) -> ModelConfig:
    """``config.json``, by way of transformers' own config of the family."""
    _require_folder(folder)
    settings = _read_json(folder / "config.json")
    try:
        return ModelConfig.from_hf(settings)
    except UnsupportedModel as error:
        raise UnsupportedModel(f"{folder}: {error}") from error


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder on the CPU, as stored."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        names = ["model.safetensors"]
    elif index.is_file():
        weight_map = _read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise CorruptModel(f"{index} lists no weights; fetch it again")
        names = sorted({str(name) for name in weight_map.values()})
    else:
        raise MissingModel(
            f"{folder} has neither model.safetensors nor {index.name}; fetch the model again "
            "(other weight formats are not read)"
        )
    weights: dict[str, Tensor] = {}
    for name in names:
        weights.update(_read_shard(folder / name))
    return weights


def _read_shard(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise MissingModel(f"{file} is missing; fetch the model again, all shards")
    try:
        with safe_open(str(file), framework="pt", device="cpu") as shard:
            return {name: shard.get_tensor(name) for name in shard.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CorruptModel(
            f"{file} is damaged or cut short ({_one_line(error)}); fetch it again"
        ) from error


def _settings(
    config: ModelConfig, device: torch.device, dtype: str | torch.dtype, threads: int | None
) -> ProbeResult:
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be 1 or more, not {threads}")
    if isinstance(dtype, str) and dtype != "auto" and dtype not in _DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}; use auto, {', '.join(_DTYPES)}")
    fixed = _DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if device.type != "cpu":
        current = torch.get_num_threads()
        return ProbeResult(fixed or default_dtype(device), current, (), current)
    dtypes = (torch.float32, torch.bfloat16) if fixed is None else (fixed,)
    return probe_settings(config, dtypes, None if threads is None else (threads,))


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise MissingModel(f"there is no model folder {folder}; check the path or fetch the model")


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise MissingModel(f"{file} is missing; fetch the model again")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CorruptModel(f"{file} is not JSON ({_one_line(error)}); fetch it again") from error
    if not isinstance(content, dict):
        raise CorruptModel(f"{file} does not hold a JSON object; fetch it again")
    return content


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
