"""The weight files of a head: found, read, cut into shards, and copied into a module.

Owns file names and every check of an array: names, shapes, finite values, and a draft vocabulary
in which ``d2t`` (offsets) and ``t2d`` agree. Knows no configs.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from confu_demo.engine.errors import CorruptModel, MissingModel
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead


def array_files(folder: Path) -> list[Path]:
    """The safetensors files in the order of their names, or else PyTorch's own files."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise MissingModel(
            f"there is no head in {folder} (no safetensors file and no pytorch_model.bin)"
        )
    return files


def read_arrays(folder: Path) -> dict[str, Tensor]:
    """Every array of a head. Pickled files are read as plain tensors; no code in them runs."""
    arrays: dict[str, Tensor] = {}
    for file in array_files(folder):
        arrays.update(_read_pickle(file) if file.suffix == ".bin" else _read_safetensors(file))
    return arrays


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    try:
        return dict(load_file(file))
    except (SafetensorError, OSError) as error:
        raise CorruptModel(f"{file} is not a readable safetensors file: {error}") from error


def _read_pickle(file: Path) -> dict[str, Tensor]:
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise CorruptModel(f"{file} is not a readable file of tensors: {reason}") from error
    if not isinstance(found, dict) or not all(isinstance(v, Tensor) for v in found.values()):
        raise CorruptModel(f"{file} does not hold named tensors")
    return found


def shards(
    arrays: Mapping[str, Tensor], limit: int, *, allow_larger: bool = False
) -> list[dict[str, Tensor]]:
    """Greedy packing in name order into files of ``limit`` bytes.

    A single array above the limit raises ValueError, or gets a file of its own where that is
    allowed.
    """
    packed: list[dict[str, Tensor]] = [{}]
    used = 0
    for name, array in arrays.items():
        size = array.numel() * array.element_size()
        if size > limit and not allow_larger:
            raise ValueError(f"{name} alone takes {size} bytes; shards hold {limit}")
        if used + size > limit and packed[-1]:
            packed.append({})
            used = 0
        packed[-1][name] = array.contiguous()
        used += size
    return packed


def fill(head: EagleHead | ConfuHead, arrays: Mapping[str, Tensor], folder: Path) -> None:
    """Copies arrays into the head; names, shapes and the draft vocabulary must be right."""
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
    _check_vocabulary(head.eagle if isinstance(head, ConfuHead) else head, folder)


def _check_vocabulary(eagle: EagleHead, folder: Path) -> None:
    """``d2t`` must be offsets that lead, rising, to exactly the ids that ``t2d`` names."""
    ids = eagle.draft_to_target(torch.arange(eagle.config.draft_vocab_size))
    named = eagle.t2d.nonzero().flatten()
    if torch.equal(ids, named):
        return
    if torch.equal(eagle.d2t, named):
        raise CorruptModel(
            f"d2t in {folder} holds target ids; it must hold offsets (target id minus draft id)"
        )
    raise CorruptModel(f"d2t and t2d in {folder} do not describe one sorted draft vocabulary")
