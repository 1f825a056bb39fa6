"""The comparison of packed and usual products runs on any target and measures both."""

from __future__ import annotations

import pytest

from confu_demo.bench.several_rows import main, measure
from confu_demo.suites import BUNDLED


def test_both_forms_are_measured_for_every_number_of_rows() -> None:
    found = measure(BUNDLED.folder_of("target"), threads=1, rows=(1, 3), repeats=2)
    assert list(found) == [1, 3]
    assert all(time > 0 for pair in found.values() for time in pair)


def test_the_command_prints_a_line_for_every_number_of_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([str(BUNDLED.folder_of("target")), "--threads", "1"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert [line.split()[0] for line in lines[-7:]] == ["1", "2", "4", "8", "16", "32", "64"]
