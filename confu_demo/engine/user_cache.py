"""Small measurements that outlive a process: JSON files in the user's cache folder.

Owns where the folder is and the rule that a cache may fail and nobody notices: an unreadable,
damaged or foreign file is as good as none, and a folder that cannot be written to costs only the
next start's time. Knows nothing of what is measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "CONFU_DEMO_CACHE"
"""Environment variable that names another folder."""


def cache_folder() -> Path | None:
    """The folder (it may not exist yet), or None where the user has no home."""
    own = os.environ.get(FOLDER_VARIABLE)
    if own:
        return Path(own)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "confu_demo"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "confu_demo"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "confu_demo"


def recall(kind: str, key: Mapping[str, str]) -> Any:
    """The JSON value kept under ``kind`` and ``key``; None if there is none that can be read."""
    path = _path(kind, key)
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path is not None else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("key") != dict(key):
        return None
    return content.get("value")


def remember(kind: str, key: Mapping[str, str], value: Any) -> bool:
    """Keeps a JSON value; False where that was not possible. Never a half-written file."""
    path = _path(kind, key)
    if path is None:
        return False
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    text = json.dumps({"key": dict(key), "value": value}, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError:
        _discard(temporary)
        return False
    return True


def _path(kind: str, key: Mapping[str, str]) -> Path | None:
    folder = cache_folder()
    text = json.dumps(sorted(key.items()))
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:20]
    return None if folder is None else folder / f"{kind}-{digest}.json"


def _discard(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
