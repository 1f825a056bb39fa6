"""Wrong settings are refused when they are made, with one sentence that says what is right."""

from __future__ import annotations

import dataclasses
import math

import pytest

from confu_demo.config import (
    AUTO_BUDGET,
    ConfspecConfig,
    ConfuConfig,
    DecodeConfig,
    LookupConfig,
    SamplingConfig,
    SpecreasonConfig,
    TreeConfig,
    flatten,
)

WRONG = [
    (SamplingConfig, {"temperature": -0.1}, "temperature must be between 0 and 5, not -0.1"),
    (SamplingConfig, {"temperature": 5.1}, "temperature must be between 0 and 5, not 5.1"),
    (SamplingConfig, {"temperature": math.nan}, "temperature must be between 0 and 5, not nan"),
    (SamplingConfig, {"temperature": math.inf}, "temperature must be between 0 and 5, not inf"),
    (SamplingConfig, {"top_p": 0.0}, "top-p must be above 0 and at most 1, not 0.0"),
    (SamplingConfig, {"top_p": 1.1}, "top-p must be above 0 and at most 1, not 1.1"),
    (SamplingConfig, {"top_p": math.nan}, "top-p must be above 0 and at most 1, not nan"),
    (SamplingConfig, {"top_k": -1}, r"top-k must be 0 \(off\) or more, not -1"),
    (SamplingConfig, {"seed": -1}, "seed must be between 0 and"),
    (SamplingConfig, {"seed": 2**63}, "seed must be between 0 and"),
    (TreeConfig, {"num_nodes": 0}, "tree nodes must be 1 to 256, not 0"),
    (TreeConfig, {"num_nodes": 257}, "tree nodes must be 1 to 256, not 257"),
    (TreeConfig, {"depth": 0}, "tree depth must be 1 to 32, not 0"),
    (TreeConfig, {"top_k": 33}, "tree top-k must be 1 to 32, not 33"),
    (LookupConfig, {"max_ngram": 0}, "lookup n-gram must be 1 to 16, not 0"),
    (LookupConfig, {"num_draft_tokens": 65}, "lookup draft tokens must be 1 to 64, not 65"),
    (ConfuConfig, {"future": "maybe"}, "future must be on, zeroed or shuffled, not 'maybe'"),
    (TreeConfig, {"mode": "best"}, "the tree must be auto or fixed, not 'best'"),
    (ConfuConfig, {"contemplate_budget": -3}, r"contemplate budget must be -2 \(auto\)"),
    (
        DecodeConfig,
        {"confu": ConfuConfig(contemplate_budget=AUTO_BUDGET)},
        "contemplate budget auto needs tree auto",
    ),
    (ConfspecConfig, {"draft_steps": -2}, "draft steps must be 0 to 16, or -1"),
    (
        ConfspecConfig,
        {"threshold": 2.1},
        r"gamma \(the confidence threshold\) must be 0 to 2.*, not 2.1",
    ),
    (
        ConfspecConfig,
        {"threshold": math.nan},
        r"gamma \(the confidence threshold\) must be 0 to 2.*, not nan",
    ),
    (ConfspecConfig, {"max_step_tokens": 0}, "max step tokens must be 1 to 4096, not 0"),
    (ConfspecConfig, {"min_verdict_mass": 1.5}, "min verdict mass must be 0 to 1, not 1.5"),
    (DecodeConfig, {"max_new_tokens": 0}, "max new tokens must be 1 to 100000, not 0"),
]

LIMITS = [
    (SamplingConfig, {"temperature": 5.0, "top_p": 1e-9, "seed": 2**63 - 1}),
    (TreeConfig, {"num_nodes": 1, "depth": 1, "top_k": 1}),
    (TreeConfig, {"num_nodes": 256, "depth": 32, "top_k": 32}),
    (LookupConfig, {"max_ngram": 16, "num_draft_tokens": 64}),
    (ConfuConfig, {"contemplate_budget": -1}),
    (ConfuConfig, {"contemplate_budget": AUTO_BUDGET}),
    (
        DecodeConfig,
        {"tree": TreeConfig.auto(), "confu": ConfuConfig(contemplate_budget=AUTO_BUDGET)},
    ),
    (ConfspecConfig, {"draft_steps": 0, "threshold": 0.0, "max_step_tokens": 1}),
    (ConfspecConfig, {"draft_steps": 16, "threshold": 2.0, "min_verdict_mass": 1.0}),
    (DecodeConfig, {"max_new_tokens": 100_000}),
]


@pytest.mark.parametrize(("kind", "values", "message"), WRONG)
def test_a_wrong_setting_is_refused_in_one_sentence(kind, values, message):
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        kind(**values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("kind", "values"), LIMITS)
def test_the_limits_themselves_are_allowed(kind, values):
    made = kind(**values)
    assert {name: getattr(made, name) for name in values} == values


def test_settings_cannot_be_changed_afterwards():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DecodeConfig().max_new_tokens = 1  # type: ignore[misc]


def test_settings_are_given_by_name_only():
    with pytest.raises(TypeError):
        TreeConfig(12)  # type: ignore[misc]


def test_flatten_names_every_setting_once_with_its_value_as_text():
    rows = dict(flatten(DecodeConfig(max_new_tokens=7, tree=TreeConfig(depth=3))))
    assert rows["max_new_tokens"] == "7"
    assert rows["tree.depth"] == "3"
    assert rows["sampling.temperature"] == "0.0"
    assert rows["confu.future"] == "on"
    assert rows["confspec.audit"] == "False"
    parts = (
        SamplingConfig,
        TreeConfig,
        LookupConfig,
        ConfuConfig,
        ConfspecConfig,
        SpecreasonConfig,
    )
    assert len(rows) == 1 + sum(len(dataclasses.fields(part)) for part in parts)
    assert len(flatten(DecodeConfig())) == len(rows)
