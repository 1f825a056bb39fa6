"""Model cards of what we train: only figures that were measured, with how they were made."""

from __future__ import annotations

import shlex
from typing import Any

from confu_demo.provenance import collect
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.model_files import learning_curve

_ROLES = {
    "target": "the target model: its output defines what is correct in the race",
    "draft": "the draft model of ConfSpec: writes steps ahead and judges them",
}


def provenance_lines(command: str, device: str) -> str:
    """Markdown: commit, versions, device, date."""
    import torch

    made = collect(device, "float32", torch.get_num_threads(), shlex.split(command))
    versions = ", ".join(f"{name} {version}" for name, version in made.versions)
    return (
        f"* command: `{made.command}`\n* commit: {made.commit}\n* device: {made.device}, "
        f"{made.threads} threads, {made.dtype}\n* versions: {versions}\n* date: {made.created}"
    )


def _second_round(second: dict[str, Any] | None) -> str:
    if second is None:
        return ""
    score, sure = second["on_policy"], second["on_policy"]["confident_accuracy"]
    return (
        f"A second round ({second['tokens'] / 1e6:.1f} M tokens) trained the verdicts on "
        f"{second['pairs']} on-policy pairs. On {score['pairs']} on-policy pairs of the "
        f"calibration split: {score['accuracy']:.1%} right; with confidence 0.9 or more: "
        f"{score['coverage']:.1%} of the pairs, of these {'-' if sure is None else f'{sure:.1%}'} "
        f"right.\n"
    )


def language_model_card(
    name: str,
    model: LanguageModel,
    settings: dict[str, Any],
    figures: dict[str, dict[str, Any]],
    history: list[dict[str, Any]],
    second: dict[str, Any] | None = None,
    note: str = "",
    device: str = "cpu",
) -> str:
    config = model.config
    parameters = sum(parameter.numel() for parameter in model.parameters())
    heldout, hard, judge = figures["heldout"], figures["hard"], figures["judge"]
    sure = judge["confident_accuracy"]
    settings_text = ", ".join(f"{key} {value}" for key, value in settings.items())
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---
# confu_demo bundled/{name}

This is {_ROLES[name]}. Qwen3 architecture, {config.num_layers} layers x {config.hidden_size},
{parameters / 1e6:.2f} M parameters, vocabulary of {config.vocab_size} (byte-level BPE, single
digits). Trained from scratch on machine-made word problems of `confu_demo/data`; it can solve
such problems and nothing else.

## Held-out figures (greedy)

| set | problems | answers right | steps right |
|---|---:|---:|---:|
| held-out (4-8 steps) | {heldout["problems"]} | {heldout["answers"]:.1%} | {heldout["steps"]:.1%} |
| hard (9-12 steps) | {hard["problems"]} | {hard["answers"]:.1%} | {hard["steps"]:.1%} |

Judging {judge["pairs"]} machine-made pairs of steps: {judge["accuracy"]:.1%} right; with
confidence 0.9 or more: {judge["coverage"]:.1%} of the pairs, of these
{"-" if sure is None else f"{sure:.1%}"} right.

{_second_round(second)}
## Learning curve (calibration split, on the way)

{learning_curve(history)}

## How it was made

{provenance_lines(f"python -m confu_demo train {name}", device)}
* settings: {settings_text}
{f"* {note}" if note else ""}
"""
