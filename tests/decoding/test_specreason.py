"""SpecReason against a slow reference, with scripted scores and with the likelihood's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from confu_demo.config import DecodeConfig, SpecreasonConfig
from confu_demo.decoding.autoregressive import AutoregressiveDecoder
from confu_demo.decoding.base import DecodeRequest, LaneClock
from confu_demo.decoding.run import Run
from confu_demo.decoding.specreason import ScoredRounds, SpecreasonDecoder
from confu_demo.decoding.step_scorer import LikelihoodScorer
from confu_demo.decoding.steps import StepBoundary
from confu_demo.engine.target import LeanModel
from confu_demo.metrics import summary
from confu_demo.trace import Event, StepDrafted, StepGated, StepResolved, TokensCommitted
from confu_demo.trace_validation import validate
from tests.decoding.step_models import (
    EOS_ID,
    PROMPT,
    TOKENIZER,
    PlainWriter,
    authors_of,
    bind,
    end_of,
    of,
    output_of,
    random_model,
    settings,
)

DRAFT_STREAM = 2**63


@dataclass
class ScriptedScorer:
    rule: Callable[[Sequence[int]], int]
    asked: list[tuple[int, ...]] = field(default_factory=list)

    def score(self, logits: Tensor, token_ids: Sequence[int]) -> int:
        assert logits.shape[0] == len(token_ids)
        self.asked.append(tuple(token_ids))
        return self.rule(token_ids)


def taste(token_ids: Sequence[int]) -> int:
    return (sum(token_ids) + 3 * len(token_ids)) % 10


def run_specreason(
    target: LeanModel,
    draft: LeanModel,
    config: DecodeConfig,
    rule: Callable[[Sequence[int]], int] | None = None,
) -> list[Event]:
    """All events of a run; every run of every test keeps the promises of its events."""
    scorer = None if rule is None else ScriptedScorer(rule)
    decoder = SpecreasonDecoder(bind(target), bind(draft, "draft_model"), scorer=scorer)
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    events = list(decoder.decode(request, config, LaneClock(), lambda: False))
    assert validate(events) == ()
    return events


def reference(
    target: LeanModel,
    draft: LeanModel,
    config: DecodeConfig,
    passes: Callable[[Sequence[int], Sequence[int]], bool],
) -> tuple[list[int], list[str]]:
    """One step after the other, without caches; ``passes`` sees the text so far and the step."""
    writer = PlainWriter(target, config.sampling, config.sampling.seed)
    drafter = PlainWriter(draft, config.sampling, config.sampling.seed + DRAFT_STREAM)
    output: list[int] = []
    authors: list[str] = []
    while len(output) < config.max_new_tokens and EOS_ID not in output:
        limit = min(config.confspec.max_step_tokens, config.max_new_tokens - len(output))
        step, is_whole = drafter.step([*PROMPT, *output], limit)
        kept = is_whole and passes([*PROMPT, *output], step)
        output += step if kept else writer.step([*PROMPT, *output], limit)[0]
        authors.append("draft" if kept else "target")
    return output, authors


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_steps_whose_score_reaches_the_threshold_are_kept_and_no_others(seed, temperature):
    target, draft = random_model(seed), random_model(seed, difference=0.3)
    config = replace(
        settings(70, temperature=temperature, seed=seed), specreason=SpecreasonConfig(threshold=5)
    )
    events = run_specreason(target, draft, config, taste)
    expected = reference(target, draft, config, lambda _, step: taste(step) >= 5)
    assert (output_of(events), authors_of(events)) == expected
    assert {"draft", "target"} <= set(authors_of(events))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_threshold_that_no_score_reaches_gives_the_targets_own_text(temperature):
    target, draft = random_model(1), random_model(2)
    config = replace(
        settings(50, temperature=temperature), specreason=SpecreasonConfig(threshold=10)
    )
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    plain = AutoregressiveDecoder(bind(target)).decode(request, config, LaneClock(), lambda: False)
    assert output_of(run_specreason(target, draft, config)) == output_of(list(plain))


def test_without_draft_steps_the_target_writes_alone():
    target = random_model(1)
    events = run_specreason(target, random_model(2), settings(50, draft_steps=0))
    assert output_of(events) == list(
        PlainWriter(target, settings(50).sampling, 0).tokens(PROMPT, 50)
    )
    assert end_of(events).draft_forwards == 0
    assert of(StepGated, events) == []


def test_one_step_is_drafted_at_a_time_and_the_target_writes_only_after_a_rejection():
    config = replace(settings(80, draft_steps=4), specreason=SpecreasonConfig(threshold=5))
    events = run_specreason(random_model(3), random_model(3, difference=0.3), config, taste)
    last: Event | None = None
    for event in events:
        if isinstance(event, StepDrafted) and event.author == "target":
            assert isinstance(last, StepGated)
            assert (last.step, last.decision) == (event.step, "reject")
        if isinstance(event, StepGated):
            assert isinstance(last, StepDrafted)
            assert (last.step, last.author) == (event.step, "draft")
        last = event
    resolved = of(StepResolved, events)
    drafts = {e.step: e.text for e in of(StepDrafted, events) if e.author == "draft"}
    assert all(e.other_text == (drafts[e.step] if e.kept == "target" else None) for e in resolved)


@pytest.mark.parametrize("seed", range(4))
def test_the_likelihood_scores_by_the_mean_log_probability_of_a_fresh_forward(seed):
    target, draft = random_model(seed), random_model(seed, difference=0.1)
    config = replace(settings(70, seed=seed), specreason=SpecreasonConfig(threshold=2))
    events = run_specreason(target, draft, config)
    known = list(PROMPT)
    steps = {e.step: e for e in of(StepDrafted, events) if e.author == "draft"}
    commits = iter(of(TokensCommitted, events))
    scores = []
    for gate in of(StepGated, events):
        step = steps[gate.step]
        if step.complete:
            ids = torch.tensor([*known, *step.token_ids])
            logits = target.forward(target.new_cache(len(ids)), token_ids=ids).logits
            own = logits[len(known) - 1 : -1].log_softmax(-1).gather(1, ids[len(known) :, None])
            assert gate.score == min(9, math.floor(10 * math.exp(float(own.mean()))))
            scores.append(gate.score)
        known += next(commits).token_ids
    assert len(scores) > 3
    assert max(scores) <= 9


def test_the_likelihood_gives_nine_to_a_sure_step_and_zero_to_an_absurd_one():
    logits = torch.full((3, 5), -30.0)
    logits[:, 2] = 30.0
    assert LikelihoodScorer().score(logits, [2, 2, 2]) == 9
    assert LikelihoodScorer().score(logits, [2, 2, 1]) == 0
    even = torch.zeros(4, 4)
    assert LikelihoodScorer().score(even, [0, 1, 2, 3]) == 2  # a quarter each


@pytest.mark.parametrize("seed", range(4))
def test_every_cache_between_rounds_equals_a_fresh_prefill(seed):
    target, draft = bind(random_model(seed)), bind(random_model(seed, difference=0.2))
    config = replace(
        settings(70, temperature=1.0, seed=seed), specreason=SpecreasonConfig(threshold=5)
    )
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    run = Run("specreason", (), target, request, config, LaneClock())
    boundary = StepBoundary(TOKENIZER, target.eos_ids, len(TOKENIZER))
    rounds = ScoredRounds(run, draft.model, boundary, ScriptedScorer(taste))
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
    assert num_rounds > 3


def test_every_budget_is_met_exactly_and_a_cut_draft_is_never_kept_nor_scored():
    target, draft = random_model(5, eos=0.0), random_model(6, eos=0.0)
    base = replace(settings(max_step_tokens=8), specreason=SpecreasonConfig(threshold=5))
    cut = 0
    for budget in range(1, 22):
        events = run_specreason(target, draft, replace(base, max_new_tokens=budget), taste)
        assert (len(output_of(events)), end_of(events).reason) == (budget, "length")
        unfinished = {
            e.step for e in of(StepDrafted, events) if e.author == "draft" and not e.complete
        }
        gates = [e for e in of(StepGated, events) if e.step in unfinished]
        assert all((e.score, e.decision, e.ms) == (0, "reject", 0.0) for e in gates)
        cut += len(gates)
    assert cut


def test_the_numbers_of_a_run_count_scores_as_the_targets_work():
    config = replace(settings(80), specreason=SpecreasonConfig(threshold=5))
    events = run_specreason(random_model(3), random_model(3, difference=0.3), config, taste)
    metrics = summary(events)
    assert metrics.steps is not None
    gates, resolved = of(StepGated, events), of(StepResolved, events)
    kept = sum(event.kept == "draft" for event in resolved)
    assert metrics.steps.num_gated == len(gates)
    assert metrics.steps.step_acceptance == pytest.approx(kept / len(gates))
    assert metrics.steps.num_judged == 0
    assert metrics.steps.escalation_rate is None
    written = [e for e in of(StepDrafted, events) if e.author == "target"]
    assert end_of(events).verify_ms == pytest.approx(sum(e.ms for e in [*gates, *written]))
    partial = summary(events[:-1])  # still running: from the events alone
    assert partial.verify_ms == pytest.approx(end_of(events).verify_ms)


def test_a_score_against_its_decision_breaks_a_promise():
    config = replace(settings(80), specreason=SpecreasonConfig(threshold=5))
    events = run_specreason(random_model(3), random_model(3, difference=0.3), config, taste)
    place = next(
        i for i, e in enumerate(events) if isinstance(e, StepGated) and e.decision == "accept"
    )
    gate = events[place]
    assert isinstance(gate, StepGated)

    def broken(**changes: Any) -> tuple[str, ...]:
        return validate([*events[:place], replace(gate, **changes), *events[place + 1 :]])

    assert any(
        "yet different and reject" in line
        for line in broken(decision="reject", verdict="different")
    )
    assert any("is not score" in line for line in broken(score=(gate.score or 0) - 1))
    assert any("score is 12" in line for line in broken(score=12, confidence=12 / 9))


@pytest.mark.parametrize("threshold", [-1, 11])
def test_an_impossible_threshold_is_refused(threshold):
    with pytest.raises(ValueError, match="score threshold must be 0 to 10"):
        SpecreasonConfig(threshold=threshold)


def test_models_with_different_tokenizers_are_refused():
    from tests.decoding.step_models import toy_tokenizer

    target = bind(random_model(1))
    other = replace(bind(random_model(2)), tokenizer=toy_tokenizer(("\n\n",)))
    with pytest.raises(ValueError, match="same tokenizer"):
        SpecreasonDecoder(target, other)
