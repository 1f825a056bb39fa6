from __future__ import annotations

import io

from confu_demo.suite_weights.progress_bar import show
from confu_demo.suite_weights.steps import FetchStep

STEPS = [
    FetchStep(stage="download", done=0, total=2_000_000, detail="llm-tiny==0.1"),
    FetchStep(stage="download", done=1_000_000, total=2_000_000, detail="llm-tiny==0.1"),
    FetchStep(stage="download", done=2_000_000, total=2_000_000, detail="llm-tiny==0.1"),
    FetchStep(stage="convert", done=3_000_000, total=3_000_000, detail="model.safetensors"),
    FetchStep(stage="done", done=1, total=1, detail="/models/tiny"),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_one_moving_line_a_stage():
    out = Terminal()
    assert show(iter(STEPS), out) == "/models/tiny"
    lines = out.getvalue().split("\n")
    assert len(lines) == 4
    assert " 50 % of 2 MB  downloading llm-tiny==0.1" in lines[0]
    assert lines[0].count("\r") == 3
    assert "[##############################] 100 % of 3 MB" in lines[1]
    assert lines[2] == "\rready: /models/tiny"


def test_a_file_gets_one_plain_line_a_stage():
    out = io.StringIO()
    show(iter(STEPS), out)
    assert out.getvalue().splitlines() == [
        "downloading llm-tiny==0.1 from the package index",
        "converting to model.safetensors, once",
        "ready: /models/tiny",
    ]
