"""The parts of a suite as decoders want them: models and heads with the records that name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confu_demo.decoding.base import BoundModel
from confu_demo.decoding.registry import Part
from confu_demo.engine.loading import load_tokenizer, num_parameters, sha256_of_folder
from confu_demo.engine.target import LeanModel
from confu_demo.engine.text import Detokenizer
from confu_demo.heads.checkpoint import TargetInfo, load_head, sha256_of_head
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from confu_demo.suite_weights.places import verified_sha256
from confu_demo.suites import Suite
from confu_demo.trace import ModelInfo


def bind(model: LeanModel, suite: Suite, part: Part) -> BoundModel:
    """A loaded model with its tokenizer, end tokens and record."""
    folder = suite.folder_of(part)
    tokenizer = load_tokenizer(folder)
    return BoundModel(
        model=model,
        tokenizer=tokenizer,
        detokenizer=Detokenizer(tokenizer),
        eos_ids=eos_ids(folder, tokenizer),
        info=ModelInfo(
            role="target" if part == "target" else "draft_model",
            name=f"{suite.name}/{part}",
            sha256=sha256_of_model(suite, part),
            num_parameters=num_parameters(model),
        ),
    )


def sha256_of_model(suite: Suite, part: Part) -> str:
    """What a head must have been trained on. A fetched model is known by its hash beforehand.

    Raises CorruptModel if a fetched one has another hash.
    """
    folder = suite.folder_of(part)
    if part == "target" and suite.fetched is not None:
        return verified_sha256(folder, suite.fetched)
    return sha256_of_folder(folder)


def load_bound_head(
    suite: Suite, part: Part, target: TargetInfo
) -> tuple[EagleHead | ConfuHead, ModelInfo]:
    """A head with its record. Raises what :func:`load_head` raises."""
    folder = suite.folder_of(part)
    head = load_head(folder, target)
    info = ModelInfo(
        role="head",
        name=f"{suite.name}/{part}",
        sha256=sha256_of_head(folder),
        num_parameters=sum(parameter.numel() for parameter in head.parameters()),
    )
    return head, info


def eos_ids(folder: Path, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a text: of the tokenizer, config.json and generation_config.json."""
    found = {tokenizer.eos_token_id}
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        if path.is_file():
            ids = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
            found.update(ids if isinstance(ids, list) else [ids])
    return frozenset(token for token in found if isinstance(token, int))
