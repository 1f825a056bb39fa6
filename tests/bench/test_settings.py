from __future__ import annotations

import pytest

from confu_demo.bench.settings import BenchSettings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problems": 0}, "problems must be 1 or more, not 0"),
        ({"start": 990, "problems": 11}, "heldout has problems 0 to 999, not 990 to 1000"),
        ({"start": -1}, "heldout has problems 0 to 999"),
        ({"split": "exam"}, "unknown split 'exam'"),
        ({"repeats": 0}, "repeats must be 1 to 100"),
        ({"methods": ("medusa",)}, "unknown method"),
        ({"generate_problems": -1}, "generate problems must be 0 or more"),
        ({"check_problems": -1}, "check problems must be 0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        BenchSettings(**{"methods": ("autoregressive",), **changes})  # type: ignore[arg-type]


def test_the_last_problem_of_a_split_may_be_measured():
    settings = BenchSettings(methods=("autoregressive",), start=990, problems=10)
    assert list(settings.indices) == list(range(990, 1000))
