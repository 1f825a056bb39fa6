"""The dense copy of a GGUF model: an ordinary Hugging Face folder in bfloat16.

The weights file is written here and not by a library, so that its bytes depend on nothing but the
weights: the header's entries stand in the order of the names, with the metadata that transformers
writes. Its hash is known beforehand and names the target in every head.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import torch

from confu_demo.suite_weights.errors import FetchError
from confu_demo.suite_weights.gguf_model import GgufModel
from confu_demo.suite_weights.gguf_tokenizer import make_tokenizer
from confu_demo.suite_weights.places import mark_verified
from confu_demo.suite_weights.sources import WeightSource


def write_dense_copy(gguf: Path, folder: Path, source: WeightSource) -> Iterator[int]:
    """Makes ``folder``; yields the bytes of weights that are written so far.

    Raises FetchError if the result is not, byte for byte, what the heads were trained on.
    """
    folder.mkdir(parents=True)
    model = GgufModel(gguf)
    yield 0
    config = model.config(source.eos_token_ids)
    _write_json(folder / "config.json", config)
    ends = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(folder / "generation_config.json", ends)
    make_tokenizer(model).save_pretrained(folder)
    sha256 = yield from write_weights(folder / source.dense.name, model)
    if sha256 != source.dense.sha256:
        raise FetchError(
            f"{source.model} was converted to other weights than the shipped heads were trained on "
            f"(sha256 {sha256[:12]}, expected {source.dense.sha256[:12]}): the installed packages "
            "gguf, numpy or torch convert differently; use versions that requirements.txt allows"
        )
    mark_verified(folder, source.dense)


def write_weights(file: Path, model: GgufModel) -> Generator[int, None, str]:
    """A safetensors file with every tensor; yields the bytes written, returns the hex sha256."""
    header = safetensors_header(dict(model.shapes))
    digest, done = hashlib.sha256(header), len(header)
    with file.open("wb") as stream:
        stream.write(header)
        for name in model.shapes:
            data = model.tensor(name).contiguous().flatten().view(torch.uint8).numpy().tobytes()
            digest.update(data)
            stream.write(data)
            done += len(data)
            yield done
    return digest.hexdigest()


def safetensors_header(shapes: dict[str, tuple[int, ...]]) -> bytes:
    """Length and JSON for bfloat16 tensors one after the other, padded to 8 bytes."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, shape in shapes.items():
        end = begin + 2 * math.prod(shape)
        entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _write_json(file: Path, value: dict[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
