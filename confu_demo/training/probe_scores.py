"""How well linear probes name the tokens ahead: sums by document, intervals, the table.

Owns the figures of :mod:`confu_demo.training.foresight_probe`; knows no model. Places of one
document are not independent of each other, so the bootstrap draws whole documents, the same ones
for both sides of a difference (paired).

Shape letters: O offsets, N documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from confu_demo.comparison import NUM_RESAMPLES


@dataclass(frozen=True, slots=True)
class ProbeScores:
    """Sums over the places of every document, documents in the same order for every source."""

    hits: np.ndarray  # [O, N], places whose likeliest token is the right one
    losses: np.ndarray  # [O, N], nats
    places: np.ndarray  # [O, N]


def difference_interval(
    own: np.ndarray,
    own_places: np.ndarray,
    base: np.ndarray,
    base_places: np.ndarray,
    seed: int = 0,
) -> tuple[float, float]:
    """95 % bootstrap interval of the difference of two means over places; all [N]."""
    sums = np.stack((own, own_places, base, base_places))
    draws = np.random.default_rng(seed).integers(len(own), size=(NUM_RESAMPLES, len(own)))
    a, n, b, m = sums[:, draws].sum(axis=2)  # [resamples] each
    low, high = np.quantile(a / np.maximum(n, 1) - b / np.maximum(m, 1), (0.025, 0.975))
    return float(low), float(high)


def figures_of(own: ProbeScores, base: ProbeScores) -> list[dict[str, Any]]:
    """Means of every offset and, as [low, high], their differences from ``base``."""
    rows = []
    for offset, (places, its) in enumerate(zip(own.places, base.places, strict=True)):
        row: dict[str, Any] = {"places": int(places.sum())}
        for name in ("hits", "losses"):
            mine, theirs = getattr(own, name)[offset], getattr(base, name)[offset]
            key = "accuracy" if name == "hits" else "log_loss"
            row[key] = float(mine.sum() / max(1.0, places.sum()))
            row[f"{key}_difference"] = list(difference_interval(mine, places, theirs, its))
        rows.append(row)
    return rows


def probe_table(scores: Mapping[str, ProbeScores], baseline: str) -> tuple[str, dict[str, Any]]:
    """Markdown of accuracy and log-loss by source and offset, each with the differences from
    ``baseline`` (95 % intervals over documents); the same as figures by source."""
    figures = {name: figures_of(own, scores[baseline]) for name, own in scores.items()}
    offsets = range(1, len(figures[baseline]) + 1)
    parts = []
    for key, title in (("accuracy", "top-1 accuracy"), ("log_loss", "log-loss, nats")):
        lines = [
            f"| {title} |" + "".join(f" {offset} ahead |" for offset in offsets),
            "|---|" + "---:|" * len(offsets),
        ]
        for name, rows in figures.items():
            lines.append(f"| {name} |" + "".join(f" {row[key]:.3f} |" for row in rows))
        for name, rows in figures.items():
            if name != baseline:
                spans = (row[f"{key}_difference"] for row in rows)
                cells = "".join(f" {low:+.3f} to {high:+.3f} |" for low, high in spans)
                lines.append(f"| {name} - {baseline} (95 %) |{cells}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts), figures
