"""How long small pieces of work take, device synchronised.

Every pass does all jobs once, so that a slow moment of the machine meets all of them alike. Of the
passes the lower quartile counts: what other processes take away is no property of the work, and
it hits long jobs more often than short ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def usual_ms(
    jobs: Sequence[Callable[[], object]],
    wait: Callable[[], None] = lambda: None,
    *,
    passes: int = 9,
    max_seconds: float = 3.0,
    least: int = 1,
) -> list[float]:
    """Milliseconds of each job, in order; the first pass warms up and is dropped.

    After ``max_seconds`` no further job is begun: later passes then count for the jobs that they
    reached, a job that only the first pass reached has that time, and jobs that nobody reached
    are missing at the end of the list (the first ``least`` never are).
    """
    deadline = time.perf_counter() + max_seconds
    times: list[list[float]] = []
    for turn in range(passes + 1):
        for place, job in enumerate(jobs):
            if len(times) >= least and time.perf_counter() > deadline:
                return _lower_quartiles(times)
            wait()
            begin = time.perf_counter()
            job()
            wait()
            if turn == 0:
                times.append([])
            times[place].append((time.perf_counter() - begin) * 1e3)
    return _lower_quartiles(times)


def _lower_quartiles(times: Sequence[Sequence[float]]) -> list[float]:
    counted = [sorted(found[1:] or found) for found in times]
    return [found[(len(found) - 1) // 4] for found in counted]
