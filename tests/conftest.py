"""What holds for every test: no request leaves the machine, and nothing is asked of a hub."""

from __future__ import annotations

import atexit
import ipaddress
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

# Read by the libraries when they are imported, so set before any test module is; a test that
# starts a process hands them on.
os.environ.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Measurements of the machine are kept for the next start: not those of tests, and not in the
# user's own folder.
_CACHE = tempfile.mkdtemp(prefix="confu-demo-cache-")
atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)
os.environ["CONFU_DEMO_CACHE"] = _CACHE


@pytest.fixture(autouse=True, scope="session")
def _no_outside_connections() -> Iterator[None]:
    """Connecting to anything but this machine fails the test that tries it."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_loopback(address[0]):
            raise OSError(f"a test tried to connect to {address[0]}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name that would have to be looked up
