"""The viewer and recordings as one HTML file that needs no server, no network and no Python."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from confu_demo.ui.assets import as_script_data, host_script, style, viewer_script
from confu_demo.ui.wording import LANGUAGES, dictionary

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""A file that strangers hand on may load nothing and send nothing, whatever a recording says."""
_PAGE = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
body {{
  margin: 0; padding: 12px; background: var(--body-background-fill); color-scheme: light;
  --body-background-fill: #f3f4f6; --body-text-color: #1b1d22; --block-info-text-color: #565b66;
  --input-border-color: #c9cdd5; font-family: system-ui, sans-serif;
}}
body.dark {{
  color-scheme: dark; --body-background-fill: #0f1115; --body-text-color: #eceef2;
  --block-info-text-color: #aeb4c0; --input-border-color: #3a404b;
}}
main {{ max-width: 1500px; margin: 0 auto; }}
{style}
</style>
</head>
<body>
<main class="gradio-container">
<header id="head" class="cf-page-head"></header>
<div id="viewer"></div>
</main>
<script type="application/json" id="words">{words}</script>
<script type="application/json" id="races">{races}</script>
<script>
{viewer}
{host}
</script>
</body>
</html>
"""


def standalone_page(races: Sequence[Mapping[str, Any]], language: str = "en") -> str:
    """The page of these races, each as the viewer loads it; with more than one, ``name`` is what
    the list calls it. ``ValueError`` for none, or an unknown language."""
    if not races:
        raise ValueError("a page needs at least one recording")
    if language not in LANGUAGES:
        raise ValueError(f"unknown language {language!r}: choose one of {', '.join(LANGUAGES)}")
    return _PAGE.format(
        language=language,
        policy=_POLICY,
        title=html.escape(str(races[0].get("title") or "confu_demo")),
        style=style(),
        words=as_script_data(dictionary()),
        races=as_script_data(list(races)),
        viewer=viewer_script(),
        host=host_script("standalone_host"),
    )
