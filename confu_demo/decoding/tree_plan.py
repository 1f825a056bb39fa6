"""Which tree pays: nodes, levels, width and contemplate tokens by measured cost. Pure arithmetic.

The goal is committed tokens per millisecond over a run, and cycles repeat, so by the argument of
renewal rewards (Dinkelbach's for ratios) a piece of a tree is worth having exactly if its expected
tokens are more than its milliseconds times the best rate. Every choice below is that one
comparison, :func:`best_count`. All of it is our choice [O]; EAGLE-3 and the paper fix the shape.

Owns the costs of a cycle, the plan before anything is known of a run (:func:`plan_shape`) and the
worth of contemplate tokens. Knows no tensor, no clock and no randomness: same numbers, same tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from confu_demo.engine.forward_cost import CostCurve
from confu_demo.trace import MeasuredCosts

FUTURE_WORTH = 0.04
"""What a future prediction of its own is taken to be worth, as a part of the acceptance length,
with a head that does not say what f was worth to it on held-out answers (``future_worth`` of its
config). The paper's f adds about 0.1 over none. [O]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleCosts:
    """Milliseconds of one cycle: ``verify`` by rows (nodes and contemplate tokens), ``draft_ms``
    before the first level, ``level`` by expanded nodes."""

    verify: CostCurve
    draft_ms: float
    level: CostCurve

    def cycle_ms(self, widths: Sequence[int], num_rows: int) -> float:
        """A cycle whose levels expanded ``widths`` nodes and that verified ``num_rows``."""
        levels = sum(self.level.ms(width) for width in widths)
        return self.draft_ms + levels + self.verify.ms(num_rows)

    def record(self) -> MeasuredCosts:
        return MeasuredCosts(
            verify=self.verify.points, draft_ms=self.draft_ms, level=self.level.points
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlan:
    """A shape and what it should bring: ``levels`` of ``top_k`` expanded nodes, of whose
    candidates the best ``num_nodes`` (root included) are verified."""

    num_nodes: int
    levels: int
    top_k: int
    num_con: int
    tokens: float
    ms: float

    @property
    def rate(self) -> float:
        return self.tokens / self.ms


def best_count(
    gains: Sequence[float], cost_ms: Sequence[float], rate: float, least: int = 0
) -> int:
    """How many of ``gains`` (tokens, best first) to take: the number n from ``least`` on that
    maximises their sum less ``rate`` * ``cost_ms[n]``; the smallest of equals."""
    taken = sum(gains[:least])
    chosen, most = least, taken - rate * cost_ms[least]
    for count in range(least + 1, len(gains) + 1):
        taken += gains[count - 1]
        value = taken - rate * cost_ms[count]
        if value > most:
            chosen, most = count, value
    return chosen


def worthy_width(
    frontier: Sequence[float], hit: float, rate: float, row_ms: float, level_ms: Sequence[float]
) -> int:
    """How many frontier nodes the next level should expand; 0: the level does not pay.

    ``frontier`` are the nodes' chances to be accepted, best first; ``hit`` the chance that one
    of an accepted node's children is; each child that is taken costs a row of ``row_ms``, and
    ``level_ms[n]`` expands n nodes. One level is looked ahead: if it does not pay, less likely
    ones below it do not either.
    """
    gains = [chance * hit - rate * row_ms for chance in frontier]
    return best_count(gains, level_ms, rate)


def row_costs(rows_ms: Sequence[float], reach: int = 4) -> list[float]:
    """What one more row costs around every number of rows, the hardware's steps smoothed out."""
    last = len(rows_ms) - 1
    found = []
    for rows in range(last + 1):
        low, high = max(1, rows - reach), min(last, rows + reach)
        found.append((rows_ms[high] - rows_ms[low]) / max(1, high - low))
    return found


def rows_with(num_nodes: int, num_con: int) -> int:
    """Rows of a verify forward; ``num_con`` below 0: a contemplate token after every node."""
    return num_nodes + (num_nodes if num_con < 0 else min(num_con, num_nodes))


def last_accepted(chances: Sequence[float], parents: Sequence[int]) -> list[float]:
    """The chance of every node to be the last accepted one: to be accepted, and none of its
    children. For a root with children of 0.5 and 0.3 it is 0.2, 0.5 and 0.3."""
    last = list(chances)
    for node, parent in enumerate(parents):
        if parent >= 0:
            last[parent] -= chances[node]
    return last


def worthy_con(
    last: Sequence[float], num_nodes: int, rows_ms: Sequence[float], rate: float, worth: float
) -> int:
    """How many nodes should get a contemplate token: the root always [O], others while their
    chance to be the last accepted one times ``worth`` tokens pays for the row.

    ``last`` holds those chances, the root's first, then best first; ``rows_ms[n]`` verifies n
    rows.
    """
    gains = [worth * chance for chance in last]
    return best_count(gains, rows_ms[num_nodes:], rate, least=1)


def mean_tree(
    acceptance: Sequence[Sequence[float]], width: int, levels: int
) -> list[tuple[float, int]]:
    """(chance of acceptance, parent) of all candidates if every node were like the average one.

    ``acceptance[d][r]``: the chance that the drafter's (r+1)-th child at depth d+1 is the
    target's token. Parents come before children; the root is (1.0, -1).
    """
    nodes = [(1.0, -1)]
    frontier = [0]
    for depth in range(levels + 1):
        ranks = acceptance[min(depth, len(acceptance) - 1)]
        children = [(nodes[node][0] * chance, node) for node in frontier for chance in ranks]
        first = len(nodes)
        nodes += children
        order = sorted(range(len(children)), key=lambda index: -children[index][0])
        frontier = [first + index for index in order[:width]]
    return nodes


def plan_shape(
    acceptance: Sequence[Sequence[float]],
    costs: CycleCosts,
    *,
    max_nodes: int,
    max_levels: int,
    max_width: int,
    num_con: int,
) -> TreePlan:
    """The shape of the highest expected rate for average nodes; the smallest of equals.

    ``num_con`` contemplate tokens are paid for in every shape (below 0: one a node).
    """
    verify_ms = [costs.verify.ms(rows_with(nodes, num_con)) for nodes in range(max_nodes + 1)]
    best: tuple[float, int, int, int, float] | None = None  # rate, and what gives it
    for width in range(1, max_width + 1):
        pool, frontier = [1.0], [1.0]
        for levels in range(max_levels + 1):
            ranks = acceptance[min(levels, len(acceptance) - 1)]
            children = sorted((c * rank for c in frontier for rank in ranks), reverse=True)
            pool = sorted(pool + children, reverse=True)[:max_nodes]
            frontier = children[:width]
            draft_ms = costs.draft_ms + levels * costs.level.ms(width)
            tokens = 0.0
            for num_nodes, chance in enumerate(pool, start=1):
                tokens += chance
                rate = tokens / (draft_ms + verify_ms[num_nodes])
                if best is None or rate > best[0]:
                    best = (rate, num_nodes, levels, width, tokens)
    assert best is not None
    rate, num_nodes, levels, width, tokens = best
    return TreePlan(
        num_nodes=num_nodes,
        levels=levels,
        top_k=width,
        num_con=num_con,
        tokens=tokens,
        ms=tokens / rate,
    )


def planned_con(
    acceptance: Sequence[Sequence[float]], plan: TreePlan, rows_ms: Sequence[float], worth: float
) -> int:
    """:func:`worthy_con` of the average tree that ``plan`` verifies."""
    nodes = mean_tree(acceptance, plan.top_k, plan.levels)
    order = sorted(range(len(nodes)), key=lambda node: -nodes[node][0])[: plan.num_nodes]
    place = {node: index for index, node in enumerate(order)}  # parents lead: no child is likelier
    chances = [nodes[node][0] for node in order]
    last = last_accepted(chances, [place.get(nodes[node][1], -1) for node in order])
    ranked = [last[0], *sorted(last[1:], reverse=True)]
    return worthy_con(ranked, plan.num_nodes, rows_ms, plan.rate, worth)
