"""Statistics of a benchmark: quartiles, an interval for a share, an interval for a mean.

Pure functions of numbers, standard library only. Intervals say how far the problems that were
drawn let the result be trusted; they know nothing of a machine's noise.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence


def median(values: Sequence[float]) -> float | None:
    """The middle value; None of nothing."""
    return statistics.median(values) if values else None


def quartiles(values: Sequence[float]) -> tuple[float, float, float] | None:
    """First quartile, median, third quartile, by linear interpolation between the sorted values
    (numpy's default); None of nothing."""
    if not values:
        return None
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    return at(0.25), at(0.5), at(0.75)


def wilson_interval(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float] | None:
    """Wilson's score interval for a share (95 % by default); None without trials.

    Unlike mean +- z * sigma it stays within 0 and 1 and is honest for 24 of 24.
    Raises ``ValueError`` unless 0 <= successes <= trials.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"there cannot be {successes} successes in {trials} trials")
    if trials == 0:
        return None
    share = successes / trials
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return low, high


def bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float] = statistics.fmean,
    *,
    seed: int = 0,
    num_resamples: int = 2000,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """The percentile bootstrap interval of ``statistic``; None of nothing.

    The same seed gives the same interval. Raises ``ValueError`` for a level outside (0, 1) or
    no resamples.
    """
    if not 0 < level < 1 or num_resamples < 1:
        raise ValueError("level must be between 0 and 1, and num_resamples 1 or more")
    if not values:
        return None
    rng = random.Random(seed)
    found = sorted(statistic(rng.choices(values, k=len(values))) for _ in range(num_resamples))
    tail = (1 - level) / 2
    last = num_resamples - 1
    return found[math.floor(tail * last)], found[math.ceil((1 - tail) * last)]
