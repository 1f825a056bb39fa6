"""An HTML component whose value is data for a script, sent as one JSON string.

Gradio sends a stream of values as differences of lists and objects, and its client applies the
difference of two unlike lists wrongly (seen in 6.31: it loses items and mixes texts). A string
is replaced as a whole. The string holds no "<", so that nothing takes it for markup.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from confu_demo.ui.assets import as_script_data

from gradio.events import Dependency

class JsonHTML(gr.HTML):
    """``gr.HTML`` that a script fills: ``js_on_load`` reads ``JSON.parse(props.value)``."""

    def postprocess(self, value: Any) -> str:
        return as_script_data(value)
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component