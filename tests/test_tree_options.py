"""How a tree is asked for on the command line, and what contradicts itself."""

from __future__ import annotations

import argparse

import pytest

from confu_demo.cli.options import add_decode_options, decode_config
from confu_demo.cli.tree_options import budget, budget_name
from confu_demo.config import ALL_NODES, AUTO_BUDGET, DecodeConfig, TreeConfig


def read(*arguments: str) -> DecodeConfig:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_decode_options(parser)
    return decode_config(parser.parse_args(arguments))


def test_the_machine_decides_unless_it_is_told_otherwise():
    config = read()
    assert config.tree == TreeConfig.auto()
    assert config.confu.contemplate_budget == AUTO_BUDGET
    assert read("--tree", "auto") == config


@pytest.mark.parametrize(
    ("arguments", "tree"),
    [
        (("--tree", "fixed"), TreeConfig()),
        (("--tree", "fixed:30"), TreeConfig(num_nodes=30, top_k=10)),
        (("--tree", "fixed:30", "--tree-top-k", "4"), TreeConfig(num_nodes=30, top_k=4)),
        (("--tree", "fixed:30", "--tree-nodes", "30"), TreeConfig(num_nodes=30, top_k=10)),
        (("--tree-nodes", "20"), TreeConfig(num_nodes=20)),
        (("--tree-depth", "3"), TreeConfig(depth=3)),
        (("--tree-top-k", "5", "--tree", "fixed"), TreeConfig(top_k=5)),
    ],
)
def test_a_fixed_tree_contemplates_everywhere_like_the_paper(arguments, tree):
    config = read(*arguments)
    assert config.tree == tree
    assert config.confu.contemplate_budget == ALL_NODES


@pytest.mark.parametrize(
    ("text", "value"), [("auto", AUTO_BUDGET), ("all", ALL_NODES), ("0", 0), ("7", 7)]
)
def test_a_budget_is_a_number_or_a_word(text, value):
    assert budget(text) == value
    assert budget_name(value) == text
    assert read("--contemplate-budget", text).confu.contemplate_budget == value


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--tree", "auto", "--tree-nodes", "9"), "the machine chooses nodes, depth and width"),
        (("--tree", "auto:9"), "must be auto, fixed or fixed:NODES, not 'auto:9'"),
        (("--tree", "fixed:"), "must be auto, fixed or fixed:NODES"),
        (("--tree", "fixed:many"), "must be auto, fixed or fixed:NODES"),
        (("--tree", "fixed:-3"), "must be auto, fixed or fixed:NODES"),
        (("--tree", "best"), "must be auto, fixed or fixed:NODES"),
        (("--tree", "fixed:0"), "tree nodes must be 1 to 256, not 0"),
        (("--tree", "fixed:30", "--tree-nodes", "20"), "--tree-nodes 20 contradict"),
        (("--tree", "fixed", "--contemplate-budget", "auto"), "budget auto needs tree auto"),
    ],
)
def test_a_contradiction_is_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        read(*arguments)
    assert "\n" not in str(caught.value)


def test_a_budget_that_is_nothing_is_refused():
    with pytest.raises(argparse.ArgumentError, match="'some' is not auto, all or a number"):
        read("--contemplate-budget", "some")
