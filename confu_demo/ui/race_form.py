"""What a visitor entered, checked and turned into a :class:`RaceRequest`.

A wrong entry raises :class:`Refusal`, which the page shows as one sentence; settings are checked
by :mod:`confu_demo.config`, whose sentences are shown as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from confu_demo.config import (
    ALL_NODES,
    AUTO_BUDGET,
    AUTO_STEPS,
    ConfspecConfig,
    ConfuConfig,
    DecodeConfig,
    SamplingConfig,
    TreeConfig,
)
from confu_demo.ui.runner import RaceRequest

MAX_CHARACTERS = 4000
MAX_NEW_TOKENS = 512
MAX_TREE_NODES = 64
MAX_TREE_DEPTH = 12
MAX_DRAFT_STEPS = 6
"""Caps of the page, not of the methods: a visitor shares the engine. Our choice."""

FIELDS = (
    "text", "as_problem", "methods", "temperature", "seed", "max_new_tokens", "tree",
    "tree_nodes", "tree_depth", "contemplate_budget", "future", "threshold", "draft_steps", "audit",
)  # fmt: skip
"""The entries in the order of the page's components."""


class Refusal(ValueError):
    """A wrong entry: ``key`` and ``args`` of the wording's sentence."""

    def __init__(self, key: str, **args: object) -> None:
        super().__init__(key)
        self.key, self.args_of_key = key, args


def read_form(
    entries: Mapping[str, Any], *, card: Mapping[str, Any] | None, allowed: Sequence[str]
) -> RaceRequest:
    """The race that the entries ask for. ``card`` is the problem that the text came from: its
    answer is expected only while the text is still the card's. Raises :class:`Refusal`, or
    ``ValueError`` with a sentence of its own."""
    text = str(entries["text"] or "").strip()
    if not text:
        raise Refusal("notice.no_text")
    if len(text) > MAX_CHARACTERS:
        raise Refusal("notice.too_long_text", limit=MAX_CHARACTERS)
    chosen = entries["methods"] or ()
    methods = tuple(method for method in allowed if method in chosen)
    if not methods:
        raise Refusal("notice.no_lanes")
    from_card = card is not None and card["text"].strip() == text
    return RaceRequest(
        text=text,
        methods=methods,
        config=_config(entries),
        expected_answer=card["answer"] if card is not None and from_card else None,
        is_problem=bool(entries["as_problem"]),
    )


def _config(entries: Mapping[str, Any]) -> DecodeConfig:
    tree = _tree(entries)
    budget = _whole(entries, "contemplate_budget", MAX_TREE_NODES)
    if budget == AUTO_BUDGET and tree.mode == "fixed":
        budget = ALL_NODES  # as the paper has it: there are no costs to decide by
    return DecodeConfig(
        max_new_tokens=_whole(entries, "max_new_tokens", MAX_NEW_TOKENS),
        sampling=SamplingConfig(
            temperature=_number(entries, "temperature"), seed=_whole(entries, "seed", 2**53)
        ),
        tree=tree,
        confu=ConfuConfig(future=entries["future"], contemplate_budget=budget),
        confspec=ConfspecConfig(
            threshold=_number(entries, "threshold"),
            draft_steps=_whole(entries, "draft_steps", MAX_DRAFT_STEPS) or AUTO_STEPS,
            audit=bool(entries["audit"]),
        ),
    )


def _tree(entries: Mapping[str, Any]) -> TreeConfig:
    if entries["tree"] == "auto":
        return TreeConfig.auto()
    return TreeConfig(
        mode=entries["tree"],
        num_nodes=_whole(entries, "tree_nodes", MAX_TREE_NODES),
        depth=_whole(entries, "tree_depth", MAX_TREE_DEPTH),
    )


def _number(entries: Mapping[str, Any], name: str) -> float:
    value = entries[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Refusal("notice.bad_number", name=name)
    return float(value)


def _whole(entries: Mapping[str, Any], name: str, most: int) -> int:
    value = _number(entries, name)
    if value != int(value):
        raise Refusal("notice.bad_whole", name=name)
    if value > most:
        raise Refusal("notice.too_much", name=name, most=most)
    return int(value)
