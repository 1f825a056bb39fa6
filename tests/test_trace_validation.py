"""Every invariant of ``validate`` is broken once, in an otherwise sound run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from confu_demo.trace import DraftPlan, DraftProposed, Event, MeasuredCosts, StepJudged
from confu_demo.trace_validation import validate
from tests.traces import StepClock, changed, committed, step_run, token_run, without


def tree_of(events: list[Event], index: int, **changes: Any) -> list[Event]:
    event = events[index]
    assert isinstance(event, DraftProposed)
    return changed(events, index, tree=replace(event.tree, **changes))


def contemplation_of(events: list[Event], index: int, **changes: Any) -> list[Event]:
    event = events[index]
    assert isinstance(event, DraftProposed)
    assert event.contemplation is not None
    return changed(events, index, contemplation=replace(event.contemplation, **changes))


def swapped(events: list[Event], index: int) -> list[Event]:
    """An event and its successor in the other order."""
    return [*events[:index], events[index + 1], events[index], *events[index + 2 :]]


def test_sound_runs_break_nothing():
    assert validate(token_run()) == ()
    assert validate(step_run()) == ()


def test_an_older_run_that_does_not_name_contemplated_nodes_is_sound():
    events = changed(token_run(), 0, schema_version=1)
    for place in (4, 7, 10):
        events = changed(events, place, contemplated_nodes=None)
    assert validate(events) == ()


def test_a_run_without_events_is_named():
    assert validate([]) == ("the run has no events",)


def test_a_run_that_was_cancelled_between_draft_and_verification_is_sound():
    events = changed(token_run(), 12, reason="cancelled", num_tokens=4, target_tokens=8)
    assert validate([*events[:7], events[12]]) == ()


def test_a_step_run_that_was_cancelled_after_gating_is_sound():
    events = changed(step_run(), 44, reason="cancelled", num_tokens=0)
    assert validate([*events[:12], events[44]]) == ()


def test_a_place_and_the_event_are_named():
    (sentence,) = validate(changed(token_run(), 12, num_tokens=6))
    assert sentence == ("event 12 (RunFinished): num_tokens is 6, 7 tokens were committed")


FRAME = {
    "no start": (lambda e: e[1:], "does not begin with RunStarted"),
    "two starts": (lambda e: [e[0], *e], "starts twice"),
    "no end": (lambda e: e[:-1], "does not end with RunFinished"),
    "two ends": (lambda e: [*e, e[-1]], "comes after RunFinished"),
    "an event after the end": (lambda e: [*e, e[-1], e[-2]], "comes after RunFinished"),
    "another schema": (lambda e: changed(e, 0, schema_version=99), "schema version 99"),
    "a clock that goes back": (lambda e: changed(e, 4, t_ms=11.0), "before 12.000 ms"),
    "a time that is not a number": (lambda e: changed(e, 4, t_ms=float("nan")), "at nan ms"),
    "a negative duration": (lambda e: changed(e, 4, ms=-1.0), "took -1.0 ms"),
    "a wrong token count": (lambda e: changed(e, 12, num_tokens=8), "7 tokens were committed"),
    "times that do not add up": (lambda e: changed(e, 12, other_ms=5.0), "differ from t_ms by 1.5"),
    "a negative total": (
        lambda e: changed(e, 12, draft_ms=-4.5, other_ms=12.5),
        "a total of milliseconds is negative",
    ),
    "a negative count": (lambda e: changed(e, 12, draft_forwards=-1), "a negative number"),
    "forwards without tokens": (
        lambda e: changed(e, 12, target_forwards=18),
        "18 target forwards computed only 17",
    ),
    "uncounted verify tokens": (
        lambda e: changed(e, 12, target_tokens=16),
        "the cycles alone verified 17",
    ),
    "more tokens than allowed": (
        lambda e: changed(e, 0, config=(("max_new_tokens", "6"),)),
        "7 tokens are committed, the limit is 6",
    ),
    "an origin too few": (lambda e: changed(e, 2, origins=()), "1 tokens with 0 origins"),
    "a draft token outside cycles": (
        lambda e: changed(e, 2, origins=("draft",)),
        "every token is the target's",
    ),
}

CYCLES = {
    "a root with a parent": (lambda e: tree_of(e, 3, parents=(0, 0, 0, 1)), "the root's parent"),
    "a child before its parent": (
        lambda e: tree_of(e, 3, parents=(-1, 0, 3, 1)),
        "node 2 has parent 3",
    ),
    "a column too short": (lambda e: tree_of(e, 3, texts=("", "")), "differ in length"),
    "an empty tree": (
        lambda e: tree_of(e, 3, token_ids=(), parents=(), log_probs=(), texts=()),
        "the tree has no root",
    ),
    "a probability above one": (
        lambda e: tree_of(e, 3, log_probs=(0.0, 0.5, -1.0, -1.0)),
        "a log-probability is above 0",
    ),
    "a root that was not committed": (
        lambda e: tree_of(e, 6, token_ids=(99, 15, 16)),
        "the root is token 99, committed last was 14",
    ),
    "a cycle number again": (
        lambda e: changed(changed(changed(e, 6, cycle=0), 7, cycle=0), 8, cycle=0),
        "cycle 0 comes after cycle 0",
    ),
    "a draft never verified": (lambda e: without(e, 4), "the draft before it was never verified"),
    "a verification without a draft": (lambda e: without(e, 3), "without its draft before it"),
    "a verification of another cycle": (lambda e: changed(e, 4, cycle=5), "without its draft"),
    "a probability too few": (
        lambda e: changed(e, 4, target_probs=(1.0, 0.5)),
        "2 target_probs for 4 tree nodes",
    ),
    "a negative probability": (
        lambda e: changed(e, 4, target_probs=(1.0, -0.5, 0.5, 0.5)),
        "not between 0 and 1",
    ),
    "uncounted contemplate tokens": (
        lambda e: changed(e, 4, num_target_tokens=7),
        "num_target_tokens is 7 for 4 nodes and 4 contemplate tokens",
    ),
    "a contemplated node too few": (
        lambda e: changed(e, 4, contemplated_nodes=(0, 1, 2)),
        "3 contemplated nodes for 4 contemplate tokens",
    ),
    "a contemplated node twice": (
        lambda e: changed(e, 4, contemplated_nodes=(0, 1, 1, 2)),
        "contemplated nodes (0, 1, 1, 2) are not increasing",
    ),
    "contemplated nodes out of order": (
        lambda e: changed(e, 4, contemplated_nodes=(1, 0, 2, 3)),
        "are not increasing nodes of a tree of 4",
    ),
    "a contemplated node outside the tree": (
        lambda e: changed(e, 4, contemplated_nodes=(0, 1, 2, 4)),
        "are not increasing nodes of a tree of 4",
    ),
    "a path that starts below the root": (
        lambda e: changed(e, 4, accepted=(3,)),
        "accepted node 3 is not a child of node 0",
    ),
    "a path that jumps": (
        lambda e: changed(e, 4, accepted=(2, 3)),
        "accepted node 3 is not a child of node 2",
    ),
    "the root as an accepted node": (lambda e: changed(e, 4, accepted=(0,)), "accepted node 0"),
    "a node that is not there": (lambda e: changed(e, 4, accepted=(9,)), "accepted node 9"),
    "a bonus after a rejection": (
        lambda e: changed(changed(e, 7, token_origin="bonus"), 8, origins=("draft", "bonus")),
        "is bonus, after this path it is recovered",
    ),
    "a recovery after a full path": (
        lambda e: changed(
            changed(e, 4, token_origin="recovered"), 5, origins=("draft", "draft", "recovered")
        ),
        "is recovered, after this path it is bonus",
    ),
    "a right node rejected": (
        lambda e: tree_of(e, 6, token_ids=(14, 15, 17)),
        "rejected a node that was right",
    ),
    "another token than the target's": (
        lambda e: changed(e, 5, token_ids=(11, 13, 99)),
        "not the accepted path and the target's token",
    ),
    "a wrong origin": (
        lambda e: changed(e, 5, origins=("draft", "draft", "target")),
        "the origins are not draft, draft, bonus",
    ),
    "a cycle that commits nothing": (lambda e: without(e, 5), "never committed"),
    "a last cycle that commits nothing": (lambda e: without(e, 11), "never committed"),
    "a commit without a verification": (
        lambda e: [*e[:6], committed(16.5, (14,), ("bonus",), cycle=0), *e[6:]],
        "without being verified before",
    ),
    "a cut in the middle of a run": (
        lambda e: changed(e, 5, token_ids=(11, 13), origins=("draft", "draft"), texts=("", "")),
        "committed only a part, and the run went on",
    ),
    "a cut in a cancelled run": (
        lambda e: changed(e, 12, reason="cancelled"),
        "committed only a part, without EOS or limit",
    ),
    "router weights above one": (
        lambda e: contemplation_of(e, 3, con_router=(0.9, 0.9)),
        "the con router's weights",
    ),
    "a negative router weight": (
        lambda e: contemplation_of(e, 3, future_router=(1.5, -0.5)),
        "the future router's weights",
    ),
    "a source without its node": (
        lambda e: contemplation_of(e, 6, source_node=None),
        "source node with source_node None",
    ),
    "a node without its source": (
        lambda e: contemplation_of(e, 6, source="prefill"),
        "source prefill with source_node 3",
    ),
    "a source outside the tree before": (
        lambda e: contemplation_of(e, 6, source_node=4),
        "source_node 4 is not in the tree before",
    ),
}

STEPS = {
    "a gate without a target step": (lambda e: without(e, 6), "without a step of both authors"),
    "a step drafted twice": (lambda e: [*e[:3], e[2], *e[3:]], "step 0 is drafted twice at once"),
    "a step drafted after it was kept": (
        lambda e: changed(e, 22, step=3),
        "step 3 is drafted after step 3 was resolved",
    ),
    "a step gated twice": (lambda e: [*e[:10], e[9], *e[10:]], "step 0 is gated twice"),
    "an escalation after a confident reject": (
        lambda e: swapped(changed(e, 11, decision="reject", verdict="different"), 10),
        "step 1 is escalated after a confident reject",
    ),
    "an escalation without a verdict": (lambda e: without(e, 12), "resolved before it is judged"),
    "an escalated dropped step without a verdict": (
        lambda e: changed(e, 28, decision="escalate", confidence=0.6),
        "step 5 was escalated but never judged",
    ),
    "a verdict that nobody asked for": (
        lambda e: changed(e, 13, audit=False),
        "step 2 is judged though it was not escalated",
    ),
    "a second verdict": (lambda e: [*e[:13], e[12], *e[13:]], "step 1 is judged twice"),
    "an audit of nothing": (
        lambda e: changed(e, 13, step=9),
        "step 9 is audited without having been gated",
    ),
    "a confidence above one": (lambda e: changed(e, 12, confidence=1.5), "confidence is 1.5"),
    "a gate's confidence above one": (
        lambda e: changed(e, 11, confidence=1.5),
        "confidence is 1.5",
    ),
    "a gate that accepts a difference": (
        lambda e: changed(e, 11, verdict="different"),
        "step 2: different, yet accept",
    ),
    "a gate that passes an uncertain verdict": (
        lambda e: changed(e, 11, confidence=0.8),
        "step 2 passes below its threshold",
    ),
    "a gate that escalates a sure verdict": (
        lambda e: changed(e, 10, confidence=0.99),
        "step 1 is escalated though its verdict is confident",
    ),
    "a gate without a mass": (
        lambda e: changed(e, 11, verdict_mass=None),
        "step 2 has no verdict mass",
    ),
    "a mass above one": (lambda e: changed(e, 11, verdict_mass=1.5), "verdict mass is 1.5"),
    "an exact match that was judged": (
        lambda e: changed(e, 9, verdict_mass=0.9),
        "step 0 matches exactly but was judged",
    ),
    "an exact match that is not accepted": (
        lambda e: changed(e, 9, decision="reject", verdict="different"),
        "step 0 matches exactly but is not accepted",
    ),
    "an unfinished step that is accepted": (
        lambda e: changed(e, 39, decision="accept", verdict="same"),
        "step 6 is unfinished but not rejected",
    ),
    "a rejected draft that is kept": (
        lambda e: changed(e, 42, kept="draft", text="draft 6."),
        "step 6 keeps the draft's text against its verdict",
    ),
    "an accepted draft that is dropped": (
        lambda e: changed(e, 40, kept="target", text="target 5."),
        "step 5 keeps the target's text against its verdict",
    ),
    "a judged draft that is dropped": (
        lambda e: changed(e, 12, verdict="different"),
        "step 1 keeps the draft's text against its verdict",
    ),
    "a draft that was never gated": (
        lambda e: without(e, 11),
        "step 2 keeps the draft without a gate",
    ),
    "a step number left out": (lambda e: changed(e, 42, step=7), "step 7 is resolved after step 5"),
    "a step after the target's own": (
        lambda e: [*e[:33], *StepClock().kept("target", 5), *e[33:]],
        "step 5 is resolved after the target's own step",
    ),
    "a bonus by the draft": (
        lambda e: changed(e, 18, bonus=True),
        "bonus step 2 is not the target's",
    ),
    "a bonus after a rejection": (
        lambda e: changed(e, 42, bonus=True),
        "bonus step 6 comes after a rejection",
    ),
    "a text that nobody drafted": (
        lambda e: changed(e, 20, step=4),
        "step 4 keeps a text that nobody drafted",
    ),
    "another text than the drafted one": (
        lambda e: changed(e, 14, text="something else"),
        "step 0 is not the text that was drafted",
    ),
    "a step committed unresolved": (
        lambda e: without(e, 14),
        "step 0 is committed without being resolved before",
    ),
    "a resolved step that is not committed": (
        lambda e: without(e, 21),
        "a resolved step before it was never committed",
    ),
    "other tokens than the step's": (
        lambda e: changed(e, 15, token_ids=(1, 3)),
        "the tokens are not those of step 0 by the draft",
    ),
    "a step's wrong origin": (
        lambda e: changed(e, 15, origins=("target", "target")),
        "step 0 was written by the draft, its origins say otherwise",
    ),
    "a step cut in the middle of a run": (
        lambda e: changed(e, 15, token_ids=(1,), origins=("draft",), texts=("",)),
        "a step was committed only in part, and the run went on",
    ),
}


@pytest.mark.parametrize(("breaking", "sentence"), FRAME.values(), ids=FRAME)
def test_a_broken_frame_is_named(breaking, sentence):
    found = validate(breaking(token_run()))
    assert any(sentence in entry for entry in found), found


@pytest.mark.parametrize(("breaking", "sentence"), CYCLES.values(), ids=CYCLES)
def test_a_broken_cycle_is_named(breaking, sentence):
    found = validate(breaking(token_run()))
    assert any(sentence in entry for entry in found), found


@pytest.mark.parametrize(("breaking", "sentence"), STEPS.values(), ids=STEPS)
def test_a_broken_step_is_named(breaking, sentence):
    found = validate(breaking(step_run()))
    assert any(sentence in entry for entry in found), found


def test_a_right_node_may_be_missed_only_by_the_last_cycle():
    """EOS and the limit stop a cycle before a node that was right."""
    events = tree_of(
        token_run(),
        9,
        token_ids=(17, 18, 19, 20),
        parents=(-1, 0, 0, 2),
        log_probs=(0.0, -1.0, -1.0, -1.0),
        texts=("",) * 4,
    )
    events = changed(
        events, 10, target_probs=(1.0, 0.5, 0.5, 0.5), num_target_tokens=4, token_origin="recovered"
    )
    assert validate(changed(events, 12, target_tokens=18)) == ()


def test_a_foreseen_probability_above_one_is_named():
    events = token_run()
    event = events[3]
    assert isinstance(event, DraftProposed)
    assert event.contemplation is not None
    foreseen = tuple(replace(token, prob=1.5) for token in event.contemplation.foreseen)
    (sentence,) = validate(contemplation_of(events, 3, foreseen=foreseen))
    assert "a foreseen token's probability" in sentence


def test_above_threshold_one_the_draft_judge_need_not_be_asked():
    events = changed(step_run(), 10, verdict_mass=None, threshold=1.1)
    assert validate(events) == ()


def test_a_last_step_may_be_cut_but_not_in_a_cancelled_run():
    events = changed(step_run(), 43, token_ids=(65,), origins=("target",), texts=("",))
    events = changed(events, 44, num_tokens=13, reason="length")
    assert validate(events) == ()
    (sentence,) = validate(changed(events, 44, reason="cancelled"))
    assert "committed only in part, without EOS or limit" in sentence


def test_an_audit_may_come_after_the_round_it_speaks_of():
    events = step_run()
    late = replace(events[13], t_ms=99.0)
    assert isinstance(late, StepJudged)
    assert validate([*without(events, 13)[:-1], late, events[-1]]) == ()


PLAN = DraftPlan(expected_tokens=2.5, expected_ms=7.0, levels=3, tokens_per_ms=0.4)
COSTS = MeasuredCosts(verify=((1, 2.0), (8, 2.5)), draft_ms=0.5, level=((1, 0.3),))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, None),
        ({"levels": 0, "expected_tokens": 1.0}, None),
        ({"expected_tokens": 4.5}, "expects 4.5 tokens of 4 nodes"),
        ({"expected_tokens": 0.9}, "expects 0.9 tokens"),
        ({"expected_tokens": float("nan")}, "expects nan tokens"),
        ({"expected_ms": 0.0}, "milliseconds or rate are not above 0"),
        ({"tokens_per_ms": float("inf")}, "milliseconds or rate are not above 0"),
        ({"levels": -1}, "-1 levels"),
    ],
)
def test_a_plan_that_nobody_could_mean_is_named(changes: dict[str, Any], sentence: str | None):
    found = validate(changed(token_run(), 3, plan=replace(PLAN, **changes)))
    assert len(found) == (sentence is not None)
    assert all(str(sentence) in entry for entry in found)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, None),
        ({"verify": ((1, 2.0), (8, 1.5))}, "the measured verify costs do not rise"),
        ({"level": ((2, 2.0), (1, 2.5))}, "the measured level costs do not rise"),
        ({"level": ()}, "the measured level costs do not rise"),
        ({"draft_ms": -0.1}, "a measured cost is negative"),
        ({"verify": ((1, float("inf")),)}, "a measured cost is negative or not finite"),
    ],
)
def test_costs_that_no_machine_has_are_named(changes: dict[str, Any], sentence: str | None):
    found = validate(changed(token_run(), 0, costs=replace(COSTS, **changes)))
    assert len(found) == (sentence is not None)
    assert all(str(sentence) in entry for entry in found)
