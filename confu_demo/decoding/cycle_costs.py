"""What a draft-verify cycle costs on this machine: measured once, kept for the next start.

Takes a few seconds the first time, nothing afterwards. A verify forward is timed right after a
draft and a draft right after a verify forward, because that is how a cycle finds the processor's
caches. What is kept is known by device, threads, dtype, weights, versions and our own code. Our
choice [O].
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from confu_demo.config import SamplingConfig
from confu_demo.decoding.base import BoundModel
from confu_demo.decoding.draft_cost import DraftCost, draft_jobs
from confu_demo.decoding.draft_tree import chain
from confu_demo.decoding.drafting import FutureInput
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.decoding.tree_plan import CycleCosts
from confu_demo.decoding.verification import verify
from confu_demo.engine.cache import KVCache
from confu_demo.engine.device import hardware_name, synchronise
from confu_demo.engine.forward_cost import ROWS, CostCurve, forward_jobs
from confu_demo.engine.sampling import PositionNoise
from confu_demo.engine.target import ForwardOutput
from confu_demo.engine.timing import usual_ms
from confu_demo.engine.user_cache import recall, remember
from confu_demo.trace import ModelInfo

MAX_SECONDS = 4.0
_VERIFY, _DRAFT = "verify-cost", "draft-cost"


def cycle_costs(
    target: BoundModel,
    head: PackedHead,
    info: ModelInfo,
    future_bias: float | None = None,
    future: Callable[[], FutureInput] | None = None,
) -> CycleCosts:
    """The costs of this head's cycles, from the user's cache or measured now. Heads of one
    target that read the same layers share its part. ``future`` makes what a draft of ConFu
    hears, and is timed with it."""
    verify_key, draft_key = _keys(target, head, info)
    verify_curve = _curve(recall(_VERIFY, verify_key))
    draft = _draft_cost(recall(_DRAFT, draft_key))
    if verify_curve is None or draft is None:
        found_curve, found_draft = measure(target, head, future_bias, verify_curve is None, future)
        if verify_curve is None:
            remember(_VERIFY, verify_key, found_curve.points)
        if draft is None:
            points = found_draft.level.points
            remember(_DRAFT, draft_key, {"start_ms": found_draft.start_ms, "level": points})
        verify_curve, draft = verify_curve or found_curve, draft or found_draft
    return CycleCosts(verify=verify_curve, draft_ms=draft.start_ms, level=draft.level)


@torch.inference_mode()
def measure(
    target: BoundModel,
    head: PackedHead,
    future_bias: float | None,
    all_rows: bool = True,
    future: Callable[[], FutureInput] | None = None,
) -> tuple[CostCurve, DraftCost]:
    """Times the parts of a cycle; without ``all_rows`` only enough of the verify forward to
    stand between the drafts."""
    rows = [row for row in ROWS if row <= target.model.config.max_positions // 2] or [1]
    rows = rows if all_rows else rows[:4]
    work = forward_jobs(target.model, head.config.feature_layers, rows, _verification(target))
    drafts = draft_jobs(head, future_bias, future)
    jobs, places = _alternate(work, drafts)
    times = usual_ms(jobs, synchronise(target.model.device), max_seconds=MAX_SECONDS, least=4)
    found: tuple[list[float], list[float]] = ([], [])
    for (kind, place), ms in zip(places, times, strict=False):
        if place == len(found[kind]):
            found[kind].append(ms)
    return CostCurve.monotone(rows[: len(found[0])], found[0]), DraftCost.of(found[1])


def _alternate(
    work: Sequence[Callable[[], object]], drafts: Sequence[Callable[[], object]]
) -> tuple[list[Callable[[], object]], list[tuple[int, int]]]:
    """Verify, draft, verify, draft, ... until each was there once; the shorter list begins
    again. With every job, its (kind, place): 0 verifies, 1 drafts."""
    jobs: list[Callable[[], object]] = []
    places: list[tuple[int, int]] = []
    for turn in range(max(len(work), len(drafts))):
        for kind, parts in enumerate((work, drafts)):
            place = turn % len(parts)
            jobs.append(parts[place])
            places.append((kind, place))
    return jobs, places


def _verification(target: BoundModel) -> Callable[[KVCache, ForwardOutput], object]:
    """What a greedy decoder does with the output: the verdict, and the accepted rows' keys."""
    sampling = SamplingConfig()
    noise = PositionNoise(0, target.model.config.vocab_size)

    def run(cache: KVCache, out: ForwardOutput) -> object:
        num_rows = out.logits.shape[0]
        tree = chain([0] * num_rows, target.model.device)
        answer = verify(tree, out.logits, sampling, noise, 0)
        cache.keep(cache.length - num_rows, tree.depths[: (num_rows + 1) // 2])
        return answer

    return run


@cache
def code_digest() -> str:
    """Of the sources of what is timed: another version of the package has other costs."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for folder in ("engine", "decoding"):
        for file in sorted((package / folder).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _keys(
    target: BoundModel, head: PackedHead, info: ModelInfo
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    model = target.model
    common = {
        "code": code_digest(),
        "device": hardware_name(model.device),
        "threads": str(model.threads or torch.get_num_threads()),
        "dtype": str(model.dtype),
        "target": f"{target.info.sha256} {model.config}",
        "torch": str(torch.__version__),
    }
    own = f"{info.name} {info.sha256} {info.num_parameters}"
    return common | {"layers": str(head.config.feature_layers)}, common | {"head": own}


def _curve(points: Any) -> CostCurve | None:
    """None for anything that is not exactly a curve's points."""
    try:
        return CostCurve(tuple((int(rows), float(ms)) for rows, ms in points))
    except (TypeError, ValueError, OverflowError):
        return None


def _draft_cost(value: Any) -> DraftCost | None:
    if not isinstance(value, dict):
        return None
    level, start_ms = _curve(value.get("level")), value.get("start_ms")
    if level is None or not isinstance(start_ms, float) or start_ms < 0.0:
        return None
    return DraftCost(start_ms, level)
