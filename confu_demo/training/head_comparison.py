"""Finished heads on the same held-out answers: ``python -m confu_demo train compare``.

The weights are read from their folders, rounded as they were published, so the table is about
what a reader gets. A ConFu head also gives its controls: f zeroed, f of other positions, no future
token. Trains nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from confu_demo.comparison import Comparison, Walks, compare, comparison_table
from confu_demo.heads.checkpoint import TargetInfo, load_head
from confu_demo.heads.eagle import EagleHead
from confu_demo.training.confu import ConfuObjective, ConfuSettings
from confu_demo.training.eagle3 import EagleObjective
from confu_demo.training.head_batches import group_by_length
from confu_demo.training.head_job import HeadJob, Material, load_material
from confu_demo.training.own_outputs import OwnOutput

HELD_OUT_ONLY = 64
"""Of the training answers one shard is enough: nobody learns from them here."""


@dataclass(frozen=True, slots=True)
class HeadScores:
    """What was found of one head or control, and its (tokens, cycles) prompt by prompt."""

    figures: dict[str, Any]
    walks: Walks


def parse_heads(text: str) -> dict[str, Path]:
    """``NAME=FOLDER, NAME=FOLDER``; ValueError for anything else."""
    heads: dict[str, Path] = {}
    for part in text.split(","):
        name, equals, folder = part.strip().partition("=")
        if not equals or not name.strip() or not folder.strip():
            raise ValueError(f"heads are NAME=FOLDER, separated by commas, not {part.strip()!r}")
        if name.strip() in heads:
            raise ValueError(f"the name {name.strip()!r} stands twice among the heads")
        heads[name.strip()] = Path(folder.strip())
    return heads


def score_head(
    name: str,
    folder: Path,
    material: Material,
    settings: ConfuSettings,
    groups: list[list[OwnOutput]],
) -> dict[str, HeadScores]:
    """The scores of a head and, of a ConFu head, of its controls. Raises the loaders' errors."""
    head = load_head(folder, TargetInfo.of(material.target.config, material.target_sha256)).eval()
    if isinstance(head, EagleHead):
        found = {
            name: EagleObjective(material.target, head, [], settings.training).score_of(groups)
        }
    else:
        scores = ConfuObjective(material.target, head, [], settings).scores_of(groups)
        found = {
            name if mode == "on" else f"{name}, f {mode}": score
            for key, score in scores.items()
            for mode in (key.removeprefix("confu, f "),)
        }
    return {
        key: HeadScores({k: v for k, v in score.items() if k != "documents"}, score["documents"])
        for key, score in found.items()
    }


def compare_heads(
    job: HeadJob,
    heads: Mapping[str, Path],
    settings: ConfuSettings,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Scores the heads, prints the table against the first of them, and returns it as JSON.

    Raises the loaders' errors for a folder that holds no head of this target."""
    if job.chat is not None:
        job = replace(job, chat=replace(job.chat, num_documents=HELD_OUT_ONLY))
    material = load_material(job, settings.training, say)
    groups = group_by_length(material.heldout, settings.training.batch_tokens)
    scores: dict[str, HeadScores] = {}
    for name, folder in heads.items():
        say(f"scoring {name} ({folder})")
        scores |= score_head(name, folder, material, settings, groups)
    baseline = next(iter(scores))
    categories = categories_of(material, groups)
    rows = compare({name: found.walks for name, found in scores.items()}, baseline, categories)
    say(comparison_table(rows, baseline))
    return {
        "what": f"chains of {settings.training.unroll_steps} tokens on {len(categories)} greedy "
        "held-out answers; intervals of 95 %, bootstrap over prompts, paired",
        "baseline": baseline,
        "rows": [_as_json(row, scores[row.name]) for row in rows],
    }


def categories_of(material: Material, groups: list[list[OwnOutput]]) -> list[str]:
    """Held-out answers are scored in the order of their batches, sorted by length."""
    place = {id(output): index for index, output in enumerate(material.heldout)}
    known = material.heldout_categories or ["problems"] * len(material.heldout)
    return [known[place[id(output)]] for group in groups for output in group]


def _as_json(row: Comparison, scores: HeadScores) -> dict[str, Any]:
    return asdict(row) | {"scores": scores.figures}


def write_comparison(result: dict[str, Any], provenance: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result | {"provenance": provenance}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
