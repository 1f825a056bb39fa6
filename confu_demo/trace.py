"""The events of a decoding run: the only thing that views, metrics and recordings read.

A decoder is an iterator of these records; a recording is the same records in a file. Records
are frozen and hold only int, float, str, bool, None, tuples and other such records, so that a
trace can be pickled across processes, written as JSON and drawn by the page. ``t_ms`` counts
milliseconds on the run's own clock (it stands still while other lanes of a race compute).

This module knows neither torch nor files (see :mod:`confu_demo.trace_io`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SCHEMA_VERSION = 3
READABLE_VERSIONS = (1, 2, 3)
"""Later versions only added: 2 measured costs, plans and contemplated nodes, 3 SpecReason's score
and the plans of rounds of steps."""

Origin = Literal["draft", "recovered", "bonus", "target"]
"""Who a committed token comes from: an accepted draft token, the target's token after a
rejection, the target's token after a fully accepted path, or the target alone."""
FinishReason = Literal["eos", "length", "cancelled", "error"]
Verdict = Literal["same", "different"]
Decision = Literal["accept", "reject", "escalate"]
Author = Literal["draft", "target"]
MAX_SCORE = 9
"""The best of SpecReason's scores; the worst is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """One model of the run. ``role`` is target, draft_model, head or judge."""

    role: str
    name: str
    sha256: str
    num_parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a number comes from: the machine, the versions, the commit and the command."""

    commit: str
    device: str
    dtype: str
    threads: int
    versions: tuple[tuple[str, str], ...]
    command: str
    created: str  # ISO 8601, UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts:
    """What the machine was measured to need, in milliseconds; from it trees are chosen.

    ``verify`` is (tokens, ms) of a target forward after 200 cached ones, ``draft_ms`` the
    drafter's part of a cycle before its first level, ``level`` (expanded nodes, ms) of a level.
    """

    verify: tuple[tuple[int, float], ...]
    draft_ms: float
    level: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    t_ms: float
    schema_version: int
    method: str
    config: tuple[tuple[str, str], ...]  # flattened settings, for display
    models: tuple[ModelInfo, ...]
    prompt_token_ids: tuple[int, ...]
    prompt_text: str
    seed: int
    provenance: Provenance | None = None
    costs: MeasuredCosts | None = None  # where the machine decides the tree


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillFinished:
    t_ms: float
    num_tokens: int
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTree:
    """A draft tree of N nodes; node 0 is the last committed token, a chain is a tree.

    ``parents[0]`` is -1; every other parent precedes its child. ``log_probs[i]`` is the
    drafter's log-probability of node i given its parent (0.0 for the root); ``texts[i]`` is
    the text that node i adds after its parent's path (byte fragments may be empty).
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]
    log_probs: tuple[float, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenToken:
    """A token that a contemplate token points to, read through the target's own output head."""

    token_id: int
    text: str
    prob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contemplation:
    """ConFu's part of a draft: how f was made, and what it foresees.

    Router weights are dense, one per expert (zero where an expert was not chosen).
    ``source`` is where f came from: ``prefill`` (after the prompt), ``node`` (the contemplate
    token of the last accepted node, ``source_node`` in the previous cycle's tree) or ``off``.
    ``logit_weights``: times these, what f foresees went into the draft's logits at depth 1, 2, ...
    """

    con_router: tuple[float, ...]  # the [con] mixture that produced this f
    future_router: tuple[float, ...]  # the [f] mixture of this draft
    source: Literal["prefill", "node", "off"]
    source_node: int | None
    foreseen: tuple[ForeseenToken, ...]
    logit_weights: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPlan:
    """What the machine expected of a tree that it chose, by its measured costs.

    ``expected_tokens`` is accepted draft tokens + 1; ``expected_ms`` the cost of the whole cycle;
    ``levels`` how many levels the drafter grew below the root's children; ``tokens_per_ms`` the
    rate that every further node had to be worth.
    """

    expected_tokens: float
    expected_ms: float
    levels: int
    tokens_per_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftProposed:
    t_ms: float
    cycle: int
    tree: DraftTree
    ms: float
    contemplation: Contemplation | None = None
    plan: DraftPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftVerified:
    """The target's answer to a draft tree.

    ``accepted`` lists accepted node indices from the root's child downwards (root excluded).
    ``target_probs[i]`` is the target's probability of node i given its parent's path (1.0 for
    the root). ``token_id`` is the target's own token that ends the cycle. ``num_target_tokens``
    counts every token of the verify forward, contemplate tokens included.
    ``contemplated_nodes`` are the nodes that had a contemplate token, increasing; None in
    recordings of schema version 1, which did not say.
    """

    t_ms: float
    cycle: int
    accepted: tuple[int, ...]
    target_probs: tuple[float, ...]
    token_id: int
    token_text: str
    token_origin: Literal["recovered", "bonus"]
    num_target_tokens: int
    num_contemplate_tokens: int
    ms: float
    contemplated_nodes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlanned:
    """How many steps the machine will draft ahead from ``step`` on, and why.

    ``acceptance`` is the run's so far, drawn towards a prior; the round should bring
    ``expected_tokens`` in ``expected_ms``, for which plain decoding needs ``plain_ms``.
    ``fell_back``: nothing is drafted any more, because no number of steps was worth it.
    """

    t_ms: float
    step: int
    draft_steps: int
    acceptance: float
    expected_tokens: float
    expected_ms: float
    plain_ms: float
    fell_back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDrafted:
    """A reasoning step written by ``author``. ``complete`` is False when it was cut by the
    step cap or the budget: such a step is rejected without being judged."""

    t_ms: float
    step: int
    author: Author
    text: str
    token_ids: tuple[int, ...]
    complete: bool
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGated:
    """The draft model's verdict about draft step against target step, and the gate's decision.

    ``confidence`` is the probability of the verdict over the two verdict tokens,
    ``verdict_mass`` the un-renormalised probability of both. ``exact_match`` steps and
    incomplete ones skip the judge: then verdict_mass is None.

    With a ``score`` (SpecReason) it is the target that looked, at the draft step alone:
    ``confidence`` and ``threshold`` are its score and the least that passes, both over 9,
    verdict_mass is None, nothing is escalated, and the target writes a step only after a reject.
    """

    t_ms: float
    step: int
    verdict: Verdict
    confidence: float
    verdict_mass: float | None
    threshold: float
    decision: Decision
    exact_match: bool
    ms: float
    score: int | None = None  # 0 to 9; 0 without asking for an unfinished step


@dataclass(frozen=True, slots=True, kw_only=True)
class StepJudged:
    """The target's verdict; ``audit`` marks verdicts asked for off the clock, to check the gate."""

    t_ms: float
    step: int
    verdict: Verdict
    confidence: float
    audit: bool
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResolved:
    """Whose text was kept for a step. ``bonus``: the target's extra step after k accepts."""

    t_ms: float
    step: int
    kept: Author
    text: str
    other_text: str | None
    bonus: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensCommitted:
    """The only event that grows the output. ``texts[i]`` is what token i adds to the text."""

    t_ms: float
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    texts: tuple[str, ...]
    cycle: int | None = None
    step: int | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """``*_forwards`` count model calls, ``*_tokens`` the tokens computed in them, both without
    the prefill.

    draft_ms + verify_ms + other_ms = t_ms - prefill_ms.
    """

    t_ms: float
    reason: FinishReason
    message: str
    num_tokens: int
    target_forwards: int
    target_tokens: int
    draft_forwards: int
    prefill_ms: float
    draft_ms: float
    verify_ms: float
    other_ms: float


Event = (
    RunStarted
    | PrefillFinished
    | DraftProposed
    | DraftVerified
    | RoundPlanned
    | StepDrafted
    | StepGated
    | StepJudged
    | StepResolved
    | TokensCommitted
    | RunFinished
)
