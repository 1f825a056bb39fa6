"""Every number recomputed by hand from the two runs of ``tests/traces.py``."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from confu_demo.bench_statistics import bootstrap_interval, median, quartiles, wilson_interval
from confu_demo.metrics import (
    DepthAcceptance,
    RunMetrics,
    StepMetrics,
    confident_agreement,
    coverage,
    entropy_bits,
    first_divergence,
    identical_text,
    router_usage,
    speedup,
    summary,
    verdict_pairs,
)
from confu_demo.trace import DraftProposed
from tests.traces import changed, step_run, token_run


def test_the_numbers_of_a_token_run_are_those_on_paper():
    found = summary(token_run())
    assert found.method == "confu"
    assert found.finish_reason == "eos"
    assert found.text == " t10 t11 t13 t14 t15 t17 t19"
    assert found.token_ids == (10, 11, 13, 14, 15, 17, 19)
    assert found.num_tokens == 7
    assert found.origin_counts == {"target": 1, "draft": 4, "bonus": 1, "recovered": 1}
    assert (found.total_ms, found.prefill_ms, found.decode_ms) == (30.0, 10.0, 20.0)
    assert found.tokens_per_s == 350.0  # 7 tokens in 20 ms
    assert found.num_cycles == 3
    assert found.acceptance_length == 2.0  # (3 + 2 + 1) / 3, the last one cut by EOS
    assert found.verified_per_committed == pytest.approx(17 / 6)  # 8 + 6 + 3 tokens for 6
    assert found.num_contemplate_tokens == 7
    assert (found.target_forwards, found.target_tokens, found.draft_forwards) == (3, 17, 9)
    assert (found.draft_ms, found.verify_ms, found.other_ms) == (4.5, 12.0, 3.5)
    assert found.steps is None


def test_acceptance_by_depth_asks_only_cycles_that_came_so_far():
    """Depth 1: all three cycles. Depth 2: two trees are that deep, one was accepted there."""
    assert summary(token_run()).acceptance_by_depth == (
        DepthAcceptance(depth=1, accepted=3, reached=3),
        DepthAcceptance(depth=2, accepted=1, reached=2),
    )
    assert summary(token_run()).acceptance_by_depth[1].rate == 0.5


def test_a_depth_below_a_rejection_is_not_reached():
    events = changed(token_run(), 7, accepted=(), token_id=30)
    events = changed(events, 8, token_ids=(30,), origins=("recovered",), texts=("",))
    by_depth = summary(events[:9]).acceptance_by_depth
    assert [(entry.accepted, entry.reached) for entry in by_depth] == [(1, 2), (1, 1)]


def test_a_root_alone_has_no_depth_to_accept():
    events = token_run()
    first = events[3]
    assert isinstance(first, DraftProposed)
    root = replace(first.tree, token_ids=(10,), parents=(-1,), log_probs=(0.0,), texts=("",))
    lone = changed(changed(events, 3, tree=root), 4, accepted=(), target_probs=(1.0,))
    assert summary(lone[:6]).acceptance_by_depth == ()


def test_an_unfinished_run_has_numbers_so_far():
    found = summary(token_run()[:8])  # cycle 1 is verified, not committed
    assert found.finish_reason is None
    assert found.num_tokens == 4
    assert found.num_cycles == 1
    assert found.acceptance_length == 3.0
    assert (found.total_ms, found.prefill_ms, found.decode_ms) == (22.0, 10.0, 12.0)
    assert found.tokens_per_s == pytest.approx(4 / 0.012)
    assert (found.draft_ms, found.verify_ms, found.other_ms) == (3.0, 8.0, 1.0)
    assert found.target_forwards is None
    assert found.verified_per_committed == pytest.approx(8 / 3)


def test_the_prefills_token_alone_is_no_rate():
    """Its time is not counted, so anything divided by the rest would look like speed."""
    assert summary(token_run()[:5]).num_tokens == 1
    assert summary(token_run()[:5]).tokens_per_s is None
    assert speedup(summary(token_run()[:5]), summary(token_run())) is None


def test_every_beginning_of_a_run_has_numbers():
    for events in (token_run(), step_run()):
        tokens = [summary(events[:end]).num_tokens for end in range(len(events) + 1)]
        assert tokens == sorted(tokens)
        assert tokens[0] == 0


def test_nothing_has_no_rates():
    found = summary([])
    assert found.tokens_per_s is None
    assert found.acceptance_length is None
    assert found.verified_per_committed is None
    assert found.acceptance_by_depth == ()


def test_a_strange_tree_in_a_recording_does_not_break_the_numbers():
    events = token_run()
    first = events[3]
    assert isinstance(first, DraftProposed)
    strange = replace(first.tree, parents=(7, 9, -5, 1))
    assert summary(changed(events, 3, tree=strange)).num_tokens == 7


# ---- steps ---------------------------------------------------------------------------------


def test_the_numbers_of_a_step_run_are_those_on_paper():
    assert summary(step_run()).steps == StepMetrics(
        num_drafted=7,  # 3, 2 and 2 in the three rounds
        num_gated=7,  # steps 0 1 2, 4 5, 5 6
        num_judged=5,  # not the exact match of 0, not the unfinished 6
        num_escalated=2,  # 1 and 4
        num_exact_matches=1,
        num_accepted=4,  # 0 1 2 5
        steps_by_draft=4,
        steps_by_target=3,  # 3 4 6
        bonus_steps=1,
        tokens_by_draft=8,
        tokens_by_target=6,
        lost_ms=2 * 1.0 + 2 * 1.0 + 2 * 1.0,  # drafts 4 5 6, target rows 5 6 and 7
        step_acceptance=4 / 7,
        escalation_rate=2 / 5,
        exact_match_rate=1 / 7,
    )


def test_steps_of_an_open_round_are_not_counted_as_lost():
    steps = summary(step_run()[:12]).steps  # gated 0 1 2, none resolved
    assert steps is not None
    assert steps.num_gated == 3
    assert steps.step_acceptance is None
    steps = summary(step_run()[:30]).steps  # round 2 is gated, round 1 was fully accepted
    assert steps is not None
    assert steps.step_acceptance == 1.0


def test_step_times_are_summed_while_the_run_goes_on():
    """Seven drafts at 1 ms, three gates at 0.5 ms, one escalation at 2 ms; audits are free."""
    found = summary(step_run()[:14])
    assert found.draft_ms == 3 * 1.0 + 3 * 0.5
    assert found.verify_ms == 4 * 1.0 + 2.0


def test_verdict_pairs_join_the_draft_judge_with_the_target():
    pairs = verdict_pairs(step_run())
    assert [
        (pair.step, pair.verdict, pair.target_verdict, pair.escalated, pair.audit) for pair in pairs
    ] == [
        (1, "different", "same", True, False),
        (2, "same", "same", False, True),
        (4, "same", "different", True, False),
        (5, "different", "same", False, True),
        (5, "same", None, False, False),
    ]


def test_coverage_follows_the_threshold():
    pairs = verdict_pairs(step_run())  # confidences 0.6 0.95 0.7 0.97 0.92, mass 0.9 each
    assert coverage(pairs, 0.9) == 3 / 5
    assert coverage(pairs, 0.65) == 4 / 5
    assert coverage(pairs, 1.01) == 0.0
    assert coverage(pairs, 0.9, min_verdict_mass=0.95) == 0.0
    assert coverage((), 0.9) is None


def test_confident_agreement_counts_only_what_the_target_was_asked_about():
    pairs = verdict_pairs(step_run())
    assert confident_agreement(pairs, 0.9).rate == 1 / 2  # 2 agrees, 5 does not, 5 again unknown
    assert confident_agreement(pairs, 0.0).checked == 4
    assert confident_agreement(pairs, 0.99).rate is None


# ---- comparisons ---------------------------------------------------------------------------


def metrics(**changes: object) -> RunMetrics:
    return replace(summary(token_run()), **changes)  # type: ignore[arg-type]


def test_speedup_is_per_committed_token_of_decode_time():
    assert speedup(metrics(tokens_per_s=300.0), metrics(tokens_per_s=200.0)) == 1.5
    assert speedup(metrics(tokens_per_s=None), metrics()) is None
    assert speedup(metrics(), metrics(tokens_per_s=None)) is None


def test_texts_are_compared_only_between_runs_that_ended():
    assert identical_text(metrics(text="a"), metrics(text="a")) is True
    assert identical_text(metrics(text="a"), metrics(text="b", finish_reason="length")) is False
    assert identical_text(metrics(finish_reason="cancelled"), metrics()) is None
    assert identical_text(metrics(), metrics(finish_reason=None)) is None


def test_the_first_divergence_is_an_index_of_committed_tokens():
    assert first_divergence(metrics(token_ids=(1, 2, 3)), metrics(token_ids=(1, 2, 4))) == 2
    assert first_divergence(metrics(token_ids=(1, 2)), metrics(token_ids=(1, 2, 4))) is None


# ---- routers -------------------------------------------------------------------------------


def test_router_usage_is_that_on_paper():
    usage = router_usage(token_run())
    assert usage is not None
    assert usage.con is not None
    assert usage.con.num_cycles == 2
    assert usage.con.mean_weights == (0.5, 0.125, 0.375, 0.0)
    assert usage.con.chosen == (1.0, 0.5, 0.5, 0.0)
    entropy = -(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25))
    assert usage.con.mean_entropy == pytest.approx(entropy)
    assert usage.future is not None
    assert usage.future.mean_entropy == pytest.approx(1.0)


def test_router_usage_is_none_without_contemplation_or_weights():
    assert router_usage(step_run()) is None
    events = token_run()[:4]
    first = events[3]
    assert isinstance(first, DraftProposed)
    assert first.contemplation is not None
    off = replace(first.contemplation, con_router=(), future_router=(0.0, 0.0), source="off")
    usage = router_usage(changed(events, 3, contemplation=off))
    assert usage is not None
    assert (usage.con, usage.future) == (None, None)


def test_entropy_does_not_depend_on_the_scale_of_weights():
    assert entropy_bits((0.2, 0.2, 0.2, 0.2)) == pytest.approx(2.0)
    assert entropy_bits((3.0, 0.0)) == 0.0
    assert entropy_bits(()) == 0.0


# ---- statistics ----------------------------------------------------------------------------


def test_quartiles_interpolate_between_sorted_values():
    assert quartiles([4.0, 1.0, 3.0, 2.0]) == (1.75, 2.5, 3.25)
    assert quartiles([5.0]) == (5.0, 5.0, 5.0)
    assert quartiles([]) is None
    assert median([3.0, 1.0]) == 2.0
    assert median([]) is None


def test_wilson_interval_equals_the_textbook():
    low, high = wilson_interval(20, 24) or (0.0, 0.0)
    assert (round(low, 3), round(high, 3)) == (0.641, 0.933)
    low, high = wilson_interval(24, 24) or (0.0, 0.0)
    assert (round(low, 3), high) == (0.862, 1.0)
    assert (wilson_interval(0, 10) or (9.0, 9.0))[0] == 0.0
    assert wilson_interval(0, 0) is None
    with pytest.raises(ValueError, match="3 successes in 2 trials"):
        wilson_interval(3, 2)


def test_bootstrap_interval_is_seeded_and_close_to_the_normal_one():
    values = [float(value) for value in range(100)]
    interval = bootstrap_interval(values, seed=1)
    assert interval == bootstrap_interval(values, seed=1)
    assert interval != bootstrap_interval(values, seed=2)
    low, high = interval or (0.0, 0.0)
    half = 1.96 * statistics.pstdev(values) / 10
    assert low == pytest.approx(49.5 - half, abs=1.0)
    assert high == pytest.approx(49.5 + half, abs=1.0)


def test_bootstrap_interval_takes_any_statistic():
    assert bootstrap_interval([2.0, 2.0], statistics.median) == (2.0, 2.0)
    assert bootstrap_interval([]) is None
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        bootstrap_interval([1.0], level=1.0)
