from __future__ import annotations

from confu_demo.ui.race_log import MAX_EVENTS, MAX_RUNS, MAX_SECONDS, RaceDesk, RaceRun
from confu_demo.ui.runner import RaceRequest
from tests.ui.scripted_lanes import scripted_lanes

REQUEST = RaceRequest(text="How many?", methods=("autoregressive",), expected_answer="3")
EVENTS = scripted_lanes()["autoregressive"]


def test_the_first_batch_says_what_race_it_is():
    run = RaceRun(REQUEST, "me")
    assert run.first == {
        "run": run.id,
        "seq": 0,
        "meta": {"prompt": "How many?", "expected": "3", "lanes": ["autoregressive"]},
        "events": [],
        "done": False,
    }


def test_batches_hold_at_most_the_limit_and_lose_nothing():
    run = RaceRun(REQUEST, "me")
    for event in EVENTS * 2:
        run.add("autoregressive", event)
    last = run.seal(done=True)
    batches = run.batches_from(0)
    assert [batch["seq"] for batch in batches] == list(range(len(batches)))
    assert all(len(batch["events"]) <= MAX_EVENTS for batch in batches)
    assert sum(len(batch["events"]) for batch in batches) == 2 * len(EVENTS)
    assert [batch["done"] for batch in batches] == [False] * (len(batches) - 1) + [True]
    assert last is batches[-1]
    assert run.done


def test_sealing_without_news_repeats_the_newest_batch():
    run = RaceRun(REQUEST, "me")
    run.add("autoregressive", EVENTS[0])
    newest = run.seal()
    assert run.seal() is newest
    assert not run.done


def test_a_race_can_be_claimed_once_and_then_has_a_time_limit():
    clock = [0.0]
    run = RaceRun(REQUEST, "me", now=lambda: clock[0])
    clock[0] = 1000.0  # in the queue
    assert not run.should_stop()
    assert run.claim()
    assert not run.claim()
    clock[0] += MAX_SECONDS - 1
    assert not run.should_stop()
    clock[0] += 2
    assert run.timed_out
    assert run.should_stop()


def test_a_new_race_stops_only_the_same_visitors_earlier_one():
    desk = RaceDesk()
    mine, other = desk.open(REQUEST, "me"), desk.open(REQUEST, "you")
    again = desk.open(REQUEST, "me")
    assert mine.should_stop()
    assert not other.should_stop()
    assert not again.should_stop()


def test_visitors_without_a_session_do_not_stop_each_other():
    desk = RaceDesk()
    first = desk.open(REQUEST, "")
    desk.open(REQUEST, "")
    assert not first.should_stop()


def test_the_desk_forgets_the_oldest_races():
    desk = RaceDesk()
    first = desk.open(REQUEST, "first")
    for visitor in range(MAX_RUNS):
        desk.open(REQUEST, str(visitor))
    assert desk.find(first.id) is None
    assert first.should_stop()


def test_missing_batches_are_given_to_those_who_know_the_run():
    desk = RaceDesk()
    run = desk.open(REQUEST, "me")
    for event in EVENTS:
        run.add("autoregressive", event)
    run.seal(done=True)
    assert desk.missing({"run": run.id, "from": 1}) == run.batches_from(1)
    assert desk.missing({"run": run.id, "from": 99}) == []
    assert desk.missing({"run": run.id, "from": -5}) == run.batches_from(0)


def test_strange_questions_get_an_empty_answer():
    desk = RaceDesk()
    run = desk.open(REQUEST, "me")
    strange: list[object] = [None, "x", [], {}, {"run": "unknown", "from": 0}, {"run": run.id}]
    for question in strange:
        assert desk.missing(question) == []
    assert desk.missing({"run": run.id, "from": "0"}) == []
