"""The viewer's scripts and styles as one block each, for any host: no build step, no network."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from confu_demo.ui.wording import dictionary

ASSETS = Path(__file__).resolve().parents[2] / "assets"
VIEWER_SCRIPTS = (
    "words", "dom", "theme", "cycle_facts", "chips", "lane_log", "timeline", "playback",
    "numbers", "cycle_numbers", "align", "foresight", "summary", "race", "token_flow",
    "tree_choice", "outputs", "tree_layout", "tree_picture", "tree", "depth_chart", "gantt",
    "heat", "experts", "word_diff", "step_numbers", "step_tools", "steps", "explain",
    "inspector", "lane_column", "tokens",
    "heading", "provenance", "transport", "inbox", "keyboard", "frame", "tabs", "viewer",
)  # fmt: skip
"""In the order in which they need each other."""


@cache
def viewer_script() -> str:
    """The viewer alone: defines ``ConfuViewer.mount``."""
    return "\n".join(_read("js", f"{name}.js") for name in VIEWER_SCRIPTS)


@cache
def style() -> str:
    """All styles, in the order of their file names."""
    files = sorted((ASSETS / "css").glob("*.css"))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@cache
def head() -> str:
    """What the Gradio page loads before its components: styles, words, viewer, host.

    The styles come this way and not through ``launch(css=)``, because Gradio rewrites those and
    loses container queries.
    """
    words = as_script_data(dictionary())
    host = _read("js", "gradio_host.js")
    script = f"window.CONFU_WORDS = {words};\n{viewer_script()}\n{host}"
    return f"<style>{style()}</style><script>{script}</script>"


def host_script(name: str) -> str:
    """The script of a host, which mounts the viewer."""
    return _read("js", f"{name}.js")


def as_script_data(value: object) -> str:
    """JSON without a "<" in it: in a script element nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _read(folder: str, name: str) -> str:
    return (ASSETS / folder / name).read_text(encoding="utf-8")
