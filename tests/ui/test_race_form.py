from __future__ import annotations

import math
from typing import Any

import pytest

from confu_demo.config import ALL_NODES, AUTO_BUDGET, AUTO_STEPS, TreeConfig
from confu_demo.ui.race_form import MAX_CHARACTERS, MAX_NEW_TOKENS, Refusal, read_form
from confu_demo.ui.runner import METHODS, RaceRequest

CARD = {"text": "How many?", "answer": "3", "family": "inventory"}


def entries(**changes: Any) -> dict[str, Any]:
    usual = {
        "text": "How many?", "as_problem": True, "methods": list(METHODS), "temperature": 0,
        "seed": 0, "max_new_tokens": 64, "tree": "fixed", "tree_nodes": 12, "tree_depth": 6,
        "contemplate_budget": 2, "future": "on", "threshold": 0.9, "draft_steps": 3,
        "audit": False,
    }  # fmt: skip
    return {**usual, **changes}


def read(**changes: Any) -> RaceRequest:
    return read_form(entries(**changes), card=CARD, allowed=METHODS)


def test_the_entries_become_a_request():
    request = read(temperature=0.5, seed=7, tree_nodes=20, tree_depth=4, threshold=0.8)
    assert request.text == "How many?"
    assert request.expected_answer == "3"
    assert request.config.max_new_tokens == 64
    assert request.config.sampling.temperature == 0.5
    assert request.config.sampling.seed == 7
    assert request.config.tree.num_nodes == 20
    assert request.config.tree.depth == 4
    assert request.config.confspec.threshold == 0.8


def test_an_automatic_tree_leaves_the_shape_to_the_machine():
    request = read(tree="auto", contemplate_budget=AUTO_BUDGET)
    assert request.config.tree == TreeConfig.auto()
    assert request.config.confu.contemplate_budget == AUTO_BUDGET
    assert read(tree="auto").config.confu.contemplate_budget == 2


def test_a_fixed_tree_contemplates_everywhere_unless_a_number_is_chosen():
    for chosen, budget in ((AUTO_BUDGET, ALL_NODES), (ALL_NODES, ALL_NODES), (0, 0), (4, 4)):
        assert read(contemplate_budget=chosen).config.confu.contemplate_budget == budget


def test_the_audit_is_asked_for_by_its_box():
    assert not read().config.confspec.audit
    assert read(audit=True).config.confspec.audit


def test_zero_draft_steps_leave_their_number_to_the_machine():
    assert read(draft_steps=0).config.confspec.draft_steps == AUTO_STEPS
    assert read(draft_steps=4).config.confspec.draft_steps == 4


def test_an_edited_text_has_no_known_answer():
    assert read(text="How many then?").expected_answer is None
    assert read(text="  How many?\n").expected_answer == "3"


def test_lanes_keep_the_order_of_the_page_and_unavailable_ones_are_dropped():
    request = read_form(
        entries(methods=["confu", "autoregressive", "nonsense"]),
        card=None,
        allowed=("autoregressive", "confu"),
    )
    assert request.methods == ("autoregressive", "confu")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"text": "  \n"}, "notice.no_text"),
        ({"text": None}, "notice.no_text"),
        ({"text": "x" * (MAX_CHARACTERS + 1)}, "notice.too_long_text"),
        ({"methods": []}, "notice.no_lanes"),
        ({"methods": ["nonsense"]}, "notice.no_lanes"),
        ({"seed": None}, "notice.bad_number"),
        ({"seed": "3"}, "notice.bad_number"),
        ({"temperature": math.nan}, "notice.bad_number"),
        ({"tree_nodes": True}, "notice.bad_number"),
        ({"tree_depth": 2.5}, "notice.bad_whole"),
        ({"max_new_tokens": MAX_NEW_TOKENS + 1}, "notice.too_much"),
        ({"draft_steps": 99}, "notice.too_much"),
        ({"contemplate_budget": 1000}, "notice.too_much"),
        ({"contemplate_budget": "all"}, "notice.bad_number"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_own_sentence(changes: dict[str, Any], key: str):
    with pytest.raises(Refusal) as refusal:
        read(**changes)
    assert refusal.value.key == key


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"temperature": -1}, "temperature must be between 0 and 5"),
        ({"future": "maybe"}, "future must be on, zeroed or shuffled"),
        ({"tree_nodes": 0}, "tree nodes must be 1 to 256"),
        ({"tree": "bonsai"}, "the tree must be auto or fixed"),
        ({"contemplate_budget": -3}, "contemplate budget must be -2"),
        ({"threshold": 3}, r"gamma \(the confidence threshold\) must be 0 to 2"),
        ({"max_new_tokens": 0}, "max new tokens must be 1 to"),
        ({"seed": -1}, "seed must be between 0 and"),
    ],
)
def test_what_the_settings_refuse_is_said_in_their_words(changes: dict[str, Any], sentence: str):
    with pytest.raises(ValueError, match=sentence):
        read(**changes)
