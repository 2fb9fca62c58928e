"""How much of a signal goes through the engine at once."""

from __future__ import annotations

from typing import TypedDict

import torch

CPU_ELEMENTS = 1 << 22
"""Largest activation on a CPU (16 MiB in float32): under the size from which the C allocator maps
every block anew, which costs more than the arithmetic."""
GPU_ELEMENTS = 1 << 28
"""Largest activation on a GPU (1 GiB in float32), far below the 2^31 that kernels can index."""
MPS_POSITIONS = 1 << 16
"""Positions in time that Metal's convolutions take. Source: pytorch/pytorch#152278."""


class TileLimits(TypedDict):
    """Arguments of `geometry.tile_length`."""

    max_elements: int
    max_positions: int | None


def tile_limits(device: torch.device) -> TileLimits:
    """Return the limits that suit a device."""
    if device.type == "mps":
        return {"max_elements": GPU_ELEMENTS, "max_positions": MPS_POSITIONS - 1}
    elements = CPU_ELEMENTS if device.type == "cpu" else GPU_ELEMENTS
    return {"max_elements": elements, "max_positions": None}
