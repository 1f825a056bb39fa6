from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import gradio as gr
import pytest

from confu_demo.trace import Event
from confu_demo.ui.handlers import YIELDS_PER_SECOND, Handlers, card_state
from confu_demo.ui.no_engine import NoEngine
from confu_demo.ui.race_log import RaceDesk
from confu_demo.ui.runner import ProblemCard, RaceRequest
from confu_demo.ui.suites import SuiteEntry
from confu_demo.ui.wording import dictionary
from tests.ui.scripted_lanes import PROBLEM, scripted_lanes
from tests.ui.scripted_runner import ScriptedRunner
from tests.ui.scripted_suites import PROMPTS, STAGES, ScriptedFetcher, scripted_suites

FORM = (
    PROBLEM.text, True, ["autoregressive", "confu"], 0, 0, 64, "fixed", 12, 6, -1, "on", 0.9, 3,
    False,
)  # fmt: skip
SKIP = gr.skip()


class Ticking:
    """A clock that moves on by a fixed time whenever it is read."""

    def __init__(self, step: float) -> None:
        self.step, self.time = step, 0.0

    def __call__(self) -> float:
        self.time += self.step
        return self.time


def make(runner: Any = None, step: float = 0.001) -> tuple[Handlers, RaceDesk, ScriptedRunner]:
    runner = runner or ScriptedRunner()
    desk = RaceDesk()
    entry = SuiteEntry(name="bundled", runner=runner, gallery=(PROBLEM,))
    return Handlers([entry], desk, now=Ticking(step)), desk, runner


def begin(handlers: Handlers, form: Sequence[Any] = FORM) -> tuple[Any, Any, Any]:
    return handlers.begin(card_state(PROBLEM), *form, session="me")


def read(sent: str) -> dict[str, Any]:
    """A value as the page's scripts see it."""
    assert isinstance(sent, str), "Gradio would send differences of it"
    assert "<" not in sent
    return dict(json.loads(sent))


def events_of(desk: RaceDesk, run_id: str) -> list[tuple[str, str]]:
    batches = desk.missing({"run": run_id, "from": 0})
    return [(lane, event["event"]) for batch in batches for lane, event in batch["events"]]


def test_a_race_delivers_every_event_of_every_chosen_lane():
    handlers, desk, runner = make()
    _, run_id, sent = begin(handlers)
    first = read(sent)
    assert first["meta"]["lanes"] == ["autoregressive", "confu"]
    assert first["meta"]["expected"] == PROBLEM.answer
    yields = list(handlers.race(run_id))
    assert read(yields[-1][0])["done"]
    assert read(yields[-1][1])["key"] == "notice.done"
    found = events_of(desk, run_id)
    for lane in ("autoregressive", "confu"):
        names = [name for name_of_lane, name in found if name_of_lane == lane]
        assert names == [type(event).__name__ for event in scripted_lanes()[lane]]
    assert runner.num_closed == 1


@pytest.mark.parametrize("step", [0.001, 0.02, 0.3])
def test_the_page_is_never_sent_more_than_fifteen_updates_a_second(step: float):
    handlers, _, _ = make(step=step)
    clock = handlers._now
    _, run_id, _ = begin(handlers)
    times = []
    for _ in handlers.race(run_id):
        times.append(clock.time)  # type: ignore[attr-defined]
    gaps = [later - earlier for earlier, later in pairwise(times[:-1])]
    assert all(gap >= 1 / YIELDS_PER_SECOND - 1e-9 for gap in gaps)


def test_a_refused_entry_leaves_everything_else_as_it_was():
    handlers, _, _ = make()
    message, run_id, viewer = begin(handlers, ("", *FORM[1:]))
    assert read(message)["key"] == "notice.no_text"
    assert read(message)["kind"] == "error"
    assert run_id == SKIP
    assert viewer == SKIP


def test_what_the_runner_refuses_is_shown_in_its_own_sentence():
    handlers, _, _ = make()
    message, run_id, _ = begin(handlers, ("far too long", *FORM[1:]))
    assert read(message)["text"] == "the prompt has 900 tokens; this target reads at most 512"
    assert run_id == SKIP


def test_after_a_refusal_no_race_is_run_again():
    handlers, _, runner = make()
    _, run_id, _ = begin(handlers)
    list(handlers.race(run_id))
    assert list(handlers.race(run_id)) == [(SKIP, SKIP)]
    assert list(handlers.race(None)) == [(SKIP, SKIP)]
    assert runner.num_closed == 1


def test_stop_ends_the_race_at_the_next_cycle_and_the_next_one_runs():
    handlers, desk, runner = make(step=1.0)  # an update after every event
    _, run_id, _ = begin(handlers)
    race = handlers.race(run_id)
    next(race)
    assert read(handlers.stop(run_id))["key"] == "notice.stopped"
    rest = list(race)
    assert read(rest[-1][1])["key"] == "notice.stopped_now"
    assert events_of(desk, run_id)[-2:] == [
        ("autoregressive", "RunFinished"),
        ("confu", "RunFinished"),
    ]
    assert len(events_of(desk, run_id)) <= 4
    assert runner.num_closed == 1
    _, again, _ = begin(handlers)
    assert read(list(handlers.race(again))[-1][1])["key"] == "notice.done"


def test_stop_before_the_engines_turn_ends_the_race_without_computing():
    handlers, desk, _ = make()
    _, run_id, _ = begin(handlers)
    handlers.stop(run_id)
    list(handlers.race(run_id))
    assert {name for _, name in events_of(desk, run_id)} == {"RunFinished"}


def test_there_is_nothing_to_stop_before_and_after_a_race():
    handlers, _, _ = make()
    assert read(handlers.stop(None))["key"] == "notice.nothing_to_stop"
    _, run_id, _ = begin(handlers)
    list(handlers.race(run_id))
    assert read(handlers.stop(run_id))["key"] == "notice.nothing_to_stop"


def test_closing_the_update_stream_closes_the_engine():
    handlers, _, runner = make(step=1.0)
    _, run_id, _ = begin(handlers)
    race = handlers.race(run_id)
    next(race)
    assert runner.num_closed == 0
    race.close()  # type: ignore[attr-defined]
    assert runner.num_closed == 1


class Failing(ScriptedRunner):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def race(self, request: RaceRequest, stop: Callable[[], bool]) -> Iterator[tuple[str, Event]]:
        yield "confu", scripted_lanes()["confu"][0]
        raise self.error


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("confu cannot run: no room"), {"text": "confu cannot run: no room"}),
        (RuntimeError("secret details"), {"key": "notice.failed"}),
    ],
)
def test_a_failing_engine_ends_the_race_with_a_sentence(error: Exception, shown: dict[str, str]):
    handlers, desk, _ = make(Failing(error))
    _, run_id, _ = begin(handlers)
    batch, message = list(handlers.race(run_id))[-1]
    assert read(batch)["done"]
    assert read(message).items() >= shown.items()
    assert "secret" not in str(message)
    assert events_of(desk, run_id) == [("confu", "RunStarted")]


def test_choosing_a_problem_fills_in_its_text_and_answer():
    handlers, _, _ = make()
    assert handlers.choose(0) == (PROBLEM.text, card_state(PROBLEM))
    assert handlers.choose(7) == (SKIP, SKIP)
    assert handlers.choose(None) == (SKIP, SKIP)


def test_new_numbers_keep_the_family_and_bring_their_answer():
    handlers, _, _ = make()
    text, card, _ = handlers.new_numbers(card_state(PROBLEM))
    assert text == card["text"] != PROBLEM.text
    assert card["family"] == PROBLEM.family
    stranger = card_state(ProblemCard(text="x", answer="1", family="odd", steps=1))
    assert read(handlers.new_numbers(stranger)[2])["text"] == "unknown family 'odd'"


def test_a_page_without_an_engine_says_why_it_cannot_race():
    handlers, _, _ = make(NoEngine("torch is not installed"))
    assert read(begin(handlers)[0])["key"] == "notice.no_lanes"
    assert "torch is not installed" in read(handlers.new_numbers(None)[2])["text"]


def with_suites(fetcher: ScriptedFetcher) -> Handlers:
    return Handlers(scripted_suites(fetcher=fetcher), RaceDesk(), now=Ticking(0.001))


def test_a_race_runs_on_the_chosen_suites_runner():
    fetcher, runner = ScriptedFetcher(), ScriptedRunner()
    fetcher.is_here = True
    bundled, chat = scripted_suites(runner, fetcher)
    handlers = Handlers([bundled, chat], RaceDesk(), now=Ticking(0.001))
    card = handlers.first_card("smollm2-135m")
    assert card is not None
    form = (card["text"], *FORM[1:])
    _, run_id, sent = handlers.begin(card, *form, session="me", suite="smollm2-135m")
    assert read(sent)["meta"]["expected"] is None
    assert read(list(handlers.race(run_id))[-1][1])["key"] == "notice.done"
    assert runner.num_closed == 0


def test_a_race_without_its_weights_is_refused_and_other_suites_still_run():
    handlers = with_suites(ScriptedFetcher())
    message, run_id, _ = handlers.begin(None, *FORM, session="me", suite="smollm2-135m")
    assert read(message)["key"] == "notice.weights_missing"
    assert run_id == SKIP
    message, _, _ = handlers.begin(None, *FORM, session="me", suite="bundled")
    assert read(message)["key"] == "notice.running"


def test_a_fetch_tells_every_stage_and_takes_its_button_away():
    handlers = with_suites(ScriptedFetcher())
    assert handlers.fetch_button("smollm2-135m")["visible"]
    updates = list(handlers.fetch("smollm2-135m"))
    keys = [read(message)["key"] for message, _, _ in updates]
    assert keys == [*(f"fetch.{stage}" for stage in STAGES), "notice.fetched"]
    assert all(key in dictionary() for key in keys)
    assert [button["interactive"] for _, button, _ in updates[:-1]] == [False] * len(STAGES)
    assert updates[-1][1]["visible"] is False
    assert not handlers.fetch_button("smollm2-135m")["visible"]


def test_a_failed_fetch_says_why_and_can_be_tried_again():
    handlers = with_suites(ScriptedFetcher("the disk is full"))
    message, button, _ = list(handlers.fetch("smollm2-135m"))[-1]
    assert read(message)["key"] == "notice.fetch_failed"
    assert read(message)["args"] == {"reason": "the disk is full"}
    assert button["interactive"] is True
    assert read(list(handlers.fetch("smollm2-135m"))[-1][0])["key"] == "notice.fetched"


def test_closing_the_updates_of_a_fetch_stops_it():
    fetcher = ScriptedFetcher()
    updates = with_suites(fetcher).fetch("smollm2-135m")
    next(updates)
    updates.close()  # type: ignore[attr-defined]
    assert fetcher.num_closed == 1
    assert not fetcher.is_here


def test_a_suite_with_nothing_to_fetch_does_nothing():
    assert list(with_suites(ScriptedFetcher()).fetch("bundled")) == [(SKIP, SKIP, SKIP)]


def test_another_prompt_is_another_one():
    handlers = with_suites(ScriptedFetcher())
    card = handlers.first_card("smollm2-135m")
    for _ in range(5):
        assert card is not None
        text, fresh, _ = handlers.new_numbers(card, "smollm2-135m")
        assert text != card["text"]
        card = fresh


def test_choosing_a_prompt_looks_into_the_chosen_suite():
    handlers = with_suites(ScriptedFetcher())
    assert handlers.choose(1, "smollm2-135m")[0] == PROMPTS[1].text
    assert handlers.choose(0, "bundled")[0] == PROBLEM.text
