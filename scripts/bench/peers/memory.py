"""Resident memory of this process; Linux only."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path


def memory(key: str) -> int:
    """Return `VmRSS`, or `VmHWM`, its largest value, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if key in line)) * 1024


def reset_peak() -> None:
    """Let `VmHWM` begin again from what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def give_back() -> None:
    """Return freed memory to the system, so that what loading left behind is not counted."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
