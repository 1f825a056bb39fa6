"""Is a judge right as often as it is sure? Temperature, reliability, coverage, harmful accepts.

Pure functions of numbers, standard library only. ``p_same`` is a judge's probability of "same"
over its two verdict words; its confidence is max(p_same, 1 - p_same). ``is_same`` is the truth:
the machine-readable meaning of the two steps. One temperature a judge divides the log-odds of its
verdict (temperature scaling, Guo et al. 2017); it changes no verdict, only how sure it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from confu_demo.bench_statistics import wilson_interval

NUM_BINS = 10
_COLDEST, _HOTTEST = math.log(0.05), math.log(20.0)
_LEAST = 1e-7  # a probability is kept this far from 0 and 1, so that its log-odds exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """Both judges about one pair of steps. ``mass``: the draft judge's probability of either
    verdict word, which the gate looks at too."""

    is_same: bool
    draft_p_same: float
    target_p_same: float
    mass: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Verdicts with a confidence in [low, high): how sure in the mean, how often right."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFigures:
    """The gate at one threshold, on pairs that it was not fitted on.

    * ``coverage``: verdicts that stand without the target / all; ``confident_right`` of
      ``num_confident`` are right, ``target_right`` of the same ones by the target's judge;
    * ``accepted``: pairs that the gate and, below it, the target let through; ``harmful`` of them
      mean something else; ``wasted`` pairs mean the same and were rejected.
    """

    threshold: float
    pairs: int
    num_confident: int
    confident_right: int
    target_right: int
    accepted: int
    harmful: int
    wasted: int

    @property
    def coverage(self) -> float | None:
        return self.num_confident / self.pairs if self.pairs else None

    @property
    def confident_accuracy(self) -> float | None:
        return self.confident_right / self.num_confident if self.num_confident else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's, of the confident verdicts' accuracy."""
        return wilson_interval(self.confident_right, self.num_confident)


def at_temperature(p_same: float, temperature: float) -> float:
    """The probability whose log-odds are ``p_same``'s over ``temperature`` (above 0)."""
    p = min(1.0 - _LEAST, max(_LEAST, p_same))
    return 1.0 / (1.0 + math.exp(-math.log(p / (1.0 - p)) / temperature))


def fit_temperature(known: Sequence[tuple[float, bool]]) -> float:
    """The temperature with the least negative log-likelihood of ``(p_same, is_same)``, between
    0.05 and 20; 1.0 of nothing. The loss has one minimum, which golden sections close in on."""
    if not known:
        return 1.0
    low, high = _COLDEST, _HOTTEST
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    while high - low > 1e-5:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if _loss(known, math.exp(left)) <= _loss(known, math.exp(right)):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2.0)


def _loss(known: Sequence[tuple[float, bool]], temperature: float) -> float:
    total = 0.0
    for p_same, is_same in known:
        p = at_temperature(p_same, temperature)
        total -= math.log(max(_LEAST, p if is_same else 1.0 - p))
    return total


def reliability(known: Sequence[tuple[float, bool]], num_bins: int = NUM_BINS) -> list[Bin]:
    """Confidences of 0.5 to 1 in equal bins; the last one holds 1.0 too."""
    rows: list[list[tuple[float, bool]]] = [[] for _ in range(num_bins)]
    for p_same, is_same in known:
        confidence = max(p_same, 1.0 - p_same)
        place = min(num_bins - 1, int((confidence - 0.5) * 2.0 * num_bins))
        rows[place].append((confidence, (p_same > 0.5) == is_same))
    return [
        Bin(
            low=0.5 + place / (2 * num_bins),
            high=0.5 + (place + 1) / (2 * num_bins),
            count=len(row),
            confidence=sum(sure for sure, _ in row) / len(row) if row else None,
            accuracy=sum(right for _, right in row) / len(row) if row else None,
        )
        for place, row in enumerate(rows)
    ]


def expected_calibration_error(bins: Sequence[Bin]) -> float | None:
    """The mean distance between confidence and accuracy, bins by their count; None of nothing."""
    total = sum(each.count for each in bins)
    if not total:
        return None
    distances = [
        each.count * abs(each.confidence - each.accuracy)
        for each in bins
        if each.confidence is not None and each.accuracy is not None
    ]
    return sum(distances) / total


def accuracy(known: Sequence[tuple[float, bool]]) -> float | None:
    """The share of right verdicts; a tie counts as "different"."""
    right = sum((p > 0.5) == is_same for p, is_same in known)
    return right / len(known) if known else None


def gate_figures(pairs: Sequence[Verdicts], threshold: float, min_mass: float = 0.0) -> GateFigures:
    """What a gate with this threshold does: at 0.5 and below the draft judge decides alone, above
    1 the target's."""
    confident = [
        pair
        for pair in pairs
        if threshold <= 0.5
        or (max(pair.draft_p_same, 1.0 - pair.draft_p_same) >= threshold and pair.mass >= min_mass)
    ]
    sure = set(map(id, confident))
    accepted = [
        pair
        for pair in pairs
        if (pair.draft_p_same if id(pair) in sure else pair.target_p_same) > 0.5
    ]
    kept = set(map(id, accepted))
    return GateFigures(
        threshold=threshold,
        pairs=len(pairs),
        num_confident=len(confident),
        confident_right=sum((pair.draft_p_same > 0.5) == pair.is_same for pair in confident),
        target_right=sum((pair.target_p_same > 0.5) == pair.is_same for pair in confident),
        accepted=len(accepted),
        harmful=sum(not pair.is_same for pair in accepted),
        wasted=sum(pair.is_same and id(pair) not in kept for pair in pairs),
    )
