"""Plans maximise committed tokens per millisecond: compared with trying everything."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
import torch

from confu_demo.decoding.draft_tree import make_tree
from confu_demo.decoding.tree_plan import (
    CycleCosts,
    TreePlan,
    best_count,
    last_accepted,
    mean_tree,
    plan_shape,
    planned_con,
    row_costs,
    rows_with,
    worthy_con,
    worthy_width,
)
from confu_demo.engine.forward_cost import CostCurve

ACCEPTANCE = ((0.7, 0.15, 0.05), (0.6, 0.2, 0.1), (0.5, 0.1, 0.1))


def costs(
    row_ms: float = 0.2, first_ms: float = 2.0, level_ms: float = 0.5, width_ms: float = 0.1
) -> CycleCosts:
    """Straight lines."""
    return CycleCosts(
        verify=CostCurve(((1, first_ms), (65, first_ms + 64 * row_ms))),
        draft_ms=0.6,
        level=CostCurve(((1, level_ms), (9, level_ms + 8 * width_ms))),
    )


def steps() -> CycleCosts:
    """A machine that computes rows in packets of eight."""
    points = [(1, 3.0), (8, 3.0), (9, 5.0), (16, 5.0), (17, 8.0), (24, 8.0)]
    return CycleCosts(
        verify=CostCurve(tuple(points)), draft_ms=0.5, level=CostCurve(((1, 0.3), (4, 0.6)))
    )


def plan(of: CycleCosts, num_con: int = 0, most: tuple[int, int, int] = (20, 5, 3)) -> TreePlan:
    nodes, levels, width = most
    return plan_shape(
        ACCEPTANCE, of, max_nodes=nodes, max_levels=levels, max_width=width, num_con=num_con
    )


def grown(width: int, levels: int) -> list[float]:
    """The chances of every candidate, node by node as the drafter grows them."""
    everything, frontier = [1.0], [1.0]
    for depth in range(levels + 1):
        ranks = ACCEPTANCE[min(depth, 2)]
        children = [chance * rank for chance in frontier for rank in ranks]
        everything += children
        frontier = sorted(children, reverse=True)[:width]
    return sorted(everything, reverse=True)


@pytest.mark.parametrize("num_con", [0, 1, 4, -1])
@pytest.mark.parametrize("of", [costs(), costs(0.05), costs(1.5), costs(level_ms=2.0), steps()])
def test_the_plan_is_the_best_of_all_shapes(of: CycleCosts, num_con: int) -> None:
    rates = {}
    for width, levels in itertools.product(range(1, 4), range(6)):
        chances = grown(width, levels)
        for nodes in range(1, min(20, len(chances)) + 1):
            rows = nodes + (nodes if num_con < 0 else min(num_con, nodes))
            ms = of.draft_ms + levels * of.level.ms(width) + of.verify.ms(rows)
            rates[nodes, levels, width] = sum(chances[:nodes]) / ms
    found = plan(of, num_con)
    assert found.rate == pytest.approx(max(rates.values()))
    assert found.rate == pytest.approx(rates[found.num_nodes, found.levels, found.top_k])


def test_dearer_rows_make_smaller_trees() -> None:
    prices = (0.0, 0.05, 0.2, 0.5, 1.0, 3.0)
    sizes = [plan(costs(price, level_ms=0.001, width_ms=0.0)).num_nodes for price in prices]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 20  # free rows: as many as are allowed
    assert sizes[-1] < 4


def test_dearer_levels_make_shallower_trees() -> None:
    levels = [plan(costs(level_ms=level_ms)).levels for level_ms in (0.01, 0.3, 1.0, 3.0)]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > levels[-1] == 0


def test_contemplate_tokens_are_paid_for() -> None:
    of = costs(0.15, level_ms=0.1)
    all_nodes = plan(of, num_con=-1)
    assert all_nodes.num_nodes < plan(of).num_nodes
    widths = [all_nodes.top_k] * all_nodes.levels
    assert all_nodes.ms == pytest.approx(of.cycle_ms(widths, 2 * all_nodes.num_nodes))


def test_a_packet_of_rows_is_filled() -> None:
    """Within a packet rows are free, so no plan stops in the middle of one."""
    assert plan(steps()).num_nodes in (8, 16)
    assert plan(steps(), num_con=1).num_nodes in (7, 15)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_count_is_the_best_of_all_counts(seed: int) -> None:
    chance = random.Random(seed)
    gains = sorted((chance.random() for _ in range(12)), reverse=True)
    ms = sorted(chance.choice((0.0, 0.1, 2.0)) + count * 0.3 for count in range(13))
    rate = chance.random()
    for least in (0, 1, 3):
        values = {n: sum(gains[:n]) - rate * ms[n] for n in range(least, 13)}
        best = max(values.values())
        smallest = min(n for n, value in values.items() if value == pytest.approx(best))
        assert best_count(gains, ms, rate, least) == smallest


@pytest.mark.parametrize(
    ("frontier", "width"),
    [
        ((0.9, 0.05), 1),  # 0.9 * 0.8 is worth more than a level and a row
        ((0.9, 0.5), 2),
        ((0.9, 0.5, 0.4), 3),
        ((0.2, 0.1), 0),
        ((0.45, 0.4, 0.35), 3),  # none alone, all together
    ],
)
def test_a_level_expands_the_nodes_that_pay_for_it(frontier: Sequence[float], width: int) -> None:
    """A token is worth 2 ms; a level costs 0.6 ms and 0.05 more a node, a row 0.1 ms."""
    level_ms = [0.0, 0.65, 0.70, 0.75]
    assert worthy_width(frontier, hit=0.8, rate=0.5, row_ms=0.1, level_ms=level_ms) == width


def test_the_cost_of_a_row_is_smoothed_over_steps() -> None:
    table = steps().verify.table(24)
    found = row_costs(table, reach=4)
    assert found[4] == pytest.approx((3.0 - 3.0) / 7)
    assert found[8] == pytest.approx((5.0 - 3.0) / 8)
    assert found[16] == pytest.approx((8.0 - 5.0) / 8)
    assert row_costs(costs(0.2).verify.table(30))[5:25] == pytest.approx([0.2] * 20)


#: The tree 0 -> (1 -> (3, 4 -> 6), 2 -> 5) of test_contemplation.
PARENTS = (-1, 0, 0, 1, 1, 2, 4)
CHANCES = (1.0, 0.6, 0.3, 0.3, 0.15, 0.24, 0.12)
LAST = (0.1, 0.15, 0.06, 0.3, 0.03, 0.24, 0.12)


def test_the_chances_to_be_the_last_accepted_node_are_a_distribution() -> None:
    assert last_accepted(CHANCES, PARENTS) == pytest.approx(LAST)
    assert sum(last_accepted(CHANCES, PARENTS)) == pytest.approx(1.0)
    scores = torch.tensor(CHANCES).log()
    tree = make_tree(torch.arange(7), torch.tensor(PARENTS), scores, scores, max_depth=3)
    assert tree.last_accepted.tolist() == pytest.approx(LAST, abs=1e-6)


@pytest.mark.parametrize(
    ("row_ms", "num"), [(0.0, 7), (0.02, 6), (0.05, 5), (0.07, 4), (0.1, 3), (0.14, 2), (5.0, 1)]
)
def test_contemplate_tokens_stop_where_the_next_one_costs_more_than_it_brings(
    row_ms: float, num: int
) -> None:
    """The chances after the root's are 0.3, 0.24, 0.15, 0.12, 0.06 and 0.03; a hit is worth 0.5
    tokens, and a token 1 ms."""
    ranked = [LAST[0], *sorted(LAST[1:], reverse=True)]
    rows_ms = [row_ms * rows for rows in range(20)]
    assert worthy_con(ranked, 7, rows_ms, 1.0, 0.5) == num


def test_the_average_tree_grows_parents_before_children() -> None:
    nodes = mean_tree(ACCEPTANCE, width=2, levels=2)
    assert nodes[0] == (1.0, -1)
    assert len(nodes) == 1 + 3 + 6 + 6
    for place, (chance, parent) in enumerate(nodes[1:], start=1):
        assert parent < place
        assert chance < nodes[parent][0]
    assert sorted((chance for chance, _ in nodes), reverse=True) == pytest.approx(grown(2, 2))


def test_the_planned_number_of_contemplate_tokens_falls_with_their_price() -> None:
    found = []
    for row_ms in (0.0, 0.01, 0.05, 1.0):
        of = costs(row_ms)
        chosen = plan(of, num_con=1)
        found.append(planned_con(ACCEPTANCE, chosen, of.verify.table(60), worth=0.3))
    assert found == sorted(found, reverse=True)
    assert found[0] == plan(costs(0.0), num_con=1).num_nodes
    assert found[-1] == 1


@pytest.mark.parametrize(
    ("nodes", "con", "rows"), [(10, 0, 10), (10, 3, 13), (10, 99, 20), (10, -1, 20), (1, 1, 2)]
)
def test_a_contemplate_token_is_a_row_like_a_node(nodes: int, con: int, rows: int) -> None:
    assert rows_with(nodes, con) == rows
