"""How long drafts are accepted, by kind of prompt, with intervals over prompts.

Every method that drafts tokens is compared with EAGLE-3 on the same prompts (paired bootstrap,
:mod:`confu_demo.comparison`); without EAGLE-3, with the first of them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from confu_demo.bench.measure import ProblemResult
from confu_demo.comparison import Walks, compare, comparison_table

BASELINE_DRAFTER = "eagle3"


def acceptance_report(
    methods: Sequence[str], results: Sequence[ProblemResult]
) -> dict[str, Any] | None:
    """``{"baseline", "rows", "table"}``, or None where no method drafts tokens. Prompts on which
    any of the methods failed or had no cycle are left out for all."""
    by_method = {
        method: {result.problem: result for result in results if result.method == method}
        for method in methods
    }
    drafting = [m for m, found in by_method.items() if any(map(_has_cycles, found.values()))]
    if not drafting:
        return None
    prompts = [
        index
        for index in sorted(by_method[drafting[0]])
        if all(_has_cycles(by_method[method].get(index)) for method in drafting)
    ]
    if not prompts:
        return None
    walks: dict[str, Walks] = {
        method: [_walk(by_method[method][index]) for index in prompts] for method in drafting
    }
    baseline = BASELINE_DRAFTER if BASELINE_DRAFTER in drafting else drafting[0]
    categories = [by_method[baseline][index].category for index in prompts]
    rows = compare(walks, baseline, categories)
    return {
        "baseline": baseline,
        "prompts": len(prompts),
        "rows": [asdict(row) for row in rows],
        "table": comparison_table(rows, baseline),
    }


def _has_cycles(result: ProblemResult | None) -> bool:
    if result is None or result.run.failure:
        return False
    metrics = result.run.metrics
    return metrics.acceptance_length is not None and metrics.num_cycles > 0


def _walk(result: ProblemResult) -> tuple[int, int]:
    """(tokens, cycles), as the acceptance length counts them."""
    metrics = result.run.metrics
    return round((metrics.acceptance_length or 0.0) * metrics.num_cycles), metrics.num_cycles
