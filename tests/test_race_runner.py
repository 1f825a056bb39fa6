from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from confu_demo.config import DecodeConfig
from confu_demo.data.splits import problem
from confu_demo.decoding.registry import METHODS as REGISTRY
from confu_demo.decoding.registry import PARTS
from confu_demo.metrics import summary
from confu_demo.race_runner import SuiteRunner, make_runner
from confu_demo.trace import Event, RunFinished, RunStarted, TokensCommitted
from confu_demo.trace_validation import validate
from confu_demo.ui.runner import METHODS, ProblemCard, RaceRequest, RaceRunner
from confu_demo.ui.wording import dictionary
from tests.tiny_suite import copy_of_suite, loaded, suite_folder

REQUEST = RaceRequest(
    text="Tom has 3 apples. He buys 4. How many apples does Tom have?",
    methods=METHODS,
    config=DecodeConfig(max_new_tokens=12),
)


@pytest.fixture
def runner() -> SuiteRunner[ProblemCard]:
    return SuiteRunner(loaded(), ProblemCard)


def test_the_runner_is_what_the_page_asks_for(runner: SuiteRunner[ProblemCard]):
    asked: RaceRunner = runner  # mypy compares the signatures
    assert [method for method, _, _ in asked.methods()] == list(REGISTRY)


def test_methods_that_lack_a_model_say_why(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    shutil.rmtree(folder / "draft")
    methods = make_runner(str(folder), ProblemCard).methods()
    reasons = {method: why for method, available, why in methods if not available}
    assert set(reasons) == {name for name, method in REGISTRY.items() if "draft" in method.needs}
    assert set(reasons.values()) == {"unavailable.missing.draft"}


def test_the_page_has_words_for_every_reason():
    for part in PARTS:
        assert f"unavailable.missing.{part}" in dictionary()
    assert "unavailable.none.draft" in dictionary()


def test_a_race_brings_whole_valid_runs_of_every_lane(runner: SuiteRunner[ProblemCard]):
    events: dict[str, list[Event]] = {method: [] for method in METHODS}
    for lane, event in runner.race(REQUEST, lambda: False):
        events[lane].append(event)
    for of_lane in events.values():
        assert validate(of_lane) == ()
        first = of_lane[0]
        assert isinstance(first, RunStarted)
        assert first.provenance is not None
        assert first.provenance.device.startswith("cpu")
        assert summary(of_lane).num_tokens <= 12


def test_stop_ends_all_lanes_and_the_next_race_works(runner: SuiteRunner[ProblemCard]):
    flag = threading.Event()
    reasons = []
    for number, (_, event) in enumerate(runner.race(REQUEST, flag.is_set)):
        if number == 10:
            flag.set()
        if isinstance(event, RunFinished):
            reasons.append(event.reason)
    assert reasons == ["cancelled"] * len(METHODS)
    again = [event for _, event in runner.race(REQUEST, lambda: False)]
    assert sum(isinstance(event, RunFinished) for event in again) == len(METHODS)


def test_a_race_that_is_closed_frees_its_lanes(runner: SuiteRunner[ProblemCard]):
    events = runner.race(REQUEST, lambda: False)
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert next(events, None) is None


def test_every_slice_computes_with_the_suites_threads(runner: SuiteRunner[ProblemCard]):
    before = torch.get_num_threads()
    try:
        for _ in runner.race(REQUEST, lambda: False):
            assert torch.get_num_threads() == 1
            torch.set_num_threads(2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": " "}, "the prompt is empty"),
        ({"text": "word " * 300}, "do not fit the context"),
        ({"methods": ()}, "no methods are named"),
        ({"methods": ("medusa",)}, "unknown method"),
    ],
)
def test_a_race_that_cannot_run_is_refused_before_it_starts(
    runner: SuiteRunner[ProblemCard], changes: dict[str, object], message: str
):
    request = replace(REQUEST, **changes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        runner.check(request)
    with pytest.raises(ValueError, match=message):
        runner.race(request, lambda: False)


def test_a_missing_model_is_a_value_error_for_the_page(tmp_path: Path):
    folder = copy_of_suite(tmp_path)
    shutil.rmtree(folder / "confu")
    runner = make_runner(str(folder), ProblemCard, device="cpu", dtype="float32", threads=1)
    with pytest.raises(ValueError, match="confu needs confu, which is missing"):
        runner.check(REQUEST)
    runner.check(replace(REQUEST, methods=("autoregressive", "eagle3")))


def test_free_text_is_continued_as_it_stands(runner: SuiteRunner[ProblemCard]):
    request = replace(REQUEST, text="Once upon", methods=("autoregressive",), is_problem=False)
    events = [event for _, event in runner.race(request, lambda: False)]
    assert isinstance(events[0], RunStarted)
    assert events[0].prompt_text == "Once upon"
    assert any(isinstance(event, TokensCommitted) for event in events)


def test_new_problems_are_a_function_of_their_seed(runner: SuiteRunner[ProblemCard]):
    assert runner.new_problem(5, "shopping") == runner.new_problem(5, "shopping")
    assert runner.new_problem(5, "shopping") != runner.new_problem(6, "shopping")
    assert runner.new_problem(5, "shopping").family == "shopping"
    assert runner.new_problem(1).text
    with pytest.raises(ValueError, match="unknown family 'poetry'"):
        runner.new_problem(1, "poetry")


def test_the_gallery_shows_every_family_of_the_held_out_problems(
    runner: SuiteRunner[ProblemCard],
):
    cards = runner.gallery(12)
    held_out = {problem("heldout", index).text for index in range(100)}
    assert len(cards) == len({card.text for card in cards}) == 12
    assert all(card.text in held_out for card in cards)
    assert len({card.family for card in cards}) >= 8


def test_free_text_has_no_answers_and_its_lanes_do_not_wait_for_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CONFU_DEMO_CACHE", str(tmp_path))
    monkeypatch.delenv("CONFU_DEMO_MODELS", raising=False)
    runner = make_runner("smollm2-135m", ProblemCard)
    reasons = {method: why for method, _, why in runner.methods()}
    assert reasons["autoregressive"] == reasons["prompt_lookup"] == ""
    assert reasons["confspec"] == "unavailable.none.draft"
    cards = runner.gallery(12)
    assert {(card.answer, card.steps) for card in cards} == {(None, 0)}
    fresh = runner.new_problem(3, cards[0].family)
    assert (fresh.answer, fresh.family) == (None, cards[0].family)


def test_an_unknown_suite_is_refused():
    with pytest.raises(ValueError, match="unknown suite"):
        make_runner("gpt", ProblemCard)
    assert make_runner(str(suite_folder()), ProblemCard).methods()
