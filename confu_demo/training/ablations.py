"""ConFu taken apart: every variant trained from the same EAGLE-3 head, data and extra tokens.

Owns the list of variants, one training each, and the table that compares them on the same
held-out answers: ``python -m confu_demo train ablations``. The controls that need no training of
their own (f zeroed, f shuffled, f hidden) are scores of the full ConFu head.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from confu_demo.comparison import Walks, compare, comparison_table
from confu_demo.engine.errors import UnsupportedModel
from confu_demo.heads.checkpoint import TargetInfo, load_head
from confu_demo.heads.eagle import EagleHead
from confu_demo.training.confu import ConfuSettings, initial_confu, run_confu
from confu_demo.training.eagle3 import run_eagle3
from confu_demo.training.head_batches import group_by_length
from confu_demo.training.head_comparison import categories_of
from confu_demo.training.head_job import HeadJob, Material, load_material

CONTROL = "EAGLE-3 continued"
FULL = "ConFu"
VARIANTS: dict[str, Callable[[ConfuSettings], ConfuSettings]] = {
    FULL: lambda settings: settings,
    "the paper's loss and column": lambda settings: _as_in_the_paper(settings),
    "with foresight": lambda settings: _foreseeing(settings),
    "foresight without logits": lambda settings: replace(settings, foresight_depths=0),
    "without soft prompts": lambda settings: replace(settings, num_soft_prompts=0),
    "4 soft prompts": lambda settings: replace(settings, num_soft_prompts=4),
    "64 soft prompts": lambda settings: replace(settings, num_soft_prompts=64),
    "without replication": lambda settings: replace(
        settings, anchors=replace(settings.anchors, max_reach=0)
    ),
    "without mixtures": lambda settings: replace(settings, num_experts=1, experts_per_token=1),
    "2 contemplate tokens": lambda settings: _contemplating(settings, 2),
    "4 contemplate tokens": lambda settings: _contemplating(settings, 4),
    "f from the last layer": lambda settings: replace(settings, future_source="last"),
}
NAMES = (CONTROL, *VARIANTS)


def _as_in_the_paper(settings: ConfuSettings) -> ConfuSettings:
    return replace(settings, foresight_depths=0, foresight_weight=0.0, foresight_share=0.0)


def _foreseeing(settings: ConfuSettings) -> ConfuSettings:
    """Our recipe for free text; on free text it is the full one."""
    return replace(
        settings, contemplate_rate=0.01, foresight_depths=4, foresight_rate=0.03,
        foresight_weight=0.3, foresight_share=0.5,
    )  # fmt: skip


def _contemplating(settings: ConfuSettings, num: int) -> ConfuSettings:
    """The draft's logits hear one [con] alone, so these variants compare with the one without."""
    return replace(settings, num_contemplate_tokens=num, foresight_depths=0)


def run_variant(
    job: HeadJob,
    material: Material,
    eagle_folder: Path,
    name: str,
    settings: ConfuSettings,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Trains one variant (or goes on) and keeps its held-out scores under ``job.work``."""
    slug = name.lower().replace(" ", "-")
    own = replace(job, work=job.work / slug)
    done = own.work / "report.json"
    if done.is_file():
        report: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        return report
    say(f"{name}:")
    info = TargetInfo.of(material.target.config, material.target_sha256)
    eagle = load_head(eagle_folder, info)
    if not isinstance(eagle, EagleHead):
        raise UnsupportedModel(f"{eagle_folder} holds no EAGLE-3 head to start from")
    eagle.requires_grad_(True)
    torch.manual_seed(settings.training.seed)
    if name == CONTROL:
        report = run_eagle3(own, material, eagle.to(job.device), settings.training, say)
        torch.save(eagle.state_dict(), own.work / "head.pt")
    else:
        variant = VARIANTS[name](settings)
        generator = torch.Generator().manual_seed(settings.training.seed)
        head = initial_confu(material.target, eagle, variant, generator).to(job.device)
        report = run_confu(own, material, head, variant, say)
        report["future_bias"] = float(head.future_bias.detach())
        torch.save(head.state_dict(), own.work / "head.pt")
    done.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def walks_of(reports: dict[str, dict[str, Any]]) -> dict[str, Walks]:
    """The (tokens, cycles) of every prompt, by head; the full ConFu gives its controls too."""
    walks: dict[str, Walks] = {}
    for name, report in reports.items():
        for key, score in report["heldout"].items():
            mode = key.removeprefix("confu, f ")
            if key == "eagle3" or mode == "on":
                walks[name] = score["documents"]
            elif name == FULL:
                walks[f"{FULL}, f {mode}"] = score["documents"]
    return walks


def run_ablations(
    job: HeadJob,
    eagle_folder: Path,
    settings: ConfuSettings,
    names: Sequence[str] = NAMES,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Trains what is missing of ``names``, says the table, which is also written to ``table.md``
    under ``job.work``, and returns it as JSON. ValueError for an unknown name."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ValueError(f"unknown variant {unknown[0]!r}: choose from {', '.join(NAMES)}")
    material = load_material(job, settings.training, say)
    reports = {
        name: run_variant(job, material, eagle_folder, name, settings, say) for name in names
    }
    groups = group_by_length(material.heldout, settings.training.batch_tokens)
    categories = categories_of(material, groups)
    walks = walks_of(reports)
    baseline = CONTROL if CONTROL in walks else next(iter(walks))
    rows = compare(walks, baseline, categories)
    table = comparison_table(rows, baseline)
    job.work.mkdir(parents=True, exist_ok=True)
    (job.work / "table.md").write_text(table + "\n", encoding="utf-8")
    say(table)
    return {
        "what": f"chains of {settings.training.unroll_steps} tokens on {len(categories)} greedy "
        f"held-out answers after {settings.training.total_tokens:,} tokens of training each; "
        "intervals of 95 %, bootstrap over prompts, paired",
        "baseline": baseline,
        "rows": [asdict(row) for row in rows],
    }
