"""Where a run ends: end of text, length, context, stop; and what it leaves behind."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from confu_demo.config import ConfuConfig, DecodeConfig
from confu_demo.decoding.autoregressive import AutoregressiveDecoder
from confu_demo.decoding.base import BoundModel, DecodeRequest, LaneClock
from confu_demo.engine.cache import KVCache
from confu_demo.engine.target import LeanModel
from confu_demo.trace import DraftVerified, RunFinished, TokensCommitted
from tests.decoding.kit import (
    MAX_POSITIONS,
    PROMPT,
    bind,
    finish,
    output,
    plain,
    run,
    settings,
    tiny_model,
)
from tests.decoding.test_lossless import KNOWING, METHODS, build, build_knowing

ALL = ("autoregressive", *METHODS)


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> list[KVCache]:
    """Every cache that models make, kept alive for inspection."""
    made: list[KVCache] = []
    new_cache = LeanModel.new_cache

    def recording(self: LeanModel, capacity: int) -> KVCache:
        made.append(new_cache(self, capacity))
        return made[-1]

    monkeypatch.setattr(LeanModel, "new_cache", recording)
    return made


def decoder_of(method: str, target: BoundModel) -> Any:
    return AutoregressiveDecoder(target) if method == "autoregressive" else build(method, target)


def with_eos_inside(seed: int) -> tuple[BoundModel, DecodeConfig, list[int], list[int]]:
    """A target whose end-of-text token comes up late; what it writes with and without it."""
    model = tiny_model(seed=seed, vocab_size=40)
    config = settings(40, num_nodes=16, depth=6, temperature=1.0, seed=seed)
    endless = plain(bind(model), config)
    eos = next(t for i, t in enumerate(endless) if i > 8 and t not in endless[:i])
    return bind(model, [eos]), config, endless, endless[: endless.index(eos) + 1]


@pytest.mark.parametrize("method", KNOWING)
@pytest.mark.parametrize("most", [2, 5])
def test_nothing_after_an_end_of_text_inside_an_accepted_path(
    method: str, most: int, caches: list[KVCache]
) -> None:
    cut_inside = 0
    for seed in range(4):
        target, config, endless, expected = with_eos_inside(seed)
        decoder = build_knowing(method, target, (*PROMPT, *endless), seed, most)
        caches.clear()
        events = run(decoder, config)
        assert output(events) == expected
        end = finish(events)
        assert (end.reason, end.num_tokens) == ("eos", len(expected))
        verified = [event for event in events if isinstance(event, DraftVerified)][-1]
        committed = [event for event in events if isinstance(event, TokensCommitted)][-1]
        is_inside = len(committed.token_ids) <= len(verified.accepted)
        cut_inside += is_inside
        assert caches[0].length == len(PROMPT) + len(expected) - (not is_inside)
    assert cut_inside > 0


@pytest.mark.parametrize("method", ALL)
def test_the_length_limit_is_exact(method: str) -> None:
    target = bind(tiny_model(seed=1))
    longest = plain(target, settings(9))
    for limit in range(1, 9):
        events = run(decoder_of(method, target), settings(limit))
        assert output(events) == longest[:limit]
        assert finish(events).reason == "length"


@pytest.mark.parametrize("method", KNOWING)
def test_the_length_limit_cuts_an_accepted_path(method: str) -> None:
    target = bind(tiny_model(seed=1))
    longest = plain(target, settings(24))
    for limit in range(2, 12):
        decoder = build_knowing(method, target, (*PROMPT, *longest), seed=3, most=6)
        events = run(decoder, settings(limit, num_nodes=16, depth=6))
        assert output(events) == longest[:limit]


def test_an_end_of_text_as_the_last_allowed_token_is_an_end_of_text() -> None:
    model = tiny_model(seed=1)
    tokens = plain(bind(model), settings(6))
    first = tokens.index(tokens[-1]) + 1
    for method in ALL:
        events = run(decoder_of(method, bind(model, [tokens[-1]])), settings(first))
        assert output(events) == tokens[:first]
        assert finish(events).reason == "eos"


@pytest.mark.parametrize("method", ALL)
def test_an_end_of_text_as_the_first_token_ends_the_run(method: str) -> None:
    model = tiny_model(seed=1)
    first = plain(bind(model), settings(1))
    events = run(decoder_of(method, bind(model, first)), settings(9))
    assert output(events) == first
    assert finish(events).reason == "eos"
    assert finish(events).target_forwards == 0


@pytest.mark.parametrize("method", ALL)
def test_a_run_that_cannot_fit_the_context_is_refused_at_once(method: str) -> None:
    decoder = decoder_of(method, bind(tiny_model()))
    room = MAX_POSITIONS - len(PROMPT)
    request = DecodeRequest(token_ids=PROMPT, text="")
    with pytest.raises(ValueError, match=rf"prompt \(6 tokens\) and {room + 1} new tokens"):
        decoder.decode(request, settings(room + 1), LaneClock(), lambda: False)
    empty = DecodeRequest(token_ids=(), text="")
    with pytest.raises(ValueError, match="prompt is empty"):
        decoder.decode(empty, settings(3), LaneClock(), lambda: False)
    events = run(decoder, settings(room, num_nodes=32, depth=8))
    assert finish(events).num_tokens == room


@pytest.mark.parametrize("method", ALL)
def test_a_set_stop_flag_ends_the_run_before_the_next_cycle(method: str) -> None:
    asked = iter([False, False, True])
    events = run(decoder_of(method, bind(tiny_model())), settings(30), stop=asked.__next__)
    assert finish(events).reason == "cancelled"
    assert finish(events).target_forwards == 2


@pytest.mark.parametrize("method", ALL)
def test_closing_the_generator_frees_the_cache(method: str, caches: list[KVCache]) -> None:
    decoder = decoder_of(method, bind(tiny_model()))
    request = DecodeRequest(token_ids=PROMPT, text="")
    caches.clear()  # soft prompts had one of their own
    events = decoder.decode(request, settings(20), LaneClock(), lambda: False)
    for _ in range(6):
        next(events)
    alive = weakref.ref(caches.pop())
    assert alive() is not None
    events.close()
    assert alive() is None


@pytest.mark.parametrize("method", ALL)
def test_an_error_in_mid_run_is_passed_on_and_frees_the_cache(
    method: str, caches: list[KVCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = decoder_of(method, bind(tiny_model()))
    caches.clear()

    def breaking() -> Iterator[bool]:
        yield False
        raise RuntimeError("the device is gone")

    clock = LaneClock()
    request = DecodeRequest(token_ids=PROMPT, text="")
    events = decoder.decode(request, settings(20), clock, breaking().__next__)
    with pytest.raises(RuntimeError, match="the device is gone"):
        list(events)
    alive = weakref.ref(caches.pop())
    assert alive() is None
    stands = clock.now()
    assert clock.now() == stands


@pytest.mark.parametrize("budget", [-1, 0, 2])
@pytest.mark.parametrize("method", METHODS)
def test_the_cache_after_any_cycle_equals_a_fresh_prefill(
    method: str, budget: int, caches: list[KVCache]
) -> None:
    model = tiny_model("qwen3", dtype=torch.float64)
    target = bind(model)
    config = replace(settings(30, num_nodes=16), confu=ConfuConfig(contemplate_budget=budget))
    text = (*PROMPT, *plain(target, config))
    for num_cycles in range(1, 8):
        if method == "prompt_lookup":
            decoder = build(method, target)
        else:
            decoder = build_knowing(method, target, text, seed=num_cycles)
        caches.clear()
        events = run(decoder, config, stop=iter([False] * num_cycles + [True]).__next__)
        kept = caches[0]
        num_tokens = len(PROMPT) + finish(events).num_tokens - 1  # the newest has no row yet
        assert kept.length == num_tokens
        fresh = model.new_cache(num_tokens)
        model.forward(fresh, token_ids=torch.tensor(text[:num_tokens]))
        for mine, right in ((kept.k, fresh.k), (kept.v, fresh.v)):
            torch.testing.assert_close(mine[:, :, :num_tokens], right, atol=1e-12, rtol=1e-10)


class Metronome:
    """A clock whose every reading is one millisecond after the last; counts nothing paused."""

    def __init__(self) -> None:
        self.ms, self.is_running, self.log = 0.0, False, ""

    def now(self) -> float:
        assert self.is_running
        self.ms += 1.0
        return self.ms

    def pause(self) -> None:
        self.is_running = False

    def resume(self) -> None:
        self.is_running = True


@pytest.mark.parametrize("method", ALL)
def test_the_clock_stands_still_while_an_event_is_consumed(method: str) -> None:
    clock = Metronome()
    request = DecodeRequest(token_ids=PROMPT, text="")
    decoder = decoder_of(method, bind(tiny_model()))
    events = []
    for event in decoder.decode(request, settings(9), clock, lambda: False):
        assert not clock.is_running
        assert not torch.is_inference_mode_enabled()
        events.append(event)
    assert not clock.is_running
    end = events[-1]
    assert isinstance(end, RunFinished)
    parts = end.prefill_ms + end.draft_ms + end.verify_ms + end.other_ms
    assert parts == pytest.approx(end.t_ms)
    assert end.verify_ms == end.target_forwards
    assert end.other_ms > 0
