"""ConfSpec against slow references, with real and scripted judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from confu_demo.config import DecodeConfig
from confu_demo.decoding.autoregressive import AutoregressiveDecoder
from confu_demo.decoding.base import DecodeRequest, LaneClock
from confu_demo.decoding.confspec import LookaheadDecoder
from confu_demo.decoding.judge import ModelJudge, StepPair
from confu_demo.engine.target import LeanModel
from confu_demo.trace import (
    RunStarted,
    StepGated,
    StepJudged,
    StepResolved,
)
from tests.decoding.step_models import (
    EOS_ID,
    PROMPT,
    TOKENIZER,
    PlainWriter,
    always,
    authors_of,
    bind,
    decoder_of,
    end_of,
    of,
    output_of,
    random_model,
    run_confspec,
    settings,
    text_of,
)

DRAFT_STREAM = 2**63


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


# The end points


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


# Against Lookahead and against the draft judge alone, with real judges


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


def test_the_lookahead_lane_is_that_end_point_under_a_name_of_its_own():
    target, draft = random_model(1), random_model(1, difference=0.15)
    config = settings(60, draft_steps=3, threshold=0.9, audit=True)
    lane = LookaheadDecoder(bind(target), bind(draft, "draft_model"))
    events = run_confspec(lane, config)
    above = replace(config, confspec=replace(config.confspec, threshold=1.5, audit=False))
    same = run_confspec(decoder_of(target, draft), above)
    assert output_of(events) == output_of(same)
    assert authors_of(events) == authors_of(same)
    (start,) = of(RunStarted, events)
    assert start.method == "lookahead"
    assert dict(start.config)["confspec.threshold"] == "2.0"
    assert not any(event.audit for event in of(StepJudged, events))


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
