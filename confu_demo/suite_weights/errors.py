"""What can go wrong between the network and the disk: always one sentence that says what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FetchError(ValueError):
    """The weights are not there and could not be made; nothing half-made was left behind."""


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turns what a disk refuses in ``folder`` into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FetchError(
                f"the disk of {folder} is full: free some space, or name a folder on another disk "
                "with the environment variable CONFU_DEMO_CACHE"
            ) from error
        raise FetchError(
            f"{folder} cannot be written to ({error.strerror or error}): name another folder with "
            "the environment variable CONFU_DEMO_CACHE"
        ) from error


def one_line(error: Exception | str) -> str:
    """The message without line ends, short enough to stand in a sentence."""
    return " ".join(str(error).split())[:300]
