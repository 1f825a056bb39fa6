"""Which device computes, and how to wait for it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch


def pick_device(name: str = "auto") -> torch.device:
    """``auto``: CUDA, else Apple's MPS, else the CPU. Raises ValueError for a device that is not
    here."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r}; use auto, cpu, cuda or mps") from error
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not available.get(device.type, False):
        raise ValueError(f"device {name!r} is not on this machine; use auto or cpu")
    return device


def synchronise(device: torch.device) -> Callable[[], None]:
    """A function that returns when the device has done all its work (for honest clocks)."""
    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    if device.type == "mps":
        return torch.mps.synchronize
    return _nothing


def hardware_name(device: torch.device) -> str:
    """What computes, for telling machines apart: the accelerator's or the processor's name."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    lines: list[str] = []
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    processor = next(named, platform.processor() or platform.machine())
    return f"{device.type} {processor}"


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Computes with ``count`` threads inside the block, and as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def default_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 on CUDA where the hardware has it, else float32 (our choice: float16 overflows in
    some Qwen2 models). The CPU is probed instead, see :mod:`confu_demo.engine.probe`."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.float32


def _nothing() -> None:
    return None
