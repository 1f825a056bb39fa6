"""ConfSpec against slow references, with real and scripted judges, and at every awkward end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

import pytest
import torch

from confu_demo.config import DecodeConfig, SamplingConfig
from confu_demo.decoding.autoregressive import AutoregressiveDecoder
from confu_demo.decoding.base import DecodeRequest, LaneClock
from confu_demo.decoding.confspec import ConfspecDecoder
from confu_demo.decoding.judge import ModelJudge, StepPair
from confu_demo.decoding.run import Run
from confu_demo.decoding.step_rounds import StepRounds
from confu_demo.decoding.steps import StepBoundary
from confu_demo.engine.target import LeanModel
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
    EOS_ID,
    PROMPT,
    TOKENIZER,
    PlainWriter,
    ScriptedJudge,
    always,
    bind,
    by_length,
    end_of,
    output_of,
    random_model,
    run_confspec,
    settings,
    toy_tokenizer,
)

DRAFT_STREAM = 2**63


def decoder_of(target: LeanModel, draft: LeanModel, **judges) -> ConfspecDecoder:
    return ConfspecDecoder(bind(target), bind(draft, "draft_model"), **judges)


def text_of(ids: Sequence[int]) -> str:
    return TOKENIZER.decode([token for token in ids if token != EOS_ID]).strip()


def reference(
    target: LeanModel,
    draft: LeanModel,
    config: DecodeConfig,
    is_kept: Callable[[StepPair], bool],
) -> tuple[list[int], list[str]]:
    """Step speculation without caches, packing or batches: output and the author of each step.

    With the target as judge this is Lookahead Reasoning.
    """
    sampling, confspec = config.sampling, config.confspec
    writer = PlainWriter(target, sampling, sampling.seed)
    drafter = PlainWriter(draft, sampling, sampling.seed + DRAFT_STREAM)
    output: list[int] = []
    authors: list[str] = []
    while len(output) < config.max_new_tokens and EOS_ID not in output:
        for place in range(confspec.draft_steps + 1):
            limit = min(confspec.max_step_tokens, config.max_new_tokens - len(output))
            if limit == 0 or EOS_ID in output:
                break
            theirs, their_end = writer.step([*PROMPT, *output], limit)
            ours, our_end = drafter.step([*PROMPT, *output], limit)
            pair = text_of(ours), text_of(theirs)
            equal = pair[0].lower().split() == pair[1].lower().split()
            kept = (
                place < confspec.draft_steps and our_end and their_end and (equal or is_kept(pair))
            )
            output += ours if kept else theirs
            authors.append("draft" if kept else "target")
            if not kept:
                break
    return output, authors


def authors_of(events: Sequence[Event]) -> list[str]:
    return [event.kept for event in events if isinstance(event, StepResolved)]


def of(kind: type, events: Sequence[Event]) -> list:
    return [event for event in events if isinstance(event, kind)]


# 1. The end points


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_without_draft_steps_it_is_plain_decoding_token_for_token(seed, temperature):
    target = random_model(seed)
    config = settings(40, temperature=temperature, seed=seed, draft_steps=0)
    events = run_confspec(decoder_of(target, random_model(9)), config)
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    plain = AutoregressiveDecoder(bind(target)).decode(request, config, LaneClock(), lambda: False)
    assert output_of(events) == output_of(list(plain))
    assert end_of(events).draft_forwards == 0
    assert set(authors_of(events)) == {"target"}


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("threshold", [0.4, 0.9, 1.5])
def test_an_always_rejecting_judge_gives_the_targets_own_text(threshold, temperature):
    target, draft = random_model(1), random_model(2)
    judges = {"draft_judge": always("different"), "target_judge": always("different")}
    config = settings(50, temperature=temperature, draft_steps=3, threshold=threshold)
    events = run_confspec(decoder_of(target, draft, **judges), config)
    plain = list(PlainWriter(target, config.sampling, 0).tokens(PROMPT, 50))
    assert output_of(events) == plain
    kept = [event for event in of(StepResolved, events) if event.kept == "draft"]
    assert all(event.text.lower().split() == event.other_text.lower().split() for event in kept)


def test_an_always_accepting_judge_gives_the_drafts_text_and_the_bonus_steps():
    target, draft = random_model(1), random_model(2)
    config = settings(50, draft_steps=2, threshold=0.4)
    decoder = decoder_of(target, draft, draft_judge=always("same"))
    events = run_confspec(decoder, config)
    assert (output_of(events), authors_of(events)) == reference(
        target, draft, config, lambda _: True
    )
    bonus = [event for event in of(StepResolved, events) if event.bonus]
    assert bonus
    assert {event.kept for event in bonus} == {"target"}
    assert {event.other_text for event in bonus} == {None}


# 2. Against Lookahead and against the draft judge alone, with real judges


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_threshold_above_one_equals_lookahead_with_the_target_as_judge(seed, temperature):
    target, draft = random_model(seed), random_model(seed, difference=0.15)
    judge = ModelJudge(target, TOKENIZER)
    config = settings(60, temperature=temperature, seed=seed, draft_steps=3, threshold=1.5)
    events = run_confspec(decoder_of(target, draft), config)
    expected = reference(
        target, draft, config, lambda pair: judge.compare([pair]).opinions[0].verdict == "same"
    )
    assert (output_of(events), authors_of(events)) == expected
    judged = [gate for gate in of(StepGated, events) if gate.verdict_mass is not None]
    assert {gate.decision for gate in judged} <= {"escalate"}
    assert {gate.ms for gate in judged} <= {0.0}


@pytest.mark.parametrize("seed", range(3))
def test_threshold_at_most_a_half_never_asks_the_target(seed):
    target, draft = random_model(seed), random_model(seed, difference=0.15)
    judge = ModelJudge(draft, TOKENIZER)
    config = settings(60, temperature=1.0, seed=seed, threshold=0.5, min_verdict_mass=1.0)
    events = run_confspec(decoder_of(target, draft), config)
    expected = reference(
        target, draft, config, lambda pair: judge.compare([pair]).opinions[0].verdict == "same"
    )
    assert (output_of(events), authors_of(events)) == expected
    assert of(StepJudged, events) == []


def test_the_references_took_every_path():
    seen = set()
    for seed in range(4):
        target, draft = random_model(seed), random_model(seed, difference=0.15)
        config = settings(60, temperature=1.0, seed=seed, threshold=1.5)
        for event in of(StepResolved, run_confspec(decoder_of(target, draft), config)):
            seen.add((event.kept, event.bonus))
    assert seen == {("draft", False), ("target", False), ("target", True)}


# 4. Caches, ends and budgets


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_every_cache_between_rounds_equals_a_fresh_prefill(seed, k):
    target, draft = bind(random_model(seed)), bind(random_model(seed, difference=0.2))
    config = settings(70, temperature=1.0, seed=seed, draft_steps=k, threshold=0.75)
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    run = Run("confspec", (), target, request, config, LaneClock())
    judge = ScriptedJudge(by_length)
    boundary = StepBoundary(TOKENIZER, target.eos_ids, len(TOKENIZER))
    rounds = StepRounds(run, draft.model, boundary, judge, judge)
    rounds.prefill()
    num_rounds = 0
    while run.reason is None:
        list(rounds.round())
        num_rounds += 1
        if run.reason is None:
            assert rounds.cache.length == len(run.ids) - 1
        for model, cache in ((target.model, rounds.cache), (draft.model, rounds.drafter.cache)):
            assert 0 < cache.length < len(run.ids)
            fresh = model.new_cache(cache.length)
            model.forward(fresh, token_ids=torch.tensor(run.ids[: cache.length]))
            for kind in ("k", "v"):
                ours = getattr(cache, kind)[:, :, : cache.length]
                torch.testing.assert_close(ours, getattr(fresh, kind), rtol=1e-9, atol=1e-9)
    assert num_rounds > 1


def test_the_draft_model_never_computes_a_kept_token_twice(monkeypatch):
    target, draft = random_model(1), random_model(2)
    held: list[int] = []  # what the draft model's cache holds
    computed: list[tuple[int, ...]] = []  # every token with everything before it
    forward = draft.forward

    def recording(cache, **arguments):
        del held[cache.length :]
        for token in arguments["token_ids"].tolist():
            held.append(token)
            computed.append(tuple(held))
        return forward(cache, **arguments)

    monkeypatch.setattr(draft, "forward", recording)
    judge = ScriptedJudge(by_length)
    decoder = decoder_of(target, draft, draft_judge=judge, target_judge=judge)
    events = run_confspec(decoder, settings(80, temperature=1.0, threshold=0.75))
    num_rounds = sum(event.kept == "target" for event in of(StepResolved, events))
    assert num_rounds > 3
    # only a round's first token, from which it continues, may be in the cache already
    assert len(computed) - len(set(computed)) <= num_rounds
    assert len(set(computed)) > 80


@pytest.mark.parametrize("k", [1, 3])
def test_every_budget_is_met_exactly_inside_steps_of_both_authors_and_on_boundaries(k):
    target, draft = random_model(5, eos=0.0), random_model(6, eos=0.0)
    judge = ScriptedJudge(by_length)
    decoder = decoder_of(target, draft, draft_judge=judge, target_judge=judge)
    ends, cut_drafts = set(), 0
    for budget in range(1, 22):
        events = run_confspec(decoder, settings(budget, draft_steps=k, max_step_tokens=8))
        assert (len(output_of(events)), end_of(events).reason) == (budget, "length")
        last = of(StepResolved, events)[-1]
        drafted = [e for e in of(StepDrafted, events) if e.step == last.step]
        ends.add((last.kept, next(e.complete for e in drafted[::-1] if e.author == last.kept)))
        cut_drafts += any(e.author == "draft" and len(e.token_ids) < 8 > 0 for e in drafted)
    # a draft step that the budget cuts is never kept: the target's stands in for it
    assert ends == {("draft", True), ("target", True), ("target", False)}
    assert cut_drafts


@pytest.mark.parametrize("seed", range(4))
def test_an_end_of_sequence_ends_the_run_wherever_it_stands(seed):
    target, draft = random_model(seed, eos=4.0), random_model(seed + 50, eos=4.0)
    for judge in (always("same"), always("different")):
        decoder = decoder_of(target, draft, draft_judge=judge)
        events = run_confspec(decoder, settings(200, temperature=1.0, seed=seed))
        output = output_of(events)
        assert end_of(events).reason == "eos"
        assert output.index(EOS_ID) == len(output) - 1


@pytest.mark.parametrize(("verdict", "kept"), [("same", "draft"), ("different", "target")])
def test_an_end_of_sequence_of_the_other_author_does_not_count(verdict, kept):
    """Draft steps that end the output and target steps that do not, and the reverse."""
    ending, going_on = random_model(3, eos=6.0, blank=0.0), random_model(3, eos=0.0)
    for target, draft in ((ending, going_on), (going_on, ending)):
        decoder = decoder_of(target, draft, draft_judge=always(verdict))
        config = settings(40, temperature=1.0, draft_steps=1, max_step_tokens=40)
        events = run_confspec(decoder, config)
        first = of(StepResolved, events)[0]
        assert first.kept == kept
        author_ends = (target if kept == "target" else draft) is ending
        steps = [e for e in of(TokensCommitted, events) if e.step == 0]
        assert (steps[0].token_ids[-1] == EOS_ID) == author_ends


def test_an_end_of_sequence_exactly_at_the_budget_is_an_end_of_sequence():
    target, draft = random_model(3, eos=4.0), random_model(53, eos=4.0)
    for judge in (always("same"), always("different")):
        decoder = decoder_of(target, draft, draft_judge=judge)
        free = output_of(run_confspec(decoder, settings(200, temperature=1.0)))
        assert free[-1] == EOS_ID
        exact = run_confspec(decoder, settings(len(free), temperature=1.0))
        assert (output_of(exact), end_of(exact).reason) == (free, "eos")


def test_a_model_that_never_emits_a_blank_line_is_cut_by_the_step_cap():
    target = random_model(1, blank=0.0, eos=0.0)
    judge = always("same")
    decoder = decoder_of(target, random_model(2, blank=0.0, eos=0.0), draft_judge=judge)
    events = run_confspec(decoder, settings(50, temperature=1.0, max_step_tokens=8))
    plain = list(PlainWriter(target, SamplingConfig(temperature=1.0), 0).tokens(PROMPT, 50))
    assert output_of(events) == plain
    assert judge.calls == []  # half-finished steps are rejected, never judged
    assert {gate.decision for gate in of(StepGated, events)} == {"reject"}
    assert max(len(e.token_ids) for e in of(StepDrafted, events)) == 8


def test_a_step_that_repeats_forever_is_cut_and_the_run_goes_on_to_its_budget():
    """The draft model repeats one token: its embedding decides its output."""
    target, draft = random_model(1), random_model(2)
    draft._head.zero_()
    draft._head[70] = 1.0
    draft._final_norm.fill_(1.0)
    config = settings(40, max_step_tokens=6)
    events = run_confspec(decoder_of(target, draft, draft_judge=always("same")), config)
    drafted = [e for e in of(StepDrafted, events) if e.author == "draft"]
    assert any(len(set(e.token_ids)) == 1 and len(e.token_ids) == 6 for e in drafted)
    assert end_of(events).num_tokens == 40


def test_empty_steps_are_steps_and_two_of_them_match():
    target, draft = random_model(1, blank=60.0, eos=0.0), random_model(2, blank=60.0, eos=0.0)
    judge = always("different")
    decoder = decoder_of(target, draft, draft_judge=judge)
    events = run_confspec(decoder, settings(40, temperature=1.0))
    empty = [gate for gate in of(StepGated, events) if gate.exact_match]
    assert empty
    texts_of_empty = {e.text for e in of(StepResolved, events) if e.kept == "draft"}
    assert texts_of_empty == {""}
    assert len(output_of(events)) == 40


def test_prompts_of_one_token_and_multi_token_blank_lines_work():
    target, draft = random_model(1), random_model(2)
    events = run_confspec(decoder_of(target, draft), settings(30), prompt=PROMPT[:1])
    assert len(output_of(events)) in range(1, 31)


def test_a_prompt_and_budget_beyond_either_context_are_refused_at_once():
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    small, large = random_model(1, max_positions=30), random_model(2)
    for target, draft in ((small, large), (large, small)):
        with pytest.raises(ValueError, match="do not fit the context of 30 tokens"):
            decoder_of(target, draft).decode(request, settings(40), LaneClock(), lambda: False)


def test_models_with_different_tokenizers_are_refused():
    other = bind(random_model(2))
    other = type(other)(
        **{item.name: getattr(other, item.name) for item in fields(other)}
        | {"tokenizer": toy_tokenizer(("\n\n", " same", " different"))}
    )
    with pytest.raises(ValueError, match="must have the same tokenizer"):
        ConfspecDecoder(bind(random_model(1)), other)


# 5. The gate at work


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


def test_verdicts_off_the_clock_cost_no_time_of_the_run():
    class SlowJudge(ScriptedJudge):
        def compare(self, pairs):
            for _ in range(20):
                clock.now()  # each reading costs a millisecond while the clock runs
            return super().compare(pairs)

    clock = CountingClock()
    target, draft = random_model(1), random_model(21)
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")

    def total(**options) -> float:
        nonlocal clock
        clock = CountingClock()
        judges = {
            "draft_judge": SlowJudge(by_length)
            if options["threshold"] > 1
            else ScriptedJudge(by_length),
            "target_judge": SlowJudge(by_length) if options["audit"] else ScriptedJudge(by_length),
        }
        decoder = decoder_of(target, draft, **judges)
        config = settings(40, temperature=1.0, min_verdict_mass=0.0, **options)
        events = list(decoder.decode(request, config, clock, lambda: False))
        assert validate(events) == ()
        parts = summary(events)
        return parts.draft_ms + parts.verify_ms

    assert total(threshold=0.4, audit=True) == total(threshold=0.4, audit=False)
    assert total(threshold=1.5, audit=False) < 40 * 20


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


# 6. The page's numbers, by hand


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
