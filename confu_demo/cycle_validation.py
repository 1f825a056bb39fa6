"""The promises of draft trees, their verification and what a cycle commits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from confu_demo.findings import Findings
from confu_demo.trace import (
    Contemplation,
    DraftPlan,
    DraftProposed,
    DraftTree,
    DraftVerified,
    Origin,
    RunFinished,
    TokensCommitted,
)

PROB_TOLERANCE = 1e-3
"""Float32 softmax sums and log-probabilities may overshoot by a little."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """What the cycle that was verified last has to commit, unless the run ends within it."""

    cycle: int
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]


class CycleCheck:
    """Follows one run's cycles: proposed, verified, committed, one after the other."""

    def __init__(self, findings: Findings, config: Mapping[str, str]) -> None:
        self._expect = findings.expect
        self._shuffled = config.get("confu.future") == "shuffled"
        self._proposed: DraftProposed | None = None
        self._expected: _Expected | None = None
        self._last_cycle: int | None = None
        self._last_token: int | None = None
        self._last_num_nodes = 0
        self._cut = False
        self._missed = False  # the target's token had been drafted just there

    def propose(self, event: DraftProposed) -> None:
        self._check_no_open_cycle()
        self._expect(
            self._last_cycle is None or event.cycle > self._last_cycle,
            f"cycle {event.cycle} comes after cycle {self._last_cycle}",
        )
        self._check_tree(event.tree)
        if event.contemplation is not None:
            self._check_contemplation(event.contemplation)
        if event.plan is not None:
            self._check_plan(event.plan, len(event.tree.token_ids))
        self._proposed = event
        self._last_cycle = event.cycle
        self._last_num_nodes = len(event.tree.token_ids)

    def verify(self, event: DraftVerified) -> None:
        proposed, self._proposed = self._proposed, None
        if proposed is None or proposed.cycle != event.cycle:
            self._expect(False, f"cycle {event.cycle} is verified without its draft before it")
            return
        tree = proposed.tree
        num_nodes = len(tree.token_ids)
        probs = event.target_probs
        self._expect(
            len(probs) == num_nodes, f"{len(probs)} target_probs for {num_nodes} tree nodes"
        )
        self._expect(
            all(0.0 <= prob <= 1.0 + PROB_TOLERANCE for prob in probs),
            "a target probability is not between 0 and 1",
        )
        self._expect(
            event.num_target_tokens >= num_nodes + event.num_contemplate_tokens,
            f"num_target_tokens is {event.num_target_tokens} for {num_nodes} nodes and "
            f"{event.num_contemplate_tokens} contemplate tokens",
        )
        self._check_contemplated(event, num_nodes)
        if self._check_path(tree, event):
            path_ids = tuple(tree.token_ids[node] for node in event.accepted)
            draft: Origin = "draft"
            self._expected = _Expected(
                cycle=event.cycle,
                token_ids=(*path_ids, event.token_id),
                origins=(*(draft for _ in path_ids), event.token_origin),
            )

    def commit(self, event: TokensCommitted) -> None:
        expected, self._expected = self._expected, None
        if expected is None or expected.cycle != event.cycle:
            self._expect(False, f"cycle {event.cycle} commits without being verified before")
            return
        count = len(event.token_ids)
        self._expect(
            event.token_ids == expected.token_ids[:count],
            "the tokens are not the accepted path and the target's token",
        )
        self._expect(
            event.origins == expected.origins[:count],
            f"the origins are not {', '.join(expected.origins[:count])}",
        )
        self._cut = count < len(expected.token_ids)

    def note_tokens(self, event: TokensCommitted) -> None:
        """Every commit, also of steps and of the prefill: the next root is its last token."""
        if event.token_ids:
            self._last_token = event.token_ids[-1]

    def finish(self, event: RunFinished) -> None:
        if event.reason in ("eos", "length"):
            self._check_no_open_cycle(finishing=True)
        else:
            self._expect(not self._cut, "a cycle committed only a part, without EOS or limit")

    def _check_no_open_cycle(self, finishing: bool = False) -> None:
        self._expect(self._proposed is None, "the draft before it was never verified")
        self._expect(self._expected is None, "the cycle before it never committed")
        if not finishing:
            self._expect(not self._cut, "a cycle committed only a part, and the run went on")
            # A last cycle may stop short of a drafted EOS or of a token beyond the limit.
            self._expect(not self._missed, "the cycle before it rejected a node that was right")
        self._expected = None
        self._cut = self._missed = False

    def _check_tree(self, tree: DraftTree) -> None:
        lengths = {len(tree.token_ids), len(tree.parents), len(tree.log_probs), len(tree.texts)}
        self._expect(len(lengths) == 1, "token_ids, parents, log_probs and texts differ in length")
        if not tree.token_ids or not tree.parents:
            self._expect(False, "the tree has no root")
            return
        self._expect(tree.parents[0] == -1, f"the root's parent is {tree.parents[0]}, not -1")
        for node, parent in enumerate(tree.parents[1:], start=1):
            self._expect(0 <= parent < node, f"node {node} has parent {parent}, not an earlier one")
        self._expect(
            all(math.isfinite(value) and value <= PROB_TOLERANCE for value in tree.log_probs),
            "a log-probability is above 0 or not finite",
        )
        self._expect(
            self._last_token is None or tree.token_ids[0] == self._last_token,
            f"the root is token {tree.token_ids[0]}, committed last was {self._last_token}",
        )

    def _check_contemplation(self, event: Contemplation) -> None:
        for name, weights in (("con", event.con_router), ("future", event.future_router)):
            fits = all(weight >= 0 for weight in weights) and sum(weights) <= 1 + PROB_TOLERANCE
            self._expect(fits, f"the {name} router's weights are negative or sum to more than 1")
        self._expect(
            (event.source == "node") == (event.source_node is not None),
            f"source {event.source} with source_node {event.source_node}",
        )
        if event.source_node is not None and not self._shuffled:
            self._expect(
                0 <= event.source_node < self._last_num_nodes,
                f"source_node {event.source_node} is not in the tree before",
            )
        self._expect(
            all(0.0 <= token.prob <= 1.0 + PROB_TOLERANCE for token in event.foreseen),
            "a foreseen token's probability is not between 0 and 1",
        )
        self._expect(
            all(math.isfinite(weight) for weight in event.logit_weights),
            "a weight of what f foresees is not finite",
        )

    def _check_contemplated(self, event: DraftVerified, num_nodes: int) -> None:
        nodes, count = event.contemplated_nodes, event.num_contemplate_tokens
        if nodes is None:  # recordings of schema version 1
            return
        self._expect(
            len(nodes) == count, f"{len(nodes)} contemplated nodes for {count} contemplate tokens"
        )
        increasing = all(a < b for a, b in pairwise(nodes))
        self._expect(
            increasing and all(0 <= node < num_nodes for node in nodes),
            f"contemplated nodes {nodes} are not increasing nodes of a tree of {num_nodes}",
        )

    def _check_plan(self, plan: DraftPlan, num_nodes: int) -> None:
        expected = plan.expected_tokens
        self._expect(
            1.0 - PROB_TOLERANCE <= expected <= num_nodes + PROB_TOLERANCE,
            f"the plan expects {expected} tokens of {num_nodes} nodes",
        )
        numbers = (plan.expected_ms, plan.tokens_per_ms)
        self._expect(
            all(math.isfinite(number) and number > 0.0 for number in numbers),
            "the plan's milliseconds or rate are not above 0",
        )
        self._expect(plan.levels >= 0, f"the plan has {plan.levels} levels")

    def _check_path(self, tree: DraftTree, event: DraftVerified) -> bool:
        """Whether the accepted nodes are a path from the root, so that more can be checked."""
        end = 0
        for node in event.accepted:
            fits = 0 < node < min(len(tree.parents), len(tree.token_ids))
            if not fits or tree.parents[node] != end:
                self._expect(False, f"accepted node {node} is not a child of node {end}")
                return False
            end = node
        parents = tree.parents[: len(tree.token_ids)]
        children = [node for node, parent in enumerate(parents) if parent == end]
        if event.accepted or children:
            # Nothing was drafted below a lone root: neither word fits better there.
            origin = "recovered" if children else "bonus"
            self._expect(
                event.token_origin == origin,
                f"the target's token is {event.token_origin}, after this path it is {origin}",
            )
        self._missed = any(tree.token_ids[child] == event.token_id for child in children)
        return True
