from __future__ import annotations

import re
from string import Formatter

import pytest

from confu_demo.ui.assets import ASSETS
from confu_demo.ui.controls import BUTTONS
from confu_demo.ui.race_form import FIELDS
from confu_demo.ui.runner import METHODS
from confu_demo.ui.wording import LANGUAGES, dictionary, say


def names_in(phrase: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(phrase) if name is not None}


def test_every_phrase_exists_in_every_language():
    for key, phrases in dictionary().items():
        assert tuple(phrases) == LANGUAGES, key
        assert all(phrase.strip() for phrase in phrases.values()), key


def test_both_languages_use_the_same_names():
    for key, phrases in dictionary().items():
        assert names_in(phrases["en"]) == names_in(phrases["ko"]), key


def test_korean_phrases_are_korean():
    """Names, numbers and signs may be all there is; a sentence without Hangul was forgotten."""
    foreign = [
        key
        for key, phrases in dictionary().items()
        if len(phrases["ko"].split()) > 3 and not re.search("[가-힣]", phrases["ko"])
    ]
    assert foreign == []


def test_every_key_that_a_script_says_literally_exists():
    said = re.compile(r"""\bsay\(\s*"([a-z_.0-9A-Z]+)\"""")
    keys = {
        key
        for path in (ASSETS / "js").glob("*.js")
        for key in said.findall(path.read_text(encoding="utf-8"))
    }
    assert len(keys) > 50
    assert keys - set(dictionary()) == set()


def test_every_control_and_method_has_its_words():
    for name in FIELDS:
        assert f"page.{name}" in dictionary()
        assert f"page.{name}.info" in dictionary()
    for name in BUTTONS:
        assert f"page.{name}" in dictionary()
    for method in METHODS:
        assert f"method.{method}" in dictionary()
        assert f"about.{method}" in dictionary()


def test_an_unknown_language_falls_back_to_english():
    assert say("xx", "page.run") == say("en", "page.run")


def test_names_are_filled_in():
    assert say("en", "notice.too_long_text", limit=7) == "The text is longer than 7 characters."
    with pytest.raises(KeyError):
        say("en", "notice.too_long_text", other=7)
