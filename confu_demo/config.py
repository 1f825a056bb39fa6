"""Settings of every method, as frozen dataclasses that are checked when they are made.

A wrong value raises ``ValueError`` with one sentence that says what would be right; the command
line and the page show that sentence as it is. Sources are named per class: [P] the paper,
[E] EAGLE-3's public code, [O] our choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """How the target samples. Temperature 0 is greedy; top_p 1 and top_k 0 switch them off."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        _require(
            math.isfinite(self.temperature) and 0.0 <= self.temperature <= 5.0,
            f"temperature must be between 0 and 5, not {self.temperature}",
        )
        _require(0.0 < self.top_p <= 1.0, f"top-p must be above 0 and at most 1, not {self.top_p}")
        _require(self.top_k >= 0, f"top-k must be 0 (off) or more, not {self.top_k}")
        _require(0 <= self.seed < 2**63, f"seed must be between 0 and 2^63 - 1, not {self.seed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeConfig:
    """The dynamic draft tree of EAGLE-3 [E]: ``depth`` expansions of a frontier of ``top_k``
    nodes; the best ``num_nodes`` (root included) by cumulative log-probability are verified.
    The defaults were the fastest of six shapes on the bundled suite and two CPU cores [O].

    In mode ``auto`` [O] the machine decides every tree by measured cost, and the three numbers
    are limits (:meth:`auto` has wide ones)."""

    num_nodes: int = 16
    depth: int = 7
    top_k: int = 2
    mode: Literal["fixed", "auto"] = "fixed"

    @classmethod
    def auto(cls) -> TreeConfig:
        return cls(mode="auto", num_nodes=64, depth=10, top_k=8)

    def __post_init__(self) -> None:
        _require(
            self.mode in ("fixed", "auto"), f"the tree must be auto or fixed, not {self.mode!r}"
        )
        _require(1 <= self.num_nodes <= 256, f"tree nodes must be 1 to 256, not {self.num_nodes}")
        _require(1 <= self.depth <= 32, f"tree depth must be 1 to 32, not {self.depth}")
        _require(1 <= self.top_k <= 32, f"tree top-k must be 1 to 32, not {self.top_k}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupConfig:
    """Prompt lookup: draft the continuation of the longest earlier n-gram match."""

    max_ngram: int = 4
    num_draft_tokens: int = 8

    def __post_init__(self) -> None:
        _require(1 <= self.max_ngram <= 16, f"lookup n-gram must be 1 to 16, not {self.max_ngram}")
        _require(
            1 <= self.num_draft_tokens <= 64,
            f"lookup draft tokens must be 1 to 64, not {self.num_draft_tokens}",
        )


ALL_NODES = -1
AUTO_BUDGET = -2
"""Contemplate budgets beside a number: every node, and as many as should pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfuConfig:
    """ConFu [P]. ``future`` switches f for controls [O]: on, zeroed, or shuffled (f of an
    earlier cycle); ``contemplate_budget`` is how many tree nodes get a contemplate token [O]:
    -1 is every node (the paper), 0 none (EAGLE-3), -2 leaves it to the machine (which needs a
    tree in mode auto)."""

    future: Literal["on", "zeroed", "shuffled"] = "on"
    soft_prompts: bool = True
    mixtures: bool = True
    contemplate_budget: int = ALL_NODES

    def __post_init__(self) -> None:
        _require(
            self.future in ("on", "zeroed", "shuffled"),
            f"future must be on, zeroed or shuffled, not {self.future!r}",
        )
        _require(
            self.contemplate_budget >= AUTO_BUDGET,
            "contemplate budget must be -2 (auto), -1 (all), 0 or more, "
            f"not {self.contemplate_budget}",
        )


AUTO_STEPS = -1
"""A number of draft steps that the machine chooses anew for every round."""
MAX_AUTO_STEPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfspecConfig:
    """ConfSpec. ``threshold`` is gamma [P: 0.9]; at or below 0.5 the draft judge decides alone,
    above 1 the target judges everything (Lookahead Reasoning). ``draft_steps`` is k [O],
    -1 leaves it to the machine [O]; ``fallback`` [O] goes on with plain decoding where no k is
    worth it; ``max_step_tokens`` is the step cap [O], ``min_verdict_mass`` [O] sends vague judges
    up."""

    draft_steps: int = 3
    threshold: float = 0.9
    max_step_tokens: int = 64
    min_verdict_mass: float = 0.5
    audit: bool = False
    fallback: bool = False

    def __post_init__(self) -> None:
        _require(
            AUTO_STEPS <= self.draft_steps <= 16,
            f"draft steps must be 0 to 16, or -1 (auto), not {self.draft_steps}",
        )
        _require(
            0.0 <= self.threshold <= 2.0,
            "gamma (the confidence threshold) must be 0 to 2 (above 1: the target judges all), "
            f"not {self.threshold}",
        )
        _require(
            1 <= self.max_step_tokens <= 4096,
            f"max step tokens must be 1 to 4096, not {self.max_step_tokens}",
        )
        _require(
            0.0 <= self.min_verdict_mass <= 1.0,
            f"min verdict mass must be 0 to 1, not {self.min_verdict_mass}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecreasonConfig:
    """SpecReason: the least score of 0 to 9 with which a draft step is kept (its public code: 7);
    10 keeps none."""

    threshold: int = 7

    def __post_init__(self) -> None:
        _require(
            0 <= self.threshold <= 10,
            f"the score threshold must be 0 to 10 (10 keeps no step), not {self.threshold}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConfig:
    """Everything one run needs to know beside its prompt and its models."""

    max_new_tokens: int = 320
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    tree: TreeConfig = field(default_factory=TreeConfig)
    lookup: LookupConfig = field(default_factory=LookupConfig)
    confu: ConfuConfig = field(default_factory=ConfuConfig)
    confspec: ConfspecConfig = field(default_factory=ConfspecConfig)
    specreason: SpecreasonConfig = field(default_factory=SpecreasonConfig)

    def __post_init__(self) -> None:
        _require(
            1 <= self.max_new_tokens <= 100_000,
            f"max new tokens must be 1 to 100000, not {self.max_new_tokens}",
        )
        _require(
            self.tree.mode == "auto" or self.confu.contemplate_budget != AUTO_BUDGET,
            "contemplate budget auto needs tree auto: with a fixed tree name a number or all",
        )


def flatten(config: Any, prefix: str = "") -> tuple[tuple[str, str], ...]:
    """``(("max_new_tokens", "320"), ("tree.depth", "6"), ...)``, for ``RunStarted.config``."""
    rows: list[tuple[str, str]] = []
    for item in fields(config):
        value = getattr(config, item.name)
        name = f"{prefix}{item.name}"
        if is_dataclass(value):
            rows.extend(flatten(value, f"{name}."))
        else:
            rows.append((name, str(value)))
    return tuple(rows)
