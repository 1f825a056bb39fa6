"""What a target's and a draft model's forwards cost on this machine: measured once, kept.

As :mod:`confu_demo.decoding.cycle_costs` does for draft trees: a few seconds the first time,
nothing afterwards. The two models take turns, as they do in a round. Our choice [O].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from confu_demo.decoding.base import BoundModel
from confu_demo.decoding.cycle_costs import code_digest
from confu_demo.decoding.step_plan import StepCosts
from confu_demo.engine.device import hardware_name, synchronise
from confu_demo.engine.forward_cost import ROWS, CostCurve, forward_jobs
from confu_demo.engine.timing import usual_ms
from confu_demo.engine.user_cache import recall, remember

MAX_SECONDS = 4.0
_KIND = "step-cost"


def step_costs(target: BoundModel, draft: BoundModel) -> StepCosts:
    """From the user's cache, or measured now."""
    key = _key(target, draft)
    known = _read(recall(_KIND, key))
    if known is not None:
        return known
    found = measure(target, draft)
    remember(_KIND, key, {"target": found.target.points, "draft": found.draft.points})
    return found


@torch.inference_mode()
def measure(target: BoundModel, draft: BoundModel) -> StepCosts:
    """Times forwards of both models, one after the other."""
    longest = min(target.model.config.max_positions, draft.model.config.max_positions)
    rows = [row for row in ROWS if row <= longest // 2] or [1]
    pair = [forward_jobs(each.model, (), rows) for each in (target, draft)]
    jobs: list[Callable[[], object]] = [job for both in zip(*pair, strict=True) for job in both]
    times = usual_ms(jobs, synchronise(target.model.device), max_seconds=MAX_SECONDS, least=2)
    ours, theirs = times[0::2], times[1::2]
    return StepCosts(
        target=CostCurve.monotone(rows[: len(ours)], ours),
        draft=CostCurve.monotone(rows[: len(theirs)], theirs),
    )


def _key(target: BoundModel, draft: BoundModel) -> dict[str, str]:
    model = target.model
    return {
        "code": code_digest(),
        "device": hardware_name(model.device),
        "threads": str(model.threads or torch.get_num_threads()),
        "dtype": str(model.dtype),
        "target": f"{target.info.sha256} {model.config}",
        "draft": f"{draft.info.sha256} {draft.model.config}",
        "torch": str(torch.__version__),
    }


def _read(value: Any) -> StepCosts | None:
    """None for anything that is not exactly two curves."""
    if not isinstance(value, dict):
        return None
    try:
        curves = [
            CostCurve(tuple((int(rows), float(ms)) for rows, ms in value[name]))
            for name in ("target", "draft")
        ]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return StepCosts(*curves)
