from __future__ import annotations

import pytest

from confu_demo.metrics import summary
from confu_demo.trace_validation import validate
from confu_demo.ui.runner import METHODS
from tests.ui.scripted_lanes import scripted_lanes


@pytest.mark.parametrize("method", METHODS)
def test_the_script_keeps_every_promise_of_a_real_trace(method: str):
    assert validate(scripted_lanes()[method]) == ()


def test_the_script_has_every_kind_of_event_and_outcome():
    """What the page's tests look at must be there to be seen."""
    lanes = scripted_lanes()
    kinds = {type(event).__name__ for events in lanes.values() for event in events}
    assert len(kinds) == 10
    origins = {o for events in lanes.values() for o in summary(events).origin_counts}
    assert origins == {"draft", "recovered", "bonus", "target"}
    steps = summary(lanes["confspec"]).steps
    assert steps is not None
    assert steps.num_escalated == 1
    assert steps.num_exact_matches == 1
    assert steps.bonus_steps == 1
