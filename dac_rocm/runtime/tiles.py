"""How much of a signal goes through the engine at once."""

from __future__ import annotations

import os

import torch

from dac_rocm.choice import Choice
from dac_rocm.geometry import tile_length
from dac_rocm.lowering import Steps

CPU_ELEMENTS = 1 << 22
"""Largest activation on a CPU (16 MiB in float32): under the size from which the C allocator maps
every block anew, which costs more than the arithmetic."""
PARTED_ELEMENTS = 1 << 25
"""The same where a push runs in parts, and no activation is there whole: 12 s of audio in at 44.1
kHz, 8 s out. Longer pushes are no faster, and an interruption waits for the end of one."""
GPU_ELEMENTS = 1 << 28
"""Largest activation on a GPU (1 GiB in float32), far below the 2^31 that kernels can index."""
MPS_POSITIONS = 1 << 16
"""Positions in time that Metal's convolutions take. Source: pytorch/pytorch#152278."""
LIVE_ACTIVATIONS = 8
"""Activations of the largest size that are alive at once, measured with room to spare."""
SHARE = 0.5
"""Share of the free memory that one stream may take."""


def choose_tile(
    steps: Steps,
    batch: int,
    device: torch.device,
    dtype: torch.dtype,
    *,
    max_memory: int | None = None,
    parted: bool = False,
) -> tuple[int, Choice]:
    """Choose how many inputs run at once.

    Args:
        steps: Lowered encoder or decoder.
        batch: Items that run side by side.
        device: Where they run.
        dtype: Type of number.
        max_memory: Bytes that activations may take; default: half of what is free.
        parted: The network takes a push in parts that stay in the cache.

    Returns:
        Inputs per push (samples for an encoder, frames for a decoder), and why.
    """
    limit, reason = _limit(device, parted)
    given = max_memory is not None
    memory = max_memory if max_memory is not None else int(SHARE * free_memory(device))
    fitting = max(1, memory // (LIVE_ACTIVATIONS * dtype.itemsize))
    if fitting < limit:
        limit, reason = fitting, "max_memory" if given else "half of the free memory"
    positions = MPS_POSITIONS - 1 if device.type == "mps" else None
    tile = tile_length(steps, batch, max_elements=limit, max_positions=positions)
    return tile, Choice(f"{tile} inputs per push", f"activations are bounded by {reason}")


def _limit(device: torch.device, parted: bool) -> tuple[int, str]:
    if parted:
        return PARTED_ELEMENTS, "the parts in which a push runs"
    if device.type == "cpu":
        return CPU_ELEMENTS, "what the C allocator keeps"
    return GPU_ELEMENTS, "what GPU kernels can index"


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a device, or on this machine where the device does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on every system
        return 1 << 32
