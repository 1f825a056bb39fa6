"""Two hand-made runs, small enough to recompute every number on paper.

``token_run`` is a ConFu run of three cycles (a fully accepted path, a rejection, a last cycle
cut by EOS); ``step_run`` a ConfSpec run of three rounds. Their times are round numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from confu_demo.trace import (
    SCHEMA_VERSION,
    Author,
    Contemplation,
    Decision,
    DraftProposed,
    DraftTree,
    DraftVerified,
    Event,
    ForeseenToken,
    ModelInfo,
    Origin,
    PrefillFinished,
    RunFinished,
    RunStarted,
    StepDrafted,
    StepGated,
    StepJudged,
    StepResolved,
    TokensCommitted,
    Verdict,
)


def changed(events: Sequence[Event], index: int, **changes: Any) -> list[Event]:
    """A copy with some fields of one event replaced."""
    return [
        replace(event, **changes) if place == index else event for place, event in enumerate(events)
    ]


def without(events: Sequence[Event], index: int) -> list[Event]:
    return [event for place, event in enumerate(events) if place != index]


def started(method: str, **config: str) -> RunStarted:
    return RunStarted(
        t_ms=0.0,
        schema_version=SCHEMA_VERSION,
        method=method,
        config=tuple(config.items()),
        models=(ModelInfo(role="target", name="tiny", sha256="ab" * 32, num_parameters=1000),),
        prompt_token_ids=(1, 2, 3),
        prompt_text="How many?",
        seed=0,
    )


def committed(
    t_ms: float, token_ids: tuple[int, ...], origins: tuple[Origin, ...], **place: int
) -> TokensCommitted:
    texts = tuple(f" t{token}" for token in token_ids)
    return TokensCommitted(t_ms=t_ms, token_ids=token_ids, origins=origins, texts=texts, **place)


def proposed(
    t_ms: float,
    cycle: int,
    token_ids: tuple[int, ...],
    parents: tuple[int, ...],
    contemplation: Contemplation | None = None,
) -> DraftProposed:
    tree = DraftTree(
        token_ids=token_ids,
        parents=parents,
        log_probs=(0.0,) + (-0.5,) * (len(token_ids) - 1),
        texts=tuple(f" t{token}" for token in token_ids),
    )
    return DraftProposed(t_ms=t_ms, cycle=cycle, tree=tree, ms=1.5, contemplation=contemplation)


def verified(
    t_ms: float,
    cycle: int,
    num_nodes: int,
    accepted: tuple[int, ...],
    token_id: int,
    origin: Any,
    contemplated: tuple[int, ...] = (),
) -> DraftVerified:
    return DraftVerified(
        t_ms=t_ms,
        cycle=cycle,
        accepted=accepted,
        target_probs=(1.0,) + (0.5,) * (num_nodes - 1),
        token_id=token_id,
        token_text=f" t{token_id}",
        token_origin=origin,
        num_target_tokens=num_nodes + len(contemplated),
        num_contemplate_tokens=len(contemplated),
        ms=4.0,
        contemplated_nodes=contemplated,
    )


def token_run() -> list[Event]:
    first = Contemplation(
        con_router=(0.75, 0.25, 0.0, 0.0),
        future_router=(0.5, 0.0, 0.5, 0.0),
        source="prefill",
        source_node=None,
        foreseen=(ForeseenToken(token_id=13, text=" t13", prob=0.4),),
    )
    second = replace(first, con_router=(0.25, 0.0, 0.75, 0.0), source="node", source_node=3)
    return [
        started("confu", max_new_tokens="8"),
        PrefillFinished(t_ms=10.0, num_tokens=3, ms=10.0),
        committed(10.5, (10,), ("target",)),
        # 3: the tree 10 -> (11 -> 13, 12); the path 11, 13 ends in a leaf
        proposed(12.0, 0, (10, 11, 12, 13), (-1, 0, 0, 1), first),
        verified(16.0, 0, 4, (1, 3), 14, "bonus", contemplated=(0, 1, 2, 3)),
        committed(16.5, (11, 13, 14), ("draft", "draft", "bonus"), cycle=0),
        # 6: a chain of which the second node is wrong
        proposed(18.0, 1, (14, 15, 16), (-1, 0, 1), second),
        verified(22.0, 1, 3, (1,), 17, "recovered", contemplated=(0, 1, 2)),
        committed(22.5, (15, 17), ("draft", "recovered"), cycle=1),
        # 9: the accepted token 19 is the end of the text
        proposed(24.0, 2, (17, 18, 19), (-1, 0, 0)),
        verified(28.0, 2, 3, (2,), 20, "bonus"),
        committed(28.5, (19,), ("draft",), cycle=2),
        RunFinished(
            t_ms=30.0,
            reason="eos",
            message="",
            num_tokens=7,
            target_forwards=3,
            target_tokens=17,
            draft_forwards=9,
            prefill_ms=10.0,
            draft_ms=4.5,
            verify_ms=12.0,
            other_ms=3.5,
        ),
    ]


class StepClock:
    """Builds the events of steps, one millisecond apart."""

    def __init__(self) -> None:
        self.t_ms = 10.0

    def tick(self) -> float:
        self.t_ms += 1.0
        return self.t_ms

    def drafted(self, author: Author, step: int, complete: bool = True) -> StepDrafted:
        first = 10 * step + (1 if author == "draft" else 5)
        return StepDrafted(
            t_ms=self.tick(),
            step=step,
            author=author,
            text=f"{author} {step}.",
            token_ids=(first, first + 1),
            complete=complete,
            ms=1.0,
        )

    def gated(
        self, step: int, decision: Decision, verdict: Verdict, confidence: float, **more: Any
    ) -> StepGated:
        fields: dict[str, Any] = {"verdict_mass": 0.9, "exact_match": False, **more}
        return StepGated(
            t_ms=self.tick(),
            step=step,
            verdict=verdict,
            confidence=confidence,
            threshold=0.9,
            decision=decision,
            ms=0.5,
            **fields,
        )

    def judged(self, step: int, verdict: Verdict, audit: bool = False) -> StepJudged:
        return StepJudged(
            t_ms=self.tick(), step=step, verdict=verdict, confidence=0.8, audit=audit, ms=2.0
        )

    def kept(self, author: Author, step: int, bonus: bool = False) -> list[Event]:
        drafted = self.drafted(author, step)
        resolved = StepResolved(
            t_ms=self.tick(),
            step=step,
            kept=author,
            text=drafted.text,
            other_text=None,
            bonus=bonus,
        )
        origin: Origin = "draft" if author == "draft" else "target"
        return [resolved, committed(self.tick(), drafted.token_ids, (origin, origin), step=step)]


def step_run() -> list[Event]:
    clock = StepClock()
    unjudged = {"verdict_mass": None}
    events: list[Event] = [
        started("confspec", **{"max_new_tokens": "20", "confspec.min_verdict_mass": "0.5"}),
        PrefillFinished(t_ms=10.0, num_tokens=3, ms=10.0),
        # 2: round 1, all three draft steps are kept
        *(clock.drafted("draft", step) for step in (0, 1, 2)),
        *(clock.drafted("target", step) for step in (0, 1, 2, 3)),
        clock.gated(0, "accept", "same", 1.0, exact_match=True, **unjudged),  # 9
        clock.gated(1, "escalate", "different", 0.6),
        clock.gated(2, "accept", "same", 0.95),
        clock.judged(1, "same"),  # 12
        clock.judged(2, "same", audit=True),
        *clock.kept("draft", 0),  # 14, 15
        *clock.kept("draft", 1),
        *clock.kept("draft", 2),
        *clock.kept("target", 3, bonus=True),  # 20, 21
        # 22: round 2, the target's judge rejects step 4; step 5 is dropped
        *(clock.drafted("draft", step) for step in (4, 5)),
        *(clock.drafted("target", step) for step in (4, 5, 6)),
        clock.gated(4, "escalate", "same", 0.7),  # 27
        clock.gated(5, "reject", "different", 0.97),
        clock.judged(4, "different"),  # 29
        clock.judged(5, "same", audit=True),
        *clock.kept("target", 4),  # 31, 32
        # 33: round 3, the draft's step 6 is unfinished
        clock.drafted("draft", 5),
        clock.drafted("draft", 6, complete=False),
        *(clock.drafted("target", step) for step in (5, 6, 7)),
        clock.gated(5, "accept", "same", 0.92),  # 38
        clock.gated(6, "reject", "different", 1.0, **unjudged),
        *clock.kept("draft", 5),  # 40, 41
        *clock.kept("target", 6),  # 42, 43
    ]
    return [
        *events,
        RunFinished(
            t_ms=100.0,
            reason="eos",
            message="",
            num_tokens=14,
            target_forwards=12,
            target_tokens=40,
            draft_forwards=20,
            prefill_ms=10.0,
            draft_ms=30.0,
            verify_ms=40.0,
            other_ms=20.0,
        ),
    ]
