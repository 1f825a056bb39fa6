"""ConfSpec at every awkward end, and its caches between rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from confu_demo.config import SamplingConfig
from confu_demo.decoding.base import DecodeRequest, LaneClock
from confu_demo.decoding.confspec import ConfspecDecoder
from confu_demo.decoding.run import Run
from confu_demo.decoding.step_rounds import StepRounds
from confu_demo.decoding.steps import StepBoundary
from confu_demo.trace import (
    StepDrafted,
    StepGated,
    StepResolved,
    TokensCommitted,
)
from tests.decoding.step_models import (
    EOS_ID,
    PROMPT,
    TOKENIZER,
    PlainWriter,
    ScriptedJudge,
    always,
    bind,
    by_length,
    decoder_of,
    end_of,
    of,
    output_of,
    random_model,
    run_confspec,
    settings,
    toy_tokenizer,
)


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
        cut_drafts += any(
            e.author == "draft" and not e.complete and len(e.token_ids) < 8 for e in drafted
        )
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
    target = random_model(1)
    draft = random_model(2, scales=dict.fromkeys(range(len(TOKENIZER)), 0.0))  # always token 0
    config = settings(40, max_step_tokens=6)
    events = run_confspec(decoder_of(target, draft, draft_judge=always("same")), config)
    drafted = [e for e in of(StepDrafted, events) if e.author == "draft"]
    assert {e.token_ids for e in drafted if len(e.token_ids) == 6} == {(0,) * 6}
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


def test_a_prompt_of_one_token_is_enough():
    target, draft = random_model(1), random_model(2)
    config = settings(30, temperature=1.0, draft_steps=0)
    events = run_confspec(decoder_of(target, draft), config, prompt=PROMPT[:1])
    writer = PlainWriter(target, config.sampling, 0)
    assert output_of(events) == list(writer.tokens(PROMPT[:1], 30))


def test_steps_end_where_two_newline_tokens_meet_if_no_token_is_a_blank_line():
    tokenizer = toy_tokenizer((" same", " different"))
    newline = tokenizer.encode("\n", add_special_tokens=False)[0]
    models = [random_model(seed, blank=0.0, scales={newline: 8.0}) for seed in (1, 2)]
    bound = [replace(bind(model), tokenizer=tokenizer) for model in models]
    events = run_confspec(ConfspecDecoder(*bound), settings(60, temperature=1.0))
    complete = [e.token_ids for e in of(StepDrafted, events) if e.complete]
    assert any(ids[-2:] == (newline, newline) for ids in complete)
    for ids in complete:
        assert ids[-2:] == (newline, newline) or ids[-1] == EOS_ID
        assert "\n\n" not in tokenizer.decode(ids[:-1])


def test_a_prompt_and_budget_beyond_either_context_are_refused_at_once():
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    small, large = random_model(1, max_positions=30), random_model(2)
    for target, draft in ((small, large), (large, small)):
        with pytest.raises(ValueError, match="do not fit the context of 30 tokens"):
            decoder_of(target, draft).decode(request, settings(40), LaneClock(), lambda: False)


def test_models_with_different_tokenizers_are_refused():
    tokenizer = toy_tokenizer(("\n\n", " same", " different"))
    other = replace(bind(random_model(2)), tokenizer=tokenizer)
    with pytest.raises(ValueError, match="must have the same tokenizer"):
        ConfspecDecoder(bind(random_model(1)), other)
