"""Facts about the machine, asked at call time: the only place that asks torch for them."""

from __future__ import annotations

import torch


def is_rocm() -> bool:
    """True where this torch was built for ROCm (HIP)."""
    return torch.version.hip is not None


def has_gpu() -> bool:
    """True where torch sees a CUDA or ROCm device."""
    return bool(torch.cuda.is_available())


def has_mps() -> bool:
    """True where torch sees an Apple GPU."""
    return bool(torch.backends.mps.is_available())
