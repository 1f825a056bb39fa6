"""Is a lane's time in a race its own? Each method in a race and alone, one right after the other.

What remains is that lanes push each other out of the processor's caches, and the machine's noise;
both are reported as they are.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from confu_demo.bench.measure import race_once
from confu_demo.config import DecodeConfig
from confu_demo.data.prompts import find_prompt
from confu_demo.loaded_suite import LoadedSuite

TOLERANCE = 0.05
ROUNDS = 3
"""Of each problem, so that one interruption does not decide."""


def check_race(
    suite: LoadedSuite,
    methods: Sequence[str],
    split: str,
    indices: Iterable[int],
    config: DecodeConfig,
) -> dict[str, Any]:
    """``{"problems", "tolerance", "ratios": {method: race / alone}, "within": bool}``.

    A ratio is the median, over problems and rounds, of the run's whole time (prefill included)
    in the race divided by its whole time alone.
    """
    ratios: dict[str, list[float]] = {method: [] for method in methods}
    count = 0
    for index in indices:
        count += 1
        request = suite.request(find_prompt(suite.suite.name, split, index).text)
        fitting = suite.fit(config, request, methods, may_shorten=True)
        for _ in range(ROUNDS):
            together = race_once(suite, methods, request, fitting)
            for method in methods:
                alone = race_once(suite, [method], request, fitting)[method]
                ratios[method].append(together[method].metrics.total_ms / alone.metrics.total_ms)
    medians = {method: statistics.median(found) for method, found in ratios.items() if found}
    return {
        "problems": count,
        "tolerance": TOLERANCE,
        "ratios": medians,
        "within": all(abs(value - 1.0) <= TOLERANCE for value in medians.values()),
    }


def check_line(check: dict[str, Any]) -> str:
    """What was found, in one line."""
    found = ", ".join(f"{method} {value:.3f}" for method, value in check["ratios"].items())
    verdict = "within" if check["within"] else "NOT within"
    return (
        f"time in a race / time alone ({check['problems']} problems): {found}; "
        f"{verdict} {check['tolerance']:.0%}"
    )
