"""Output files: refused before a long run if they cannot be written, written all or nothing."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confu_demo.trace_io import check_destination


def check_json(path: Path | None) -> None:
    """Raises ``ValueError`` or ``OSError`` unless a file can be written at ``path``."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file name")
    _check_folder(path)


def check_trace(path: Path | None) -> None:
    """The same for a recording."""
    if path is not None:
        _check_folder(check_destination(path))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """UTF-8, one object, readable. Raises ``ValueError`` for a number that JSON does not know."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """UTF-8, all or nothing."""
    temporary = _beside(path)
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} may not be overwritten")
    # Asking for permission is not enough: some folders refuse files whatever their mode says.
    temporary = _beside(path)
    try:
        temporary.touch()
    except OSError as error:
        raise PermissionError(f"{path.name} cannot be written to {path.parent}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
