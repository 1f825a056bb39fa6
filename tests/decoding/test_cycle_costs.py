"""Costs are measured with the real parts once, and a start with a good cache measures nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from confu_demo.config import ConfuConfig, TreeConfig
from confu_demo.decoding import cycle_costs as module
from confu_demo.decoding.base import BoundModel
from confu_demo.decoding.confu import ConfuDecoder
from confu_demo.decoding.cycle_costs import cycle_costs
from confu_demo.decoding.eagle3 import Eagle3Decoder
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.engine.user_cache import FOLDER_VARIABLE
from confu_demo.trace import ModelInfo, RunStarted
from tests.decoding.kit import (
    bind,
    confu_head,
    eagle_head,
    output,
    plain,
    run,
    settings,
    tiny_model,
)

INFO = ModelInfo(role="head", name="tiny", sha256="ab", num_parameters=7)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture(scope="module")
def target() -> BoundModel:
    return bind(tiny_model())


@pytest.fixture(scope="module")
def head(target: BoundModel) -> PackedHead:
    return PackedHead(eagle_head(target.model), target.model)


def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*args: object) -> object:
        raise AssertionError("measured again")

    monkeypatch.setattr(module, "measure", measure)


def test_measured_costs_are_those_of_a_machine(target: BoundModel, head: PackedHead) -> None:
    costs = cycle_costs(target, head, INFO)
    rows = [row for row, _ in costs.verify.points]
    assert rows[0] == 1
    assert rows == sorted(set(rows))
    assert costs.verify.ms(1) > 0
    assert costs.draft_ms > 0
    assert [width for width, _ in costs.level.points] == [1, 2, 4, 8]
    assert costs.cycle_ms([1, 2], 8) >= costs.draft_ms + costs.verify.ms(1)


def test_the_second_start_measures_nothing(
    target: BoundModel, head: PackedHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cycle_costs(target, head, INFO)
    no_measuring(monkeypatch)
    assert cycle_costs(target, head, INFO) == first


def test_heads_of_one_target_share_what_verifying_costs(
    target: BoundModel, head: PackedHead, folder: Path
) -> None:
    first = cycle_costs(target, head, INFO)
    other = cycle_costs(target, head, replace(INFO, sha256="cd"), future_bias=0.0)
    assert other.verify == first.verify
    kinds = sorted(path.name.rpartition("-")[0] for path in folder.iterdir())
    assert kinds == ["draft-cost", "draft-cost", "verify-cost"]


@pytest.mark.parametrize(
    "changed", ["another head", "another target", "other threads", "other code"]
)
def test_what_was_measured_for_something_else_does_not_count(
    changed: str, target: BoundModel, head: PackedHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle_costs(target, head, INFO)
    no_measuring(monkeypatch)
    info, bound = INFO, target
    if changed == "another head":
        info = replace(INFO, sha256="cd")
    elif changed == "another target":
        bound = replace(target, info=replace(target.info, sha256="ef"))
    elif changed == "other threads":
        monkeypatch.setattr(target.model, "threads", 3)
    else:
        monkeypatch.setattr(module, "code_digest", lambda: "of another version")
    with pytest.raises(AssertionError, match="measured again"):
        cycle_costs(bound, head, info)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [[1, 2.0], [2, 1.0]],
        [["one", 2.0]],
        [[1, float("nan")], [2, 1.0]],
        {"start_ms": -1.0, "level": [[1, 0.2]]},
        {"start_ms": 0.5, "level": [[1, 0.3], [1, 0.2]]},
        {"level": [[1, 0.2]]},
        "text",
    ],
)
def test_a_kept_value_that_makes_no_sense_is_measured_anew(
    value: object, target: BoundModel, head: PackedHead, folder: Path
) -> None:
    cycle_costs(target, head, INFO)
    for path in folder.iterdir():
        content = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**content, "value": value}), encoding="utf-8")
    again = cycle_costs(target, head, INFO)
    assert again.verify.ms(1) > 0
    assert again.draft_ms > 0


def test_a_cache_that_cannot_be_written_changes_nothing_else(
    target: BoundModel, head: PackedHead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "file"))
    assert cycle_costs(target, head, INFO).draft_ms > 0


@pytest.mark.parametrize("method", ["eagle3", "confu"])
def test_a_decoder_measures_before_its_first_automatic_run_and_only_then(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = bind(tiny_model(seed=3))
    decoder: Eagle3Decoder | ConfuDecoder = Eagle3Decoder(target, eagle_head(target.model))
    if method == "confu":
        decoder = ConfuDecoder(target, confu_head(target.model))
    config = settings(12)
    auto = replace(config, tree=TreeConfig.auto(), confu=ConfuConfig(contemplate_budget=-2))
    with monkeypatch.context() as patch:
        no_measuring(patch)
        run(decoder, config)
    expected = plain(target, config)
    events = run(decoder, auto)
    assert output(events) == expected
    no_measuring(monkeypatch)
    again = run(decoder, auto)
    assert isinstance(events[0], RunStarted)
    assert isinstance(again[0], RunStarted)
    assert again[0].costs == events[0].costs is not None
