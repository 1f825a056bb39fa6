"""ConfSpec's gate at work, its audit, its clock, and the numbers that follow from a trace."""

from __future__ import annotations

import pytest

from confu_demo.decoding.base import DecodeRequest, LaneClock
from confu_demo.metrics import summary
from confu_demo.trace import (
    Event,
    StepDrafted,
    StepGated,
    StepJudged,
    StepResolved,
    TokensCommitted,
)
from confu_demo.trace_validation import validate
from tests.decoding.step_models import (
    PROMPT,
    ScriptedJudge,
    always,
    by_length,
    decoder_of,
    end_of,
    of,
    output_of,
    random_model,
    run_confspec,
    settings,
    text_of,
)


@pytest.mark.parametrize("seed", range(5))
def test_escalations_stand_before_the_first_confident_reject_and_each_has_a_verdict(seed):
    judge, above = ScriptedJudge(by_length), ScriptedJudge(by_length)
    target, draft = random_model(seed), random_model(seed + 20)
    decoder = decoder_of(target, draft, draft_judge=judge, target_judge=above)
    config = settings(80, temperature=1.0, seed=seed, draft_steps=4, threshold=0.75)
    events = run_confspec(decoder, config)  # validate() checks the order and every verdict
    escalated = [gate for gate in of(StepGated, events) if gate.decision == "escalate"]
    assert escalated
    assert len(of(StepJudged, events)) == len(escalated)
    assert sum(map(len, above.calls)) == len(escalated)
    low_mass = [gate for gate in escalated if gate.confidence >= 0.75]
    assert all(gate.verdict_mass == 0.2 for gate in low_mass)
    expected_rounds = sum(e.kept == "target" for e in of(StepResolved, events))
    assert len(judge.calls) <= expected_rounds + 1  # one judge forward a round at most


def test_low_verdict_mass_escalates_whatever_the_confidence():
    target, draft = random_model(1), random_model(2)
    vague, sure = always("same", confidence=1.0, mass=0.3), always("different")
    decoder = decoder_of(target, draft, draft_judge=vague, target_judge=sure)
    events = run_confspec(decoder, settings(40, threshold=0.9, min_verdict_mass=0.5))
    judged = [gate for gate in of(StepGated, events) if gate.verdict_mass is not None]
    assert judged
    assert {gate.decision for gate in judged} == {"escalate"}
    relaxed = run_confspec(decoder, settings(40, threshold=0.9, min_verdict_mass=0.2))
    assert of(StepJudged, relaxed) == []


@pytest.mark.parametrize("threshold", [0.75, 1.5])
def test_the_audit_asks_about_confident_steps_and_changes_nothing_else(threshold):
    def run(audit: bool) -> list[Event]:
        judge = ScriptedJudge(by_length)
        models = random_model(1), random_model(21)
        decoder = decoder_of(*models, draft_judge=judge, target_judge=judge)
        config = settings(80, temperature=1.0, threshold=threshold, audit=audit)
        return run_confspec(decoder, config)

    plain, audited = run(False), run(True)
    assert output_of(plain) == output_of(audited)
    ends = end_of(plain), end_of(audited)
    for count in ("target_forwards", "target_tokens", "draft_forwards"):
        assert getattr(ends[0], count) == getattr(ends[1], count)
    confident = [
        gate.step
        for gate in of(StepGated, audited)
        if gate.verdict_mass is not None and gate.decision != "escalate"
    ]
    assert [e.step for e in of(StepJudged, audited) if e.audit] == confident
    assert bool(confident) == (threshold < 1)
    assert not any(e.audit for e in of(StepJudged, plain))


class CountingClock:
    """A clock that advances one millisecond per reading, while it runs."""

    def __init__(self) -> None:
        self.ms, self.running = 0.0, False

    def now(self) -> float:
        self.ms += 1.0 if self.running else 0.0
        return self.ms

    def pause(self) -> None:
        self.running = False

    def resume(self) -> None:
        self.running = True


@pytest.mark.parametrize(
    ("slow", "threshold", "audit"),
    [("target_judge", 0.4, True), ("draft_judge", 1.5, False)],
)
def test_verdicts_that_decide_nothing_cost_no_time_of_the_run(slow, threshold, audit):
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    config = settings(40, temperature=1.0, threshold=threshold, audit=audit)

    def total_ms(readings: int) -> float:
        clock = CountingClock()

        def taking_time(pair):
            for _ in range(readings):
                clock.now()
            return by_length(pair)

        judges = {"draft_judge": ScriptedJudge(by_length), "target_judge": ScriptedJudge(by_length)}
        judges[slow] = ScriptedJudge(taking_time)
        decoder = decoder_of(random_model(1), random_model(21), **judges)
        events = list(decoder.decode(request, config, clock, lambda: False))
        assert validate(events) == ()
        assert judges[slow].calls
        return end_of(events).t_ms

    assert total_ms(readings=50) == total_ms(readings=0)


def test_a_stopped_run_ends_as_cancelled_after_the_round():
    target, draft = random_model(1), random_model(2)
    decoder = decoder_of(target, draft)
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    full = output_of(run_confspec(decoder, settings(60)))
    answers = iter([False, True])
    stopped = list(decoder.decode(request, settings(60), LaneClock(), lambda: next(answers)))
    assert end_of(stopped).reason == "cancelled"
    assert validate(stopped) == ()
    output = output_of(stopped)
    assert 0 < len(output) < len(full)
    assert output == full[: len(output)]


# The page's numbers, by hand


def test_the_numbers_of_the_page_follow_from_the_trace():
    judge = ScriptedJudge(by_length)
    decoder = decoder_of(random_model(1), random_model(21), draft_judge=judge, target_judge=judge)
    events = run_confspec(decoder, settings(80, temperature=1.0, threshold=0.75))
    numbers, end = summary(events), end_of(events)
    gates, resolved = of(StepGated, events), of(StepResolved, events)
    assert numbers.steps is not None
    kept = sum(event.kept == "draft" for event in resolved)
    assert numbers.steps.step_acceptance == pytest.approx(kept / len(gates))
    judged = [gate for gate in gates if gate.verdict_mass is not None]
    escalated = [gate for gate in gates if gate.decision == "escalate"]
    assert numbers.steps.escalation_rate == pytest.approx(len(escalated) / len(judged))
    by_draft = sum(e.origins.count("draft") for e in of(TokensCommitted, events))
    assert numbers.steps.tokens_by_draft == by_draft
    assert numbers.steps.tokens_by_target == len(output_of(events)) - by_draft
    assert [event.step for event in resolved] == list(range(len(resolved)))
    drafted = of(StepDrafted, events)
    draft_ms = sum(e.ms for e in drafted if e.author == "draft") + sum(gate.ms for gate in gates)
    verify_ms = sum(e.ms for e in drafted if e.author == "target")
    verify_ms += sum(e.ms for e in of(StepJudged, events))
    assert end.draft_ms == pytest.approx(draft_ms)
    assert end.verify_ms == pytest.approx(verify_ms)
    assert end.draft_ms > 0
    assert end.verify_ms > 0


def test_events_say_what_was_committed_and_by_whom():
    judge = ScriptedJudge(by_length)
    decoder = decoder_of(random_model(1), random_model(21), draft_judge=judge, target_judge=judge)
    events = run_confspec(decoder, settings(80, temperature=1.0, threshold=0.75))
    for resolved, committed in zip(
        of(StepResolved, events), of(TokensCommitted, events), strict=True
    ):
        assert set(committed.origins) == {resolved.kept}
        assert committed.step == resolved.step
        assert resolved.text == text_of(committed.token_ids)
