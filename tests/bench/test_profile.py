"""The profile: every millisecond belongs to one part, and nothing is left behind in the loop."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from confu_demo.__main__ import main
from confu_demo.bench.part_clock import PartClock, counted_copies, timed, timed_parts
from confu_demo.bench.profile import (
    OFF_CLOCK,
    OTHER,
    PARTS,
    Profile,
    profile,
    table_rows,
    verdict_line,
)
from confu_demo.config import ALL_NODES, ConfuConfig, DecodeConfig, TreeConfig
from confu_demo.decoding import confu, eagle3, verification
from confu_demo.decoding.auto_growth import make_growth
from confu_demo.decoding.contemplation import Contemplator
from tests.tiny_suite import copy_of_suite, loaded, suite_folder

MACHINE = ("--device", "cpu", "--dtype", "float32", "--threads", "1")


def arguments(*more: str) -> list[str]:
    return [
        "profile", "--suite", str(suite_folder()), "--problems", "1", "--max-new-tokens", "12",
        "--repeats", "2", *MACHINE, *more,
    ]  # fmt: skip


def functions() -> list[Any]:
    return [owner.__dict__[name] for named in PARTS.values() for owner, name in named]


def test_a_part_inside_another_stops_the_outer_ones_watch() -> None:
    clock = PartClock()
    clock.enter("outer")
    time.sleep(0.02)
    clock.enter("inner")
    time.sleep(0.05)
    clock.leave()
    clock.leave()
    time.sleep(0.02)  # nobody's
    assert clock.ms["inner"] >= 50
    assert 20 <= clock.ms["outer"] < 50
    assert set(clock.ms) == {"outer", "inner"}


def test_a_generators_time_is_that_inside_of_it() -> None:
    clock = PartClock()

    def slow() -> Iterator[int]:
        time.sleep(0.02)
        yield 1
        time.sleep(0.02)

    for _ in timed(slow, "slow", clock)():
        time.sleep(0.1)
    assert 40 <= clock.ms["slow"] < 100


def test_the_loop_is_as_before_after_a_profile_also_when_it_fails() -> None:
    before = functions()

    def fail() -> None:
        with timed_parts(PartClock(), PARTS), counted_copies():
            assert functions() != before
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert functions() == before
    assert "item" not in torch.Tensor.__dict__


def test_values_that_are_brought_to_python_are_counted() -> None:
    with counted_copies() as copies:
        tensor = torch.tensor([1, 0])
        tensor.tolist()
        if tensor[0]:
            int(tensor[1])
    assert copies.count == 3


def test_what_is_read_while_the_clock_stands_still_is_no_copy_of_the_cycle() -> None:
    def copies_a_cycle() -> float:
        found = profile(loaded(), ["confu"], "heldout", [0], DecodeConfig(max_new_tokens=8))
        return found["confu"].copies / found["confu"].cycles

    usual = copies_a_cycle()
    before = Contemplator.describe

    def reads_much(self: Contemplator, tokenizer: Any) -> Any:
        torch.arange(50).cpu()
        return before(self, tokenizer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Contemplator, "describe", reads_much)
        assert copies_a_cycle() == usual


@pytest.mark.parametrize("budget", [1, 3, ALL_NODES])
def test_where_a_look_has_its_price_a_cycle_has_one_copy_to_the_host(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on an accelerator: trees grow unseen, and what is read together is one copy."""

    def unseeing(*args: Any, may_look: bool, **options: Any) -> Any:
        return make_growth(*args, **options, may_look=False)

    def together(*tensors: Tensor) -> list[list[float]]:
        packed = iter(torch.cat([tensor.float() for tensor in tensors]).tolist())
        return [list(islice(packed, len(tensor))) for tensor in tensors]

    monkeypatch.setattr(eagle3, "make_growth", unseeing)
    monkeypatch.setattr(confu, "make_growth", unseeing)
    monkeypatch.setattr(verification, "to_host", together)
    config = DecodeConfig(
        max_new_tokens=12,
        tree=TreeConfig(num_nodes=6, depth=2, top_k=3),
        confu=ConfuConfig(contemplate_budget=budget),
    )
    methods = ("autoregressive", "prompt_lookup", "eagle3", "confu")
    for found in profile(loaded(), methods, "heldout", [0], config).values():
        # A last cycle of one token drafts nothing, and reads the root that it starts from.
        assert found.cycles <= found.copies <= found.cycles + 1


def test_every_repeat_is_a_run() -> None:
    config = DecodeConfig(max_new_tokens=4)
    (found,) = profile(loaded(), ["autoregressive"], "heldout", [0, 1], config, 3).values()
    assert found.runs == 6
    assert found.cycles == 6 * 3  # the prefill's own token is no cycle
    assert found.copies == found.cycles


def test_a_profile_has_the_parts_of_every_method_and_their_sum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "profile.json"
    assert main(arguments("--json", str(path))) == 0
    found = json.loads(path.read_text(encoding="utf-8"))["profiles"]
    assert list(found) == ["autoregressive", "prompt_lookup", "eagle3", "confu"]
    plain, ours = found["autoregressive"]["parts"], found["confu"]["parts"]
    assert set(plain) == {"target forward", "acceptance", "events", OTHER}
    own = {"target forward", "draft layer", "draft vocabulary", "mixtures", "contemplation"}
    assert own | {"tree", "tree planning", "masks", "cache"} < set(ours)
    assert found["autoregressive"]["cycles"] >= found["confu"]["cycles"] > 0
    for of_method in found.values():
        assert all(ms >= 0 for ms in of_method["parts"].values())
        assert OFF_CLOCK not in of_method["parts"]
        assert 0 < of_method["outside_share"] < 1
        assert of_method["plain_ms"] > 0
    printed = capsys.readouterr().out
    assert "\nnot a forward " in printed
    assert "\ncycle, stopwatches off " in printed
    assert f"torch {torch.__version__.split('+')[0]}" in printed
    assert printed.rstrip().splitlines()[-1].startswith("not a forward: under 10% ")


def test_the_table_gives_shares_and_marks_parts_that_a_method_lacks() -> None:
    some = Profile({"target forward": 6.0, "tree": 2.0}, 7.5, 10, 40, 2)
    other = Profile({"target forward": 9.0, OTHER: 1.0}, 9.5, 20, 20, 2)
    assert table_rows({"a": some, "b": other}) == [
        ("target forward", "6.00 (75.0%)", "9.00 (90.0%)"),
        ("tree", "2.00 (25.0%)", "-"),
        (OTHER, "-", "1.00 (10.0%)"),
        ("not a forward", "25.0%", "10.0%"),
        ("cycle, stopwatches on", "8.00", "10.00"),
        ("cycle, stopwatches off", "7.50", "9.50"),
        ("cycles a run", "5.0", "10.0"),
        ("tensor reads by Python", "4.0", "1.0"),
    ]


def test_the_verdict_says_who_is_under_ten_percent_and_who_is_not() -> None:
    lean = Profile({"target forward": 9.1, "tree": 0.9}, 9.5, 10, 10, 1)
    not_lean = Profile({"target forward": 9.0, "tree": 1.0}, 9.5, 10, 10, 1)
    never_ran = Profile({}, 0.0, 0, 0, 0)
    assert verdict_line({"a": lean, "b": not_lean, "c": never_ran}) == (
        "not a forward: under 10% a 9.0%; not under it b 10.0%"
    )
    assert verdict_line({"a": lean}).endswith("not under it none")


def test_a_folder_of_ones_own_is_profiled_with_what_it_can_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of_suite(tmp_path)
    shutil.rmtree(folder / "confu")
    shutil.rmtree(folder / "eagle3")
    more = ("--suite", str(folder), "--repeats", "1")
    assert main(arguments(*more)) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("part ")]
    assert [head.split() for head in heads] == [["part", "autoregressive", "prompt_lookup"]]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--methods", "confspec"), "confspec has no profile"),
        (("--problems", "0"), "problems must be 1 or more"),
        (("--repeats", "0"), "repeats must be 1 to"),
        (("--json", "/nowhere/profile.json"), "/nowhere"),
    ],
)
def test_a_wrong_profile_is_one_line_and_exit_status_2(
    more: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(*more)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
