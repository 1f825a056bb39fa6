"""The GGUF from the Hugging Face Hub, where the package index cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from confu_demo.suite_weights.errors import FetchError, one_line
from confu_demo.suite_weights.sources import WeightSource
from confu_demo.suite_weights.steps import FetchStep


def download_gguf(source: WeightSource, folder: Path) -> Iterator[FetchStep]:
    """Leaves ``folder / source.gguf.name``. Raises FetchError with the Hub's own reason.

    The library downloads in one call, with a progress bar of its own in a terminal.
    """
    from huggingface_hub import hf_hub_download

    size = source.gguf.num_bytes
    yield FetchStep(stage="hub", done=0, total=size, detail=source.hub_repository)
    try:
        hf_hub_download(
            source.hub_repository,
            source.gguf.name,
            revision=source.hub_revision,
            local_dir=folder,
        )
    except Exception as error:  # its own kinds, those of the HTTP library, and OSError
        raise FetchError(
            f"the Hugging Face Hub did not give {source.gguf.name} ({one_line(error)})"
        ) from error
    yield FetchStep(stage="hub", done=size, total=size, detail=source.hub_repository)
