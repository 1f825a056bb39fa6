"""The words of the page: one dictionary that Python and the viewer's JavaScript share.

``wording.json`` maps a key to one phrase per language; a phrase may hold ``{names}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "ko")
_FILE = Path(__file__).with_name("wording.json")


@cache
def dictionary() -> Mapping[str, Mapping[str, str]]:
    """``{key: {language: phrase}}``."""
    loaded: dict[str, dict[str, str]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return loaded


def say(language: str, key: str, **args: object) -> str:
    """The phrase for ``key``; an unknown language falls back to English. Raises ``KeyError`` for
    an unknown key or a name that the phrase needs and ``args`` lacks."""
    phrases = dictionary()[key]
    phrase = phrases[language if language in phrases else LANGUAGES[0]]
    return phrase.format_map(args) if args else phrase
