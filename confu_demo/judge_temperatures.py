"""The fitted temperatures of a suite's judges: ``judges.json`` in its folder, 1.0 without it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from confu_demo.engine.errors import CorruptModel

FIT_SPLIT = "calibration"
"""What temperatures are fitted on; never what is reported."""
FILE_NAME = "judges.json"


def read_temperatures(folder: Path) -> tuple[float, float]:
    """Of the draft's judge and of the target's. CorruptModel for a file that says nonsense."""
    path = folder / FILE_NAME
    if not path.is_file():
        return 1.0, 1.0
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        draft, target = float(found["draft"]), float(found["target"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptModel(f"{path} must name a draft and a target temperature") from error
    for value in (draft, target):
        if not (math.isfinite(value) and value > 0.0):
            raise CorruptModel(f"{path}: a judge's temperature must be above 0, not {value}")
    return draft, target


def write_temperatures(folder: Path, temperatures: Mapping[str, float]) -> None:
    rounded = {name: round(temperatures[name], 4) for name in ("draft", "target")}
    text = json.dumps(rounded | {"fitted_on": FIT_SPLIT}, indent=1) + "\n"
    (folder / FILE_NAME).write_text(text, encoding="utf-8")
