"""The work of a network, and the best rate at which oneDNN convolves its shapes on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from dac_rocm.geometry import step_length
from dac_rocm.lowering import UNIT_KERNEL, Conv, Steps, Transposed

SIZES = (1 << 17, 1 << 19, 1 << 21)
"""Elements of the activation that are tried: within the second cache, the third, and beyond."""
LEAST_SECONDS = 0.05
"""How long a shape is run."""


def multiply_adds(steps: Steps, length: int) -> int:
    """Multiplications (each with an addition) of the convolutions, for `length` inputs.

    Counted as the definition has them: what a fast algorithm saves is not taken off.
    """
    total = 0
    for step in steps:
        result = step_length(step, length)
        if isinstance(step, Conv | Transposed):
            positions = result if isinstance(step, Conv) else length
            total += positions * step.in_channels * step.out_channels * step.kernel
        length = result
    return total


def unit_shapes(steps: Sequence[object]) -> list[tuple[int, int]]:
    """Return channels and dilation of every kind of convolution in the residual units."""
    units = {
        (step.in_channels, step.dilation)
        for step in steps
        if isinstance(step, Conv)
        and step.kernel == UNIT_KERNEL
        and step.in_channels == step.out_channels
    }
    return sorted(units)


def best_rate(channels: int, dilation: int, dtype: torch.dtype) -> float:
    """Operations per second (two for a multiplication with an addition) at the best size."""
    return max(_rate(channels, dilation, dtype, size // channels) for size in SIZES)


def _rate(channels: int, dilation: int, dtype: torch.dtype, positions: int) -> float:
    ops, layout = torch.ops.mkldnn, torch.channels_last
    steps = [0, 0], [1, 1], [1, dilation]
    shape = [1, channels, 1, positions + dilation * (UNIT_KERNEL - 1)]
    weight = (
        torch.randn(channels, channels, 1, UNIT_KERNEL).to(dtype).contiguous(memory_format=layout)
    )
    packed = ops._reorder_convolution_weight(weight, *steps, 1, shape)
    x = torch.randn(shape).to(dtype).contiguous(memory_format=layout)
    bias = torch.zeros(channels, dtype=dtype)

    def run() -> float:
        start = time.perf_counter()
        ops._convolution_pointwise(x, packed, bias, *steps, 1, "none", [], "")
        return time.perf_counter() - start

    run()
    times = [run()]
    while sum(times) < LEAST_SECONDS:
        times.append(run())
    return 2 * positions * channels**2 * UNIT_KERNEL / min(times)
