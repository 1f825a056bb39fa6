"""The machine decides the tree: growth by measured cost and the run's own acceptance.

Where a look at the drafter's scores is free (the CPU), every level and every node is decided by
what it is likely to bring in this very cycle; elsewhere the shape is planned between cycles from
acceptance by depth, so that a cycle keeps its one copy to the host. Owns the estimates of one
run; the arithmetic is in :mod:`confu_demo.decoding.tree_plan`. All of it is our choice [O]. No
clock is read: the same costs, prompt and seed give the same trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from confu_demo.config import AUTO_BUDGET, DecodeConfig, TreeConfig
from confu_demo.decoding.calibration import PRIOR_SIBLINGS, Calibration, expected_tokens
from confu_demo.decoding.draft_tree import TokenTree
from confu_demo.decoding.growth import FixedGrowth, Growth, Pool
from confu_demo.decoding.host_pool import HostPool
from confu_demo.decoding.tree_plan import (
    FUTURE_WORTH,
    CycleCosts,
    TreePlan,
    best_count,
    plan_shape,
    planned_con,
    row_costs,
    rows_with,
    worthy_con,
    worthy_width,
)
from confu_demo.decoding.verification import HostTree
from confu_demo.trace import DraftPlan, MeasuredCosts

_PRIOR_CYCLES = 4.0  # cycles that the first plan's rate counts as
_PLAN_EVERY = 16  # cycles, where the shape is planned between cycles; sooner at the start


def make_growth(
    config: DecodeConfig,
    budget: int,
    costs: Callable[[], CycleCosts],
    *,
    may_look: bool,
    future_worth: float = FUTURE_WORTH,
) -> Growth:
    """``budget``: contemplate tokens of this method (0: it has none). ``costs`` is asked only
    where the machine decides. ``future_worth``: what a future prediction of its own adds to a
    cycle that would else inherit an ancestor's, as a part of the acceptance length."""
    if config.tree.mode == "fixed":
        return FixedGrowth(config.tree, budget, may_look=may_look)
    return AutoGrowth(config.tree, budget, costs(), may_look=may_look, future_worth=future_worth)


class AutoGrowth:
    """Satisfies :class:`confu_demo.decoding.growth.Growth`. ``limits`` bound every tree."""

    def __init__(
        self,
        limits: TreeConfig,
        budget: int,
        costs: CycleCosts,
        *,
        may_look: bool,
        future_worth: float = FUTURE_WORTH,
    ) -> None:
        self._costs, self._future_worth = costs, future_worth
        self._limits, self._budget, self.may_look = limits, budget, may_look
        most = limits.num_nodes
        self._rows_ms = costs.verify.table(2 * most)
        self._nodes_ms = [self._rows_ms[rows_with(n, self._reckoned_con)] for n in range(most + 1)]
        self._level_ms = costs.level.table(limits.top_k)
        self._row_ms = row_costs(self._rows_ms)
        self._calibration = Calibration(limits.depth + 1, min(limits.top_k, len(PRIOR_SIBLINGS)))
        self._plan = self._new_plan()
        self._tokens, self._ms = _PRIOR_CYCLES * self._plan.tokens, _PRIOR_CYCLES * self._plan.ms
        self._cycles = 0
        self._num_rows = rows_with(self._plan.num_nodes, self._reckoned_con)
        self._begin_cycle()

    @property
    def costs(self) -> MeasuredCosts:
        return self._costs.record()

    @property
    def _rate(self) -> float:
        """Tokens per millisecond so far, at measured costs."""
        return self._tokens / self._ms

    @property
    def _worth(self) -> float:
        """Tokens that a future prediction of its own adds to the next cycle."""
        cycles = _PRIOR_CYCLES + self._cycles
        return self._future_worth * self._tokens / cycles

    @property
    def _reckoned_con(self) -> int:
        """Contemplate tokens while the nodes are chosen: an open number counts as the root's."""
        return 1 if self._budget == AUTO_BUDGET else self._budget

    def weigh(self, log_probs: Tensor) -> Tensor:
        shift = self._shifts[self._depth]
        self._depth += 1
        return (log_probs + shift).clamp_(max=0.0) if shift > 0.0 else log_probs + shift

    def width(self, level: int, pool: Pool) -> int:
        if isinstance(pool, HostPool):
            frontier = [math.exp(score) for score in pool.frontier_scores]
            hit = self._hit_rates[level + 1]  # of the frontier's children
            row_ms = self._row_ms[self._num_rows]
            width = worthy_width(frontier, hit, self._rate, row_ms, self._level_ms)
        else:
            width = self._plan.top_k if level < self._plan.levels else 0
        if width:
            self._widths.append(width)
        return width

    def num_nodes(self, pool: Pool) -> int:
        if not isinstance(pool, HostPool):
            return self._plan.num_nodes
        chances = [math.exp(score) for score in pool.ranked_scores[: self._limits.num_nodes]]
        return best_count(chances, self._nodes_ms, self._rate, least=1)

    def num_con(self, tree: TokenTree) -> int:
        if self._budget != AUTO_BUDGET:
            self._num_con = self._budget
        elif self.may_look:
            shares = tree.last_accepted.tolist()
            last = [shares[0], *sorted(shares[1:], reverse=True)]
            num, rate = tree.num_nodes, self._rate
            self._num_con = worthy_con(last, num, self._rows_ms, rate, self._worth)
        else:
            self._num_con = min(self._plan.num_con, tree.num_nodes)
        return self._num_con

    def learn(self, tree: HostTree, accepted: tuple[int, ...]) -> DraftPlan:
        num_rows = rows_with(len(tree.parents), self._num_con)
        ms = self._costs.cycle_ms(self._widths, num_rows)
        plan = DraftPlan(
            expected_tokens=expected_tokens(tree.parents, tree.log_probs, self._factors),
            expected_ms=ms,
            levels=len(self._widths),
            tokens_per_ms=self._rate,
        )
        self._calibration.add(tree.parents, tree.log_probs, accepted)
        self._tokens += len(accepted) + 1
        self._ms += ms
        self._cycles += 1
        self._num_rows = num_rows
        is_due = self._cycles in (2, 4, 8) or self._cycles % _PLAN_EVERY == 0
        if is_due and not self.may_look:
            self._plan = self._new_plan()
        self._begin_cycle()
        return plan

    def _begin_cycle(self) -> None:
        self._depth, self._num_con = 0, 0
        self._widths: list[int] = []
        self._factors = self._calibration.factors()
        self._shifts = [math.log(factor) for factor in self._factors]
        self._hit_rates = self._calibration.hit_rates()

    def _new_plan(self) -> TreePlan:
        """For nodes of average acceptance; an open number of contemplate tokens as well."""
        acceptance = self._calibration.acceptance()
        plan = plan_shape(
            acceptance,
            self._costs,
            max_nodes=self._limits.num_nodes,
            max_levels=self._limits.depth,
            max_width=self._limits.top_k,
            num_con=self._reckoned_con,
        )
        if self._budget != AUTO_BUDGET:
            return plan
        worth = self._future_worth * plan.tokens
        return replace(plan, num_con=planned_con(acceptance, plan, self._rows_ms, worth))
