from __future__ import annotations

from collections.abc import Sequence

from confu_demo.foresight_metrics import NEAR, Foresight, foresight
from confu_demo.trace import Contemplation, Event, ForeseenToken
from tests.traces import committed, proposed, step_run, token_run

LONG = tuple(range(100, 100 + NEAR))
"""Tokens of a cycle that is long enough for everything after it to be elsewhere."""


def thought(*token_ids: int) -> Contemplation:
    return Contemplation(
        con_router=(1.0,),
        future_router=(1.0,),
        source="prefill",
        source_node=None,
        foreseen=tuple(ForeseenToken(token_id=t, text="", prob=0.4) for t in token_ids),
    )


def run_of(*cycles: tuple[int, Sequence[int]]) -> list[Event]:
    """Cycles as (likeliest foreseen token, committed tokens); without an end."""
    events: list[Event] = []
    for cycle, (foreseen, token_ids) in enumerate(cycles):
        events.append(proposed(0.0, cycle, (0,), (-1,), thought(foreseen, 999)))
        origins = tuple("draft" for _ in token_ids)
        events.append(committed(0.0, tuple(token_ids), origins, cycle=cycle))  # type: ignore[arg-type]
    return events


def test_a_cycle_counts_when_the_tokens_after_it_are_known_or_the_run_is_over():
    events = run_of((5, (1, 2, 5)))
    assert foresight(events) == Foresight(num_cycles=0, num_true=0, chance=None)
    ended = [*events, token_run()[-1]]
    assert foresight(ended) == Foresight(num_cycles=1, num_true=1, chance=None)


def test_a_token_that_comes_too_late_did_not_come_true():
    late = run_of((5, LONG), (6, (5,)))
    assert foresight([*late, token_run()[-1]]).num_true == 0
    in_time = run_of((5, LONG[1:]), (6, (5,)))
    assert foresight([*in_time, token_run()[-1]]).num_true == 1


def test_only_the_likeliest_token_counts():
    assert foresight([*run_of((5, (999,))), token_run()[-1]]).num_true == 0


def test_luck_is_what_the_same_tokens_find_at_other_places():
    own = [[50 + c, *LONG] for c in range(4)]  # every cycle foresees its own first token
    own[0].append(53)  # one token too far from the beginning of cycle 0
    events = [*run_of(*((50 + c, tokens) for c, tokens in enumerate(own))), token_run()[-1]]
    assert foresight(events) == Foresight(num_cycles=4, num_true=4, chance=0.0)
    common = [*run_of(*((7, [7, *LONG]) for _ in range(4))), token_run()[-1]]
    assert foresight(common) == Foresight(num_cycles=4, num_true=4, chance=1.0)


def test_a_run_without_contemplation_foresees_nothing():
    assert foresight(step_run()) == Foresight(num_cycles=0, num_true=0, chance=None)
