"""Who decides how far a draft tree grows: the interface, and the fixed shape of the paper.

The drafter asks before every level how many nodes to expand, and at the end how many candidates
become the tree; the decoder asks how many nodes get a contemplate token and tells what became of
the tree. A decision never changes what is committed, only how fast. The machine's own decisions
are in :mod:`confu_demo.decoding.auto_growth`.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from confu_demo.config import TreeConfig
from confu_demo.decoding.draft_tree import CandidatePool, TokenTree
from confu_demo.decoding.host_pool import HostPool
from confu_demo.decoding.verification import HostTree
from confu_demo.trace import DraftPlan, MeasuredCosts

Pool = CandidatePool | HostPool


class Growth(Protocol):
    """One run's decisions about its trees."""

    @property
    def costs(self) -> MeasuredCosts | None:
        """What the decisions rest on; None where there is nothing to decide."""
        ...

    @property
    def may_look(self) -> bool:
        """Whether Python may read scores while a tree grows. Then ``width`` and ``num_nodes`` get
        a HostPool, else a CandidatePool, at which they must not look."""
        ...

    def weigh(self, log_probs: Tensor) -> Tensor:
        """The drafter's log-probabilities -> log-probabilities of acceptance, none above 0."""
        ...

    def width(self, level: int, pool: Pool) -> int:
        """How many of the frontier's nodes level ``level`` (from 0) expands; 0 ends growing."""
        ...

    def num_nodes(self, pool: Pool) -> int:
        """How many candidates are verified, root included."""
        ...

    def num_con(self, tree: TokenTree) -> int:
        """How many nodes of the tree get a contemplate token; -1: all of them."""
        ...

    def learn(self, tree: HostTree, accepted: tuple[int, ...]) -> DraftPlan | None:
        """Takes what the target accepted of the tree; what had been expected of it, if that is
        known."""
        ...


class FixedGrowth:
    """EAGLE-3's fixed shape [E], and a fixed budget of contemplate tokens (-1: the paper)."""

    def __init__(self, tree: TreeConfig, budget: int = -1, *, may_look: bool = True) -> None:
        """``may_look``: growing may end early where no child can enter the tree any more, at
        the price of a copy to the host."""
        self._tree, self._budget, self.may_look = tree, budget, may_look

    @property
    def costs(self) -> MeasuredCosts | None:
        return None

    def weigh(self, log_probs: Tensor) -> Tensor:
        return log_probs

    def width(self, level: int, pool: Pool) -> int:
        is_enough = isinstance(pool, HostPool) and pool.is_settled(self._tree.num_nodes)
        return 0 if is_enough else self._tree.top_k

    def num_nodes(self, pool: Pool) -> int:
        return self._tree.num_nodes

    def num_con(self, tree: TokenTree) -> int:
        return self._budget

    def learn(self, tree: HostTree, accepted: tuple[int, ...]) -> DraftPlan | None:
        return None
