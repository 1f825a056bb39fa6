from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from confu_demo.config import DecodeConfig
from confu_demo.decoding.base import Clock, DecodeRequest, LaneClock, Stop
from confu_demo.metrics import summary
from confu_demo.provenance import collect
from confu_demo.race import Lane, one_sentence, race
from confu_demo.trace import Event, PrefillFinished, RunFinished, RunStarted, TokensCommitted
from confu_demo.trace_validation import validate
from tests.tiny_suite import loaded
from tests.traces import started

REQUEST = DecodeRequest(token_ids=(1, 2, 3), text="How many?")
CONFIG = DecodeConfig(max_new_tokens=12)


class HandClock:
    """A clock that moves when its decoder says so."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now(self) -> float:
        return self.ms

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass


@dataclass
class Scripted:
    """Prefills for ``costs[0]`` ms, then commits one token for each further cost."""

    costs: Sequence[float]
    fails_at: int | None = None
    ends_silently: bool = False
    method: str = "scripted"
    lossless: bool = True
    closed: bool = field(default=False, init=False)
    computed: int = field(default=0, init=False)

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        assert isinstance(clock, HandClock)
        return self._run(clock, stop)

    def _run(self, clock: HandClock, stop: Stop) -> Iterator[Event]:
        try:
            yield started(self.method)
            reason = "eos"
            for index, cost in enumerate(self.costs):
                if index and stop():
                    reason = "cancelled"
                    break
                if index == self.fails_at:
                    raise RuntimeError("out of memory\nand a long story")
                clock.ms += cost
                self.computed += 1
                if index == 0:
                    yield PrefillFinished(t_ms=clock.ms, num_tokens=3, ms=cost)
                else:
                    yield TokensCommitted(
                        t_ms=clock.ms, token_ids=(index,), origins=("target",), texts=(" t",)
                    )
            if not self.ends_silently:
                yield _finished(clock.ms, self.computed - 1, self.costs[0], reason)
        finally:
            self.closed = True


def _finished(t_ms: float, num_tokens: int, prefill_ms: float, reason: str) -> RunFinished:
    return RunFinished(
        t_ms=t_ms,
        reason=reason,  # type: ignore[arg-type]
        message="",
        num_tokens=num_tokens,
        target_forwards=num_tokens,
        target_tokens=num_tokens,
        draft_forwards=0,
        prefill_ms=prefill_ms,
        draft_ms=0.0,
        verify_ms=t_ms - prefill_ms,
        other_ms=0.0,
    )


class RefusesToStart:
    method = "scripted"
    lossless = True

    def decode(
        self, request: DecodeRequest, config: DecodeConfig, clock: Clock, stop: Stop
    ) -> Iterator[Event]:
        raise ValueError("the prompt is too long")


def lanes_of(**decoders: Scripted | RefusesToStart) -> list[Lane]:
    return [Lane(name=name, decoder=decoder, request=REQUEST) for name, decoder in decoders.items()]


def by_lane(pairs: Iterator[tuple[str, Event]]) -> dict[str, list[Event]]:
    events: dict[str, list[Event]] = {}
    for name, event in pairs:
        events.setdefault(name, []).append(event)
    return events


def test_the_next_slice_goes_to_the_lane_whose_clock_is_furthest_behind():
    lanes = lanes_of(slow=Scripted([10, 10, 10]), fast=Scripted([4, 4, 4, 4]))
    order = [
        (name, event.t_ms)
        for name, event in race(lanes, CONFIG, new_clock=HandClock)
        if isinstance(event, (PrefillFinished, TokensCommitted))
    ]
    assert order == [
        ("slow", 10),
        ("fast", 4),
        ("fast", 8),
        ("fast", 12),
        ("slow", 20),
        ("fast", 16),
        ("slow", 30),
    ]


def test_lanes_that_are_equally_far_take_turns_in_their_order():
    lanes = lanes_of(one=Scripted([5, 5]), two=Scripted([5, 5]))
    order = [name for name, _ in race(lanes, CONFIG, new_clock=HandClock)]
    # Starting costs nothing, so the first lane starts and prefills before the second one starts.
    assert order == ["one", "one", "two", "two", "one", "two", "one", "two"]


def test_every_lane_ends_with_its_own_result():
    lanes = lanes_of(slow=Scripted([10, 10, 10]), fast=Scripted([1, 1]))
    events = by_lane(race(lanes, CONFIG, new_clock=HandClock))
    assert {name: summary(own).total_ms for name, own in events.items()} == {"slow": 30, "fast": 2}
    assert all(validate(own) == () for own in events.values())


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_lane_that_raises_ends_with_one_sentence_and_the_others_go_on(fails_at: int):
    bad = Scripted([3, 3, 3], fails_at=fails_at)
    events = by_lane(race(lanes_of(bad=bad, good=Scripted([5, 5])), CONFIG, new_clock=HandClock))
    last = events["bad"][-1]
    assert isinstance(last, RunFinished)
    assert (last.reason, last.message) == ("error", "RuntimeError: out of memory")
    assert validate(events["bad"]) == ()
    assert summary(events["good"]).finish_reason == "eos"
    assert summary(events["good"]).num_tokens == 1


def test_a_lane_that_cannot_start_still_tells_a_whole_run():
    lanes = lanes_of(bad=RefusesToStart(), good=Scripted([5, 5]))
    events = by_lane(race(lanes, CONFIG, new_clock=HandClock))
    first, last = events["bad"]
    assert isinstance(first, RunStarted)
    assert isinstance(last, RunFinished)
    assert first.prompt_token_ids == REQUEST.token_ids
    assert last.message == "the prompt is too long"
    assert validate(events["bad"]) == ()
    assert summary(events["good"]).finish_reason == "eos"


def test_a_lane_that_ends_without_a_result_is_an_error():
    lanes = lanes_of(silent=Scripted([1, 1], ends_silently=True))
    last = by_lane(race(lanes, CONFIG, new_clock=HandClock))["silent"][-1]
    assert isinstance(last, RunFinished)
    assert (last.reason, last.message) == ("error", "silent ended without saying how")


def test_stop_ends_every_lane_as_cancelled_within_one_cycle():
    decoders = {"one": Scripted([2] * 50), "two": Scripted([3] * 50)}
    flag = threading.Event()
    computed: dict[str, int] = {}
    events: dict[str, list[Event]] = {name: [] for name in decoders}
    for name, event in race(lanes_of(**decoders), CONFIG, flag.is_set, new_clock=HandClock):
        events[name].append(event)
        if not flag.is_set() and event.t_ms >= 20:
            flag.set()
            computed = {name: decoder.computed for name, decoder in decoders.items()}
    for name, decoder in decoders.items():
        assert decoder.computed <= computed[name] + 1
        assert summary(events[name]).finish_reason == "cancelled"
        assert decoder.closed


def test_a_lane_that_has_not_started_when_it_is_stopped_never_computes():
    late = Scripted([1, 1])
    events = by_lane(race(lanes_of(late=late), CONFIG, lambda: True, new_clock=HandClock))
    assert late.computed == 0
    assert summary(events["late"]).finish_reason == "cancelled"
    assert validate(events["late"]) == ()


def test_closing_the_race_closes_every_lane():
    decoders = {"one": Scripted([2] * 50), "two": Scripted([3] * 50)}
    running = race(lanes_of(**decoders), CONFIG, new_clock=HandClock)
    for _ in range(10):
        next(running)
    running.close()  # type: ignore[attr-defined]
    assert [decoder.closed for decoder in decoders.values()] == [True, True]


def test_provenance_is_written_into_every_start():
    provenance = collect("cpu", "float32", 1, ["app.py"])
    lanes = lanes_of(one=Scripted([1, 1]), bad=RefusesToStart())
    events = race(lanes, CONFIG, new_clock=HandClock, provenance=provenance)
    found = [event.provenance for _, event in events if isinstance(event, RunStarted)]
    assert found == [provenance, provenance]


def test_two_lanes_of_the_same_name_are_refused_at_once():
    lane = Lane(name="twin", decoder=Scripted([1]), request=REQUEST)
    with pytest.raises(ValueError, match="its own name"):
        race([lane, lane], CONFIG)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("too long\nTraceback"), "too long"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError(), "RuntimeError"),
        (ValueError(""), "ValueError"),
    ],
)
def test_an_exception_is_told_in_one_sentence(error: Exception, sentence: str):
    assert one_sentence(error) == sentence


def test_a_lane_is_charged_for_its_own_work_only():
    """Real decoders; the consumer sleeps longer than all lanes compute."""
    suite = loaded()
    methods = ("autoregressive", "eagle3")
    request = suite.request("Tom has 3 apples.")
    suite.warm_up(methods, CONFIG)
    begin = time.perf_counter()
    events: dict[str, list[Event]] = {method: [] for method in methods}
    slept = 0.0
    for method, event in race(suite.lanes(methods, request), CONFIG, new_clock=LaneClock):
        events[method].append(event)
        time.sleep(0.01)
        slept += 0.01
    wall_ms = (time.perf_counter() - begin) * 1e3
    own_ms = sum(summary(of_lane).total_ms for of_lane in events.values())
    assert 0 < own_ms <= wall_ms - slept * 1e3


def test_real_lanes_keep_every_promise_and_lossless_ones_say_the_same():
    suite = loaded()
    methods = ("autoregressive", "prompt_lookup", "eagle3", "confu", "confspec")
    request = suite.request("Tom has 3 apples. He buys 4. How many apples does Tom have?")
    events = by_lane(race(suite.lanes(methods, request), CONFIG, new_clock=suite.new_clock))
    assert list(events) == list(methods)
    assert {method: validate(own) for method, own in events.items()} == dict.fromkeys(methods, ())
    plain = summary(events["autoregressive"]).token_ids
    assert len(plain) == CONFIG.max_new_tokens
    for method in ("prompt_lookup", "eagle3", "confu"):
        assert summary(events[method]).token_ids == plain
