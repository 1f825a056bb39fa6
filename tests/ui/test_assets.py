from __future__ import annotations

import re

from confu_demo.ui.assets import ASSETS, VIEWER_SCRIPTS, as_script_data, head, style


def test_every_script_is_part_of_the_page():
    files = {path.stem for path in (ASSETS / "js").glob("*.js")}
    assert files == {*VIEWER_SCRIPTS, "gradio_host", "standalone_host"}


def test_no_script_puts_data_into_markup_or_evaluates_it():
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    )
    for path in (ASSETS / "js").glob("*.js"):
        assert not forbidden.search(path.read_text(encoding="utf-8")), path.name


def test_nothing_is_fetched_from_outside():
    address = re.compile(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", re.IGNORECASE)
    page = head().replace("http://www.w3.org/2000/svg", "")
    assert not address.search(page)
    assert "@import" not in style()
    assert "url(" not in style()


def test_data_in_a_script_cannot_end_the_script():
    text = as_script_data({"a": "</script><script>alert(1)</script>\u2028"})
    assert "<" not in text
    assert "\u2028" not in text
    assert head().count("</script>") == 1
