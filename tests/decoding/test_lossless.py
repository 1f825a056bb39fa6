"""Speculative decoding writes exactly what the target writes, token for token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from confu_demo.config import ConfuConfig, LookupConfig
from confu_demo.decoding.base import BoundModel, Decoder
from confu_demo.decoding.confu import ConfuDecoder
from confu_demo.decoding.eagle3 import Eagle3Decoder
from confu_demo.decoding.prompt_lookup import PromptLookupDecoder
from confu_demo.engine.model_config import Family
from confu_demo.heads.confu import ConfuHead
from confu_demo.trace import DraftProposed, DraftVerified, Event, TokensCommitted
from confu_demo.trace_validation import validate
from tests.decoding.kit import (
    PROMPT,
    KnowingConfu,
    KnowingEagle,
    bind,
    confu_head,
    eagle_head,
    finish,
    output,
    plain,
    run,
    settings,
    tiny_model,
    varied,
)

METHODS = ("prompt_lookup", "eagle3", "confu")
KNOWING = ("eagle3", "confu")
FAMILIES: tuple[Family, ...] = ("llama", "qwen3")
CONTROLS = {
    "on": ConfuConfig(),
    "zeroed": ConfuConfig(future="zeroed"),
    "shuffled": ConfuConfig(future="shuffled"),
    "no soft prompts": ConfuConfig(soft_prompts=False),
    "no mixtures": ConfuConfig(mixtures=False),
    "no contemplate tokens": ConfuConfig(contemplate_budget=0),
    "a contemplate token at the root": ConfuConfig(contemplate_budget=1),
    "three contemplate tokens": ConfuConfig(contemplate_budget=3),
    "more budget than nodes": ConfuConfig(contemplate_budget=300),
}


def build(method: str, target: BoundModel, seed: int = 0) -> Decoder:
    if method == "prompt_lookup":
        return PromptLookupDecoder(target)
    if method == "eagle3":
        return Eagle3Decoder(target, eagle_head(target.model, seed))
    return ConfuDecoder(target, confu_head(target.model, seed))


def build_knowing(
    method: str, target: BoundModel, text: Sequence[int], seed: int = 0, most: int = 4
) -> Decoder:
    if method == "eagle3":
        eagle = KnowingEagle(target, eagle_head(target.model, seed))
        return eagle.know(text, varied(seed, most))
    confu = KnowingConfu(target, confu_head(target.model, seed))
    return confu.know(text, varied(seed, most))


def num_accepted(events: Sequence[Event]) -> list[int]:
    return [len(event.accepted) for event in events if isinstance(event, DraftVerified)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_greedy_speculative_decoding_equals_plain_decoding(
    seed: int, method: str, family: Family
) -> None:
    target = bind(tiny_model(family, seed=seed, vocab_size=7 + 8 * seed))
    decoder = build(method, target, seed)
    expected = plain(target, settings(18))
    for num_nodes, depth, top_k in ((1, 1, 1), (2, 1, 1), (6, 3, 2), (20, 5, 4)):
        for max_new_tokens in (1, 2, 18):
            config = settings(max_new_tokens, num_nodes=num_nodes, depth=depth, top_k=top_k)
            assert output(run(decoder, config)) == expected[:max_new_tokens]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_sampled_speculative_decoding_equals_plain_sampling_under_shared_noise(
    temperature: float, method: str, family: Family
) -> None:
    outputs = set()
    for seed in range(4):
        target = bind(tiny_model(family, seed=seed))
        config = settings(16, temperature=temperature, seed=seed)
        config = replace(config, sampling=replace(config.sampling, top_p=0.95, top_k=9))
        expected = plain(target, config)
        assert output(run(build(method, target, seed), config)) == expected
        outputs.add(tuple(expected))
    assert len(outputs) == 4


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("method", KNOWING)
@pytest.mark.parametrize("seed", range(4))
def test_long_accepted_paths_change_nothing(seed: int, method: str, temperature: float) -> None:
    target = bind(tiny_model(FAMILIES[seed % 2], seed=seed))
    config = settings(40, num_nodes=16, depth=6, temperature=temperature, seed=seed)
    expected = plain(target, config)
    decoder = build_knowing(method, target, (*PROMPT, *expected), seed)
    events = run(decoder, config)
    assert output(events) == expected
    accepted = num_accepted(events)
    assert {0, 1, 2, 3, 4} <= set(accepted)
    assert finish(events).target_forwards == len(accepted) < 20


@pytest.mark.parametrize("method", KNOWING)
def test_a_fully_accepted_path_ends_in_a_bonus_token(method: str) -> None:
    target = bind(tiny_model())
    config = settings(12, num_nodes=16, depth=6)
    expected = plain(target, config)
    text = (*PROMPT, *expected)
    knows_all = lambda cycle: 6  # noqa: E731
    decoder: Decoder = KnowingEagle(target, eagle_head(target.model)).know(text, knows_all)
    if method == "confu":
        decoder = KnowingConfu(target, confu_head(target.model)).know(text, knows_all)
    events = run(decoder, config)
    assert output(events) == expected
    last = [event for event in events if isinstance(event, TokensCommitted)][-1]
    assert last.origins[-1] == "bonus"


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_control_of_confu_is_lossless(name: str, temperature: float) -> None:
    for seed in range(2):
        target = bind(tiny_model(FAMILIES[seed % 2], seed=seed))
        config = settings(24, num_nodes=16, temperature=temperature, seed=seed)
        config = replace(config, confu=CONTROLS[name])
        expected = plain(target, config)
        decoder = build_knowing("confu", target, (*PROMPT, *expected), seed)
        events = run(decoder, config)
        assert output(events) == expected
        assert max(num_accepted(events)) > 1
    short = replace(config, max_new_tokens=9)
    assert output(run(build("confu", target), short)) == expected[:9]


@pytest.mark.parametrize("budget", [-1, 0, 1, 3])
def test_contemplate_tokens_are_counted_as_verified_tokens(budget: int) -> None:
    target = bind(tiny_model())
    config = replace(settings(12), confu=ConfuConfig(contemplate_budget=budget))
    events = run(build("confu", target), config)
    trees = {e.cycle: len(e.tree.token_ids) for e in events if isinstance(e, DraftProposed)}
    total = 0
    for event in events:
        if isinstance(event, DraftVerified):
            nodes = trees[event.cycle]
            assert event.num_contemplate_tokens == (nodes if budget < 0 else min(budget, nodes))
            where = event.contemplated_nodes
            assert where is not None
            assert len(where) == event.num_contemplate_tokens
            assert budget == 0 or where[0] == 0  # the root always has one
            assert event.num_target_tokens == nodes + event.num_contemplate_tokens
            total += event.num_target_tokens
    assert finish(events).target_tokens == total
    assert validate(events) == ()


def test_prompt_lookup_accepts_what_repeats() -> None:
    target = bind(tiny_model(seed=2, vocab_size=5))
    config = replace(settings(40), lookup=LookupConfig(max_ngram=3, num_draft_tokens=5))
    events = run(PromptLookupDecoder(target), config)
    assert output(events) == plain(target, config)
    accepted = num_accepted(events)
    assert max(accepted) == 5  # a greedy random model falls into a loop
    assert finish(events).target_forwards < 39


@pytest.mark.parametrize("method", METHODS)
def test_a_prompt_of_one_token_is_enough(method: str) -> None:
    target = bind(tiny_model())
    config = settings(9)
    events = run(build(method, target), config, prompt=(3,))
    assert output(events) == plain(target, config, prompt=(3,))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_confu_head_without_soft_prompts_is_lossless_too(temperature: float) -> None:
    target = bind(tiny_model(seed=1))
    whole = confu_head(target.model)
    head = ConfuHead(replace(whole.config, num_soft_prompts=0))
    state = whole.state_dict()
    state["soft_prompt.embeddings"] = state["soft_prompt.embeddings"][:0]
    head.load_state_dict(state)
    config = settings(16, temperature=temperature, seed=2)
    assert output(run(ConfuDecoder(target, head), config)) == plain(target, config)
