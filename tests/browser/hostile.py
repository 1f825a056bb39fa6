"""Texts that a careless page would execute, swallow or choke on."""

from __future__ import annotations

HOSTILE = (
    "<img src=x onerror=\"window.pwned='img'\"> is not an image",
    "${window.pwned='template'} and ${1+1} and `backtick` stay",
    "\\frac{1}{2} and \\u00 and \\x keep their backslashes",
    "</script><script>window.pwned='script'</script> closes nothing",
    "{{#each value}}{{this}}{{/each}} & &lt;b&gt; <b>bold</b> 한국어 🙂 \u202e\u0000",
)
