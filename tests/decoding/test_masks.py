"""Masks against literal matrices."""

from __future__ import annotations

import pytest
import torch

from confu_demo.decoding.masks import ancestor_mask, verify_mask

CHAIN = (-1, 0, 1, 2)
FORK = (-1, 0, 0, 1)
BUSHY = (-1, 0, 0, 1, 1, 2, 4)

ANCESTORS = {
    CHAIN: """
        1 0 0 0
        1 1 0 0
        1 1 1 0
        1 1 1 1
    """,
    FORK: """
        1 0 0 0
        1 1 0 0
        1 0 1 0
        1 1 0 1
    """,
    BUSHY: """
        1 0 0 0 0 0 0
        1 1 0 0 0 0 0
        1 0 1 0 0 0 0
        1 1 0 1 0 0 0
        1 1 0 0 1 0 0
        1 0 1 0 0 1 0
        1 1 0 0 1 0 1
    """,
}

FORK_WITH_EVERY_CON = """
    1 1  1 0 0 0  0 0 0 0
    1 1  1 1 0 0  0 0 0 0
    1 1  1 0 1 0  0 0 0 0
    1 1  1 1 0 1  0 0 0 0
    1 1  1 0 0 0  1 0 0 0
    1 1  1 1 0 0  0 1 0 0
    1 1  1 0 1 0  0 0 1 0
    1 1  1 1 0 1  0 0 0 1
"""

CHAIN_WITH_TWO_CON = """
    1  1 0 0 0  0 0
    1  1 1 0 0  0 0
    1  1 1 1 0  0 0
    1  1 1 1 1  0 0
    1  1 0 0 0  1 0
    1  1 1 0 0  0 1
"""

BUSHY_WITHOUT_CON = """
    1 1 1  1 0 0 0 0 0 0
    1 1 1  1 1 0 0 0 0 0
    1 1 1  1 0 1 0 0 0 0
    1 1 1  1 1 0 1 0 0 0
    1 1 1  1 1 0 0 1 0 0
    1 1 1  1 0 1 0 0 1 0
    1 1 1  1 1 0 0 1 0 1
"""


def matrix(text: str) -> list[list[bool]]:
    return [[cell == "1" for cell in line.split()] for line in text.strip().splitlines()]


@pytest.mark.parametrize("parents", [CHAIN, FORK, BUSHY])
@pytest.mark.parametrize("bound", ["exact", "unknown"])
def test_a_node_sees_its_ancestors_and_itself(parents: tuple[int, ...], bound: str) -> None:
    mask = ancestor_mask(torch.tensor(parents), max_depth=3 if bound == "exact" else None)
    assert mask.tolist() == matrix(ANCESTORS[parents])


def test_a_lone_root_sees_itself() -> None:
    assert ancestor_mask(torch.tensor([-1])).tolist() == [[True]]


@pytest.mark.parametrize(
    ("parents", "past", "con_nodes", "expected"),
    [
        (FORK, 2, (0, 1, 2, 3), FORK_WITH_EVERY_CON),
        (CHAIN, 1, (0, 1), CHAIN_WITH_TWO_CON),
        (BUSHY, 3, None, BUSHY_WITHOUT_CON),
    ],
)
def test_contemplate_tokens_see_their_path_and_nobody_sees_them(
    parents: tuple[int, ...], past: int, con_nodes: tuple[int, ...] | None, expected: str
) -> None:
    ancestors = ancestor_mask(torch.tensor(parents))
    nodes = None if con_nodes is None else torch.tensor(con_nodes)
    assert verify_mask(ancestors, past, nodes).tolist() == matrix(expected)
