"""The pairs of a run by hand, the fitted temperatures on their way into the judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from confu_demo.__main__ import main
from confu_demo.bench.judge_calibration import JudgedPairs, calibration_report, fitted, pairs_of
from confu_demo.calibration_statistics import Verdicts
from confu_demo.decoding.judge import ModelJudge, _opinion
from confu_demo.engine.errors import CorruptModel
from confu_demo.judge_temperatures import read_temperatures, write_temperatures
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.suites import find_suite
from confu_demo.trace import Author, Event, StepDrafted, StepGated, StepJudged, Verdict
from tests.decoding.step_models import TOKENIZER, random_model
from tests.tiny_suite import copy_of_suite

RIGHT = "Tom's pens must be 3 + 4 = 7."
REWORDED = "4 + 3 = 7, which is Tom's pens."
WRONG = "Tom's pens must be 3 + 4 = 8."


def drafted(step: int, author: Author, text: str) -> StepDrafted:
    return StepDrafted(
        t_ms=0.0, step=step, author=author, text=text, token_ids=(1,), complete=True, ms=0.0
    )


def gated(step: int, verdict: Verdict, confidence: float, mass: float | None = 0.9) -> StepGated:
    exact = mass is None
    return StepGated(
        t_ms=0.0, step=step, verdict=verdict, confidence=confidence, verdict_mass=mass,
        threshold=2.0, decision="accept" if exact else "escalate", exact_match=exact, ms=0.0,
    )  # fmt: skip


def judged(step: int, verdict: Verdict, confidence: float) -> StepJudged:
    return StepJudged(
        t_ms=0.0, step=step, verdict=verdict, confidence=confidence, audit=False, ms=0.0
    )


def test_pairs_are_labelled_by_their_meaning_and_carry_both_judges():
    events: list[Event] = [
        drafted(0, "draft", RIGHT), drafted(1, "draft", WRONG), drafted(2, "draft", "Answer: 7"),
        drafted(0, "target", REWORDED), drafted(1, "target", RIGHT),
        drafted(2, "target", "Answer: 7"),
        gated(0, "same", 0.8), gated(1, "different", 0.7), gated(2, "same", 1.0, None),
        judged(0, "same", 0.95), judged(1, "same", 0.6),
    ]  # fmt: skip
    verdicts, exact = pairs_of(events)
    assert exact == 1
    assert verdicts == [
        Verdicts(is_same=True, draft_p_same=0.8, target_p_same=0.95, mass=0.9),
        Verdicts(is_same=False, draft_p_same=1.0 - 0.7, target_p_same=0.6, mass=0.9),
    ]


def test_the_report_scales_with_the_temperatures_that_it_is_given():
    pairs = JudgedPairs(
        verdicts=(
            Verdicts(is_same=True, draft_p_same=0.9, target_p_same=0.9),
            Verdicts(is_same=False, draft_p_same=0.9, target_p_same=0.1),
        ),
        exact_matches=5,
    )
    report = calibration_report(pairs, {"draft": 2.0, "target": 1.0}, 0.5)
    assert (report["pairs"], report["same"], report["exact_matches"]) == (2, 1, 5)
    draft = report["judges"]["draft"]
    assert draft["accuracy"] == 0.5
    assert draft["ece_at_temperature_1"] == pytest.approx(0.4)
    assert draft["ece"] == pytest.approx(0.25)  # 0.9 became 0.75
    at = {gate["threshold"]: gate for gate in report["gates"]}
    assert (at[0.7]["coverage"], at[0.8]["coverage"], at[2.0]["coverage"]) == (1.0, 0.0, 0.0)
    assert (at[0.7]["harmful"], at[0.8]["harmful"]) == (1, 0)
    assert set(fitted(pairs.verdicts)) == {"draft", "target"}


def test_a_judge_at_a_temperature_says_the_same_with_another_confidence():
    model = random_model(3)
    pairs = [(f"{n} apples", f"{m} pears") for n in range(3) for m in range(3)]
    plain = ModelJudge(model, TOKENIZER).compare(pairs).opinions
    warm = ModelJudge(model, TOKENIZER, temperature=2.0).compare(pairs).opinions
    for ours, theirs in zip(plain, warm, strict=True):
        assert (ours.verdict, ours.mass) == (theirs.verdict, theirs.mass)
        odds = ours.confidence / (1 - ours.confidence)
        assert theirs.confidence / (1 - theirs.confidence) == pytest.approx(odds**0.5)
    assert _opinion(0.0, 0.0, 2.0).confidence == 0.5
    assert _opinion(1.0, 0.0, 2.0).confidence == 1.0


def test_fitted_temperatures_come_back_and_nonsense_is_refused(tmp_path: Path):
    assert read_temperatures(tmp_path) == (1.0, 1.0)
    write_temperatures(tmp_path, {"draft": 1.23456, "target": 0.9})
    assert read_temperatures(tmp_path) == (1.2346, 0.9)
    for text in (
        "{",
        '{"draft": 1}',
        '{"draft": 0, "target": 1}',
        '{"draft": "a", "target": 1}',
        "[]",
    ):
        (tmp_path / "judges.json").write_text(text, encoding="utf-8")
        with pytest.raises(CorruptModel, match=r"judges\.json"):
            read_temperatures(tmp_path)


def test_the_command_measures_writes_and_the_suite_takes_the_temperatures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder, out = copy_of_suite(tmp_path), tmp_path / "c.json"
    words = ["calibrate", "--suite", str(folder), "--problems", "2", "--fit-problems", "2"]
    assert main([*words, "--json", str(out), "--write", "--max-new-tokens", "60"]) == 0
    printed = capsys.readouterr().out
    assert "2 problems of heldout" in printed
    assert "expected calibration error" in printed
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["settings"]["fit_split"] == "calibration"
    assert written["provenance"]["device"].startswith("cpu")
    assert len(written["judges"]["draft"]["reliability"]) == 10
    suite = LoadedSuite(find_suite(str(folder)), device="cpu", dtype="float32", threads=1)
    temperatures = suite.judge_temperatures
    assert temperatures == pytest.approx(
        tuple(written["judges"][name]["temperature"] for name in ("draft", "target")), abs=1e-4
    )


def test_the_split_that_temperatures_are_fitted_on_is_not_reported(
    capsys: pytest.CaptureFixture[str],
):
    assert main(["calibrate", "--split", "calibration"]) == 2
    assert "is what temperatures are fitted on" in capsys.readouterr().err
