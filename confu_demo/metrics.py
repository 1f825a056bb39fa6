"""One definition of every number that the page, the command line and the benchmark print.

Pure: events in, numbers out; also of a run that is still going on, where a number means "so
far". A number that has no meaning yet, or not for this method, is None. Step numbers live in
:mod:`confu_demo.step_metrics`, router numbers in :mod:`confu_demo.router_metrics`, intervals in
:mod:`confu_demo.bench_statistics`; all of them can be imported from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confu_demo.bench_statistics import bootstrap_interval, median, quartiles, wilson_interval
from confu_demo.router_metrics import RouterUsage, entropy_bits, router_usage
from confu_demo.step_metrics import (
    Agreement,
    StepMetrics,
    StepTally,
    VerdictPair,
    confident_agreement,
    coverage,
    ratio,
    verdict_pairs,
)
from confu_demo.trace import (
    DraftProposed,
    DraftTree,
    DraftVerified,
    Event,
    FinishReason,
    Origin,
    PrefillFinished,
    RunFinished,
    RunStarted,
    StepDrafted,
    StepGated,
    StepJudged,
    TokensCommitted,
)

__all__ = [
    "Agreement",
    "DepthAcceptance",
    "RouterUsage",
    "RunMetrics",
    "RunTally",
    "StepMetrics",
    "VerdictPair",
    "bootstrap_interval",
    "confident_agreement",
    "coverage",
    "entropy_bits",
    "first_divergence",
    "identical_text",
    "median",
    "quartiles",
    "router_usage",
    "speedup",
    "summary",
    "verdict_pairs",
    "wilson_interval",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthAcceptance:
    """Of the cycles that accepted depth - 1 and whose tree had a node at ``depth``: how many
    accepted a node there."""

    depth: int
    accepted: int
    reached: int

    @property
    def rate(self) -> float:
        return self.accepted / self.reached


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetrics:
    """The numbers of one run.

    * ``num_tokens`` committed tokens; ``text`` what they say; ``origin_counts`` who made them.
    * ``total_ms`` the run's clock at its last event; ``decode_ms`` the same without the prefill.
    * ``tokens_per_s`` committed tokens / decode time; None before the second token, because the
      first is the prefill's, whose time is not counted.
    * ``num_cycles`` draft-verify rounds that committed; ``acceptance_length`` the mean number of
      tokens that a cycle committed, which is accepted draft tokens + 1, or less for a last cycle
      cut by EOS or the length limit. The token from the prefill belongs to no cycle.
    * ``verified_per_committed`` tokens in verify forwards (contemplate tokens included) / tokens
      that those cycles committed; ``num_contemplate_tokens`` how many were contemplate tokens.
    * ``target_forwards`` and ``target_tokens`` model calls and the tokens in them, without the
      prefill; ``draft_forwards`` the same of the drafter. None until the run has finished.
    * ``draft_ms + verify_ms + other_ms = decode_ms``. Of a running run: the sums of its events,
      and the rest.
    * ``steps`` is None for methods without reasoning steps.
    """

    method: str
    finish_reason: FinishReason | None
    text: str
    token_ids: tuple[int, ...]
    origin_counts: Mapping[Origin, int]
    num_tokens: int
    total_ms: float
    prefill_ms: float
    decode_ms: float
    tokens_per_s: float | None
    num_cycles: int
    acceptance_length: float | None
    acceptance_by_depth: tuple[DepthAcceptance, ...]
    verified_per_committed: float | None
    num_contemplate_tokens: int
    target_forwards: int | None
    target_tokens: int | None
    draft_forwards: int | None
    draft_ms: float
    verify_ms: float
    other_ms: float
    steps: StepMetrics | None


class RunTally:
    """Adds up one run event by event; ``metrics`` may be asked for after any of them."""

    def __init__(self) -> None:
        self._method = ""
        self._finished: RunFinished | None = None
        self._t_ms = self._prefill_ms = self._draft_ms = self._verify_ms = 0.0
        self._token_ids: list[int] = []
        self._texts: list[str] = []
        self._origins: Counter[Origin] = Counter()
        self._tree: DraftTree | None = None
        self._verified: DraftVerified | None = None
        self._cycles = self._cycle_tokens = self._verified_tokens = self._contemplate_tokens = 0
        self._accepted: Counter[int] = Counter()
        self._reached: Counter[int] = Counter()
        self._steps = StepTally()

    def add(self, event: Event) -> None:
        self._t_ms = max(self._t_ms, event.t_ms)
        self._steps.add(event)
        if isinstance(event, RunStarted):
            self._method = event.method
        elif isinstance(event, PrefillFinished):
            self._prefill_ms += event.ms
        elif isinstance(event, DraftProposed):
            self._tree = event.tree
            self._draft_ms += event.ms
        elif isinstance(event, DraftVerified):
            self._verified = event
            self._verify_ms += event.ms
        elif isinstance(event, (StepDrafted, StepGated, StepJudged)):
            self._add_step_time(event)
        elif isinstance(event, TokensCommitted):
            self._add_committed(event)
        elif isinstance(event, RunFinished):
            self._finished = event

    def _add_step_time(self, event: StepDrafted | StepGated | StepJudged) -> None:
        if isinstance(event, StepJudged):
            self._verify_ms += 0.0 if event.audit else event.ms
        elif _is_targets_work(event):
            self._verify_ms += event.ms
        else:
            self._draft_ms += event.ms

    def _add_committed(self, event: TokensCommitted) -> None:
        self._token_ids.extend(event.token_ids)
        self._texts.extend(event.texts)
        self._origins.update(event.origins)
        verified = self._verified
        if event.cycle is None or verified is None or verified.cycle != event.cycle:
            return
        self._cycles += 1
        self._cycle_tokens += len(event.token_ids)
        self._verified_tokens += verified.num_target_tokens
        self._contemplate_tokens += verified.num_contemplate_tokens
        if self._tree is not None:
            self._add_depths(self._tree, len(verified.accepted))
        self._verified = None

    def _add_depths(self, tree: DraftTree, num_accepted: int) -> None:
        for depth in range(1, min(num_accepted + 1, _height(tree)) + 1):
            self._reached[depth] += 1
            self._accepted[depth] += depth <= num_accepted

    def metrics(self) -> RunMetrics:
        done = self._finished
        num_tokens = len(self._token_ids)
        prefill_ms = done.prefill_ms if done else self._prefill_ms
        decode_ms = max(0.0, self._t_ms - prefill_ms)
        draft_ms = done.draft_ms if done else self._draft_ms
        verify_ms = done.verify_ms if done else self._verify_ms
        return RunMetrics(
            method=self._method,
            finish_reason=done.reason if done else None,
            text="".join(self._texts),
            token_ids=tuple(self._token_ids),
            origin_counts=dict(self._origins),
            num_tokens=num_tokens,
            total_ms=self._t_ms,
            prefill_ms=prefill_ms,
            decode_ms=decode_ms,
            tokens_per_s=ratio(1000.0 * num_tokens, decode_ms) if num_tokens > 1 else None,
            num_cycles=self._cycles,
            acceptance_length=ratio(self._cycle_tokens, self._cycles),
            acceptance_by_depth=tuple(
                DepthAcceptance(depth=depth, accepted=self._accepted[depth], reached=reached)
                for depth, reached in sorted(self._reached.items())
            ),
            verified_per_committed=ratio(self._verified_tokens, self._cycle_tokens),
            num_contemplate_tokens=self._contemplate_tokens,
            target_forwards=done.target_forwards if done else None,
            target_tokens=done.target_tokens if done else None,
            draft_forwards=done.draft_forwards if done else None,
            draft_ms=draft_ms,
            verify_ms=verify_ms,
            other_ms=done.other_ms if done else max(0.0, decode_ms - draft_ms - verify_ms),
            steps=self._steps.result(),
        )


def summary(events: Iterable[Event]) -> RunMetrics:
    """The numbers of a run or of its beginning."""
    tally = RunTally()
    for event in events:
        tally.add(event)
    return tally.metrics()


def speedup(lane: RunMetrics, baseline: RunMetrics) -> float | None:
    """How many times as fast as the baseline a lane commits tokens, prefill excluded.

    Per committed token, so that a lane whose answer is shorter gains nothing by it.
    """
    if lane.tokens_per_s is None or baseline.tokens_per_s is None:
        return None
    return ratio(lane.tokens_per_s, baseline.tokens_per_s)


def identical_text(lane: RunMetrics, baseline: RunMetrics) -> bool | None:
    """Whether two runs said the same; None unless both ended by EOS or the length limit."""
    ended = ("eos", "length")
    if lane.finish_reason not in ended or baseline.finish_reason not in ended:
        return None
    return lane.text == baseline.text


def first_divergence(lane: RunMetrics, baseline: RunMetrics) -> int | None:
    """The index of the first committed token that differs; None if one run continues the other."""
    pairs = zip(lane.token_ids, baseline.token_ids, strict=False)
    return next((index for index, (ours, theirs) in enumerate(pairs) if ours != theirs), None)


def _is_targets_work(event: StepDrafted | StepGated) -> bool:
    """The target writes steps, and with a score it looked at one; else the draft model judged."""
    if isinstance(event, StepDrafted):
        return event.author == "target"
    return event.score is not None


def _height(tree: DraftTree) -> int:
    """The depth of the deepest node; 0 for a root alone."""
    depths: list[int] = []
    for parent in tree.parents:
        known = 0 <= parent < len(depths)  # a stranger's recording may hold anything
        depths.append(depths[parent] + 1 if known else 0)
    return max(depths, default=0)
