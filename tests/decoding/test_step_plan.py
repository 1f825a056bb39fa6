"""The machine's choice of draft steps: its arithmetic by hand, and its effect in real runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from confu_demo.config import AUTO_STEPS, MAX_AUTO_STEPS
from confu_demo.decoding.base import DecodeRequest, LaneClock
from confu_demo.decoding.confspec import ConfspecDecoder, LookaheadDecoder
from confu_demo.decoding.step_costs import measure, step_costs
from confu_demo.decoding.step_plan import (
    HOPED_ACCEPTANCE,
    HOPED_WEIGHT,
    JUDGE_TOKENS,
    LEAST_ROUNDS,
    StepCosts,
    StepPlanner,
)
from confu_demo.engine.forward_cost import CostCurve
from confu_demo.trace import RoundPlanned, RunStarted, StepDrafted
from confu_demo.trace_validation import validate
from tests.decoding.step_models import (
    PROMPT,
    ScriptedJudge,
    always,
    bind,
    by_length,
    decoder_of,
    of,
    output_of,
    random_model,
    run_confspec,
    settings,
)


def flat(ms: float) -> CostCurve:
    return CostCurve(((1, ms), (64, ms)))


CHEAP_DRAFT = StepCosts(target=flat(10.0), draft=flat(0.1))
DEAR_DRAFT = StepCosts(target=flat(1.0), draft=flat(1.0))
ALL = range(1, MAX_AUTO_STEPS + 1)


def test_a_round_costs_what_the_arithmetic_on_paper_says():
    costs = StepCosts(target=CostCurve(((1, 10.0), (101, 110.0))), draft=flat(2.0))
    plan = StepPlanner(costs, range(2, 3)).plan()
    a, length, judged, escalated = HOPED_ACCEPTANCE, 16.0, 2 * 0.6, 2 * 0.6 * 0.2
    kept = 1 + a + a * a
    assert plan.expected_tokens == pytest.approx(length * kept)
    assert plan.plain_ms == pytest.approx(length * kept * 10.0)
    drafting, reading, writing = 2 * length * 2.0, 2 * length, length * 12.0
    judging, asking = 2.0, escalated * (10.0 + (JUDGE_TOKENS - 1))
    assert judged > 1.0
    assert plan.expected_ms == pytest.approx(drafting + reading + writing + judging + asking)
    assert not plan.fell_back


def test_cheap_drafts_that_are_kept_are_drafted_far_ahead_and_bad_ones_hardly():
    good, bad = StepPlanner(CHEAP_DRAFT, ALL), StepPlanner(CHEAP_DRAFT, ALL)
    for _ in range(40):
        good.learn(gated=4, accepted=4, judged=2, escalated=0)
        bad.learn(gated=4, accepted=0, judged=4, escalated=4)
    assert good.plan().draft_steps == MAX_AUTO_STEPS
    assert good.plan().acceptance > 0.9
    assert bad.plan().draft_steps == 1
    assert bad.plan().acceptance < 0.1


def test_steps_behind_a_rejection_say_nothing_about_acceptance():
    planner = StepPlanner(CHEAP_DRAFT, ALL)
    hoped = HOPED_ACCEPTANCE * HOPED_WEIGHT
    planner.learn(gated=6, accepted=1, judged=6, escalated=0)
    assert planner.plan().acceptance == pytest.approx((hoped + 1) / (HOPED_WEIGHT + 2))
    planner.learn(gated=3, accepted=3, judged=3, escalated=0)
    assert planner.plan().acceptance == pytest.approx((hoped + 4) / (HOPED_WEIGHT + 5))


def test_a_run_of_few_rounds_begins_with_more_than_one_step_where_drafts_are_cheap():
    """The bundled pair's costs on two CPU cores: at k = 1 a run would end before it had learned."""
    costs = StepCosts(
        target=CostCurve(((1, 2.45), (2, 2.88), (4, 3.17), (8, 3.47), (16, 4.27), (64, 9.93))),
        draft=CostCurve(((1, 1.05), (4, 1.25), (16, 1.71), (64, 3.43))),
    )
    planner = StepPlanner(costs, ALL)
    assert 2 <= planner.plan().draft_steps <= 4
    for _ in range(4):
        planner.learn(gated=3, accepted=3, judged=2, escalated=0)
    assert planner.plan().draft_steps >= 4
    for _ in range(12):
        planner.learn(gated=3, accepted=0, judged=2, escalated=0)
    assert planner.plan().draft_steps == 1


def test_rows_that_cost_as_much_as_they_bring_keep_the_round_short():
    steep = StepCosts(target=CostCurve(((1, 1.0), (2, 1.1), (8, 40.0))), draft=flat(0.1))
    assert StepPlanner(steep, ALL).plan().draft_steps == 1


def test_a_run_falls_back_only_where_it_may_and_only_after_evidence():
    patient = StepPlanner(DEAR_DRAFT, ALL)
    ready = StepPlanner(DEAR_DRAFT, ALL, may_fall_back=True)
    for _ in range(LEAST_ROUNDS):
        assert ready.plan().draft_steps >= 1
        for each in (patient, ready):
            each.learn(gated=1, accepted=0, judged=1, escalated=1)
            each.learn_lengths([10, 12])
    assert patient.plan().draft_steps >= 1
    assert patient.plan().expected_ms > patient.plan().plain_ms
    plan = ready.plan()
    assert (plan.draft_steps, plan.fell_back) == (0, True)
    assert plan.expected_ms == plan.plain_ms
    ready.learn_lengths([10])  # a plain round
    assert ready.plan().fell_back


def test_verdicts_of_the_target_alone_cost_no_draft_judge():
    costs = StepCosts(target=flat(1.0), draft=CostCurve(((1, 0.1), (2, 50.0))))
    own = StepPlanner(costs, range(1, 2)).plan()
    lookahead = StepPlanner(costs, range(1, 2), draft_judges=False).plan()
    assert own.expected_ms > lookahead.expected_ms


def test_faster_rows_make_a_round_cheaper():
    slow, quick = StepPlanner(CHEAP_DRAFT, ALL), StepPlanner(CHEAP_DRAFT, ALL)
    for _ in range(10):
        quick.learn_rows(longest=20, forwards=8, row_forwards=32, tokens=64)
    assert quick.plan().expected_ms < slow.plan().expected_ms


@pytest.mark.parametrize("choices", [range(0), range(0, 3)])
def test_a_plan_without_choices_is_refused(choices):
    with pytest.raises(ValueError, match="1 or more"):
        StepPlanner(CHEAP_DRAFT, choices)


# In runs


@pytest.mark.parametrize("seed", range(3))
def test_every_round_of_an_automatic_run_is_planned_and_keeps_to_its_plan(seed):
    judge = ScriptedJudge(by_length)
    judges = {"draft_judge": judge, "target_judge": judge}
    decoder = decoder_of(
        random_model(seed), random_model(seed, difference=0.2), costs=CHEAP_DRAFT, **judges
    )
    config = settings(80, temperature=0.8, seed=seed, draft_steps=AUTO_STEPS, threshold=0.75)
    events = run_confspec(decoder, config)
    plans = of(RoundPlanned, events)
    assert len(plans) > 2
    assert len({plan.acceptance for plan in plans}) > 1  # it follows what was kept
    again = decoder_of(
        random_model(seed), random_model(seed, difference=0.2), costs=CHEAP_DRAFT, **judges
    )
    assert output_of(run_confspec(again, config)) == output_of(events)


def test_a_run_that_falls_back_drafts_no_more_and_goes_on_as_plain_decoding():
    target = random_model(1)
    decoder = decoder_of(
        target, random_model(2), costs=DEAR_DRAFT, draft_judge=always("different"),
        target_judge=always("different"),
    )  # fmt: skip
    config = settings(120, draft_steps=2, fallback=True)
    events = run_confspec(decoder, config)
    plain = run_confspec(decoder, settings(120, draft_steps=0))
    assert output_of(events) == output_of(plain)
    plans = of(RoundPlanned, events)
    first = next(place for place, plan in enumerate(plans) if plan.fell_back)
    assert first >= LEAST_ROUNDS
    assert all(plan.fell_back for plan in plans[first:])
    assert len(plans) > first + 1
    place = events.index(plans[first])
    assert not [e for e in events[place:] if isinstance(e, StepDrafted) and e.author == "draft"]


def test_without_being_asked_a_run_has_no_plans():
    events = run_confspec(decoder_of(random_model(1), random_model(2)), settings(40))
    assert of(RoundPlanned, events) == []


def test_lookahead_chooses_its_steps_too():
    decoder = LookaheadDecoder(
        bind(random_model(1)), bind(random_model(2), "draft_model"), costs=CHEAP_DRAFT
    )
    events = run_confspec(decoder, settings(60, draft_steps=AUTO_STEPS))
    assert of(RoundPlanned, events)


def test_a_draft_step_beyond_its_plan_breaks_a_promise():
    decoder = decoder_of(random_model(1), random_model(2), costs=CHEAP_DRAFT)
    events = run_confspec(decoder, settings(60, draft_steps=AUTO_STEPS))
    place = next(
        i for i, e in enumerate(events) if isinstance(e, RoundPlanned) and e.draft_steps > 1
    )
    plan = events[place]
    assert isinstance(plan, RoundPlanned)

    def broken(changed: RoundPlanned) -> tuple[str, ...]:
        return validate([*events[:place], changed, *events[place + 1 :]])

    assert any("against the plan" in line for line in broken(replace(plan, draft_steps=1)))
    assert any("falls back with" in line for line in broken(replace(plan, fell_back=True)))
    assert any("impossible numbers" in line for line in broken(replace(plan, acceptance=1.5)))


# Costs


def test_costs_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CONFU_DEMO_CACHE", str(tmp_path))
    target, draft = bind(random_model(1)), bind(random_model(2), "draft_model")
    found = step_costs(target, draft)
    assert [rows for rows, _ in found.target.points][:3] == [1, 2, 4]
    assert min(ms for _, ms in (*found.target.points, *found.draft.points)) > 0.0
    monkeypatch.setattr("confu_demo.decoding.step_costs.measure", lambda *_: pytest.fail("again"))
    assert step_costs(target, draft) == found
    for path in tmp_path.glob("step-cost-*.json"):
        path.write_text(
            path.read_text(encoding="utf-8").replace('"target": [', '"target": [["a"],', 1)
        )
    monkeypatch.setattr("confu_demo.decoding.step_costs.measure", measure)
    assert step_costs(target, draft).target.points  # a damaged file is measured anew


def test_costs_are_measured_before_the_runs_clock_starts(monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []

    def costs(*_: object) -> StepCosts:
        asked.append(1)
        return CHEAP_DRAFT

    monkeypatch.setattr("confu_demo.decoding.confspec.step_costs", costs)
    decoder = ConfspecDecoder(bind(random_model(1)), bind(random_model(2), "draft_model"))
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    events = decoder.decode(
        request, settings(30, draft_steps=AUTO_STEPS), LaneClock(), lambda: False
    )
    assert asked == [1]
    assert isinstance(next(events), RunStarted)
    assert asked == [1]


def test_a_decoder_asks_for_costs_only_where_it_needs_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "confu_demo.decoding.confspec.step_costs", lambda *_: pytest.fail("not needed")
    )
    decoder = ConfspecDecoder(bind(random_model(1)), bind(random_model(2), "draft_model"))
    run_confspec(decoder, settings(30))
    run_confspec(decoder, settings(30, draft_steps=0, fallback=True))
