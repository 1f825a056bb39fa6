"""Heads compared on the same held-out answers: chain length with intervals over prompts.

A prompt's cycles are not independent of each other, so the bootstrap draws whole prompts. The
ratio of two heads is taken over the same drawn prompts (paired). Knows no model.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Walks = Sequence[tuple[int, int]]
"""(tokens, cycles) of every prompt, in the same order for every head."""
NUM_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Comparison:
    """``length``: tokens a cycle; ``ratio``: to the baseline's; intervals of 95 %."""

    name: str
    length: float
    length_interval: tuple[float, float]
    ratio: float
    ratio_interval: tuple[float, float]
    by_category: dict[str, float]  # length


def mean_length(walks: Walks) -> float:
    """Tokens a cycle over all prompts; ValueError of nothing."""
    cycles = sum(count for _, count in walks)
    if not cycles:
        raise ValueError("there are no cycles to compare")
    return sum(tokens for tokens, _ in walks) / cycles


def compare(
    heads: Mapping[str, Walks], baseline: str, categories: Sequence[str], seed: int = 0
) -> list[Comparison]:
    """Every head against ``baseline``. ValueError where they did not see the same prompts."""
    base = heads[baseline]
    if any(len(walks) != len(base) for walks in heads.values()) or len(categories) != len(base):
        raise ValueError("heads can only be compared on the same prompts")
    rng = random.Random(seed)
    prompts = range(len(base))
    draws = [rng.choices(prompts, k=len(base)) for _ in range(NUM_RESAMPLES)]
    return [_against(name, walks, base, categories, draws) for name, walks in heads.items()]


def _against(
    name: str,
    walks: Walks,
    base: Walks,
    categories: Sequence[str],
    draws: Sequence[Sequence[int]],
) -> Comparison:
    lengths, ratios = [], []
    for draw in draws:
        length = mean_length([walks[prompt] for prompt in draw])
        lengths.append(length)
        ratios.append(length / mean_length([base[prompt] for prompt in draw]))
    by_category = {
        category: mean_length(
            [own for own, its in zip(walks, categories, strict=True) if its == category]
        )
        for category in sorted(set(categories))
    }
    length = mean_length(walks)
    return Comparison(
        name,
        length,
        _middle(lengths),
        length / mean_length(base),
        _middle(ratios),
        by_category,
    )


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """The middle 95 %."""
    ordered = sorted(values)
    cut = len(ordered) // 40
    return ordered[cut], ordered[-cut - 1]


def comparison_table(rows: Sequence[Comparison], baseline: str) -> str:
    """Markdown: one line a head."""
    categories = list(rows[0].by_category)
    head = f"| drafter | length (95 %) | against {baseline} (95 %) |" + "".join(
        f" {category} |" for category in categories
    )
    lines = [head, "|---|---:|---:|" + "---:|" * len(categories)]
    for row in rows:
        low, high = row.length_interval
        least, most = row.ratio_interval
        cells = "".join(f" {row.by_category[category]:.2f} |" for category in categories)
        lines.append(
            f"| {row.name} | {row.length:.2f} ({low:.2f}-{high:.2f}) | "
            f"{row.ratio:.3f} ({least:.3f}-{most:.3f}) |{cells}"
        )
    return "\n".join(lines)
