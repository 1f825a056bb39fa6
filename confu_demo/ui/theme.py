"""The look of Gradio's own components: ink on paper, system fonts, so that nothing is fetched."""

from __future__ import annotations

from typing import Any

import gradio as gr
from gradio.themes.utils import colors, sizes

SANS = (
    "system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "Noto Sans CJK KR",
    "Apple SD Gothic Neo", "Malgun Gothic", "sans-serif",
)  # fmt: skip
MONO = ("ui-monospace", "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", "monospace")


def make_theme() -> Any:
    """A theme without web fonts. The viewer's colours are its own (assets/css/1_colors.css)."""
    theme = gr.themes.Base(
        primary_hue=colors.zinc,
        secondary_hue=colors.zinc,
        neutral_hue=colors.zinc,
        spacing_size=sizes.spacing_sm,
        radius_size=sizes.radius_md,
        text_size=sizes.text_sm,
        font=SANS,
        font_mono=MONO,
    )
    return theme.set(
        body_background_fill="#fafafa",
        body_background_fill_dark="#0d0f12",
        background_fill_primary_dark="#16181d",
        background_fill_secondary_dark="#121418",
        block_background_fill="transparent",
        block_background_fill_dark="transparent",
        block_border_width="0px",
        block_border_width_dark="0px",
        block_shadow="none",
        block_label_text_color="#1b1d22",
        block_label_text_color_dark="#eceef2",
        block_title_text_color="#1b1d22",
        block_title_text_color_dark="#eceef2",
        block_title_text_weight="600",
        block_info_text_color="#565b66",
        block_info_text_color_dark="#aeb4c0",
        block_padding="2px",
        input_background_fill="#ffffff",
        input_background_fill_dark="#16181d",
        input_border_width="1px",
        input_border_color="#d6d9df",
        input_border_color_dark="#2b2f38",
        button_primary_background_fill="#1b1d22",
        button_primary_background_fill_dark="#eceef2",
        button_primary_background_fill_hover="#3a3e47",
        button_primary_background_fill_hover_dark="#ffffff",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#16181d",
        slider_color="#1b1d22",
        slider_color_dark="#c9ced8",
        checkbox_background_color_selected="#1b1d22",
        checkbox_background_color_selected_dark="#5b6270",
    )
