"""Which network runs a model: the plain one, or the fast one of its device."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dac_rocm.choice import Choice
from dac_rocm.engine import Network
from dac_rocm.errors import BackendError
from dac_rocm.lowering import Steps
from dac_rocm.nn.layers import Snake1d
from dac_rocm.plain import PlainNetwork
from dac_rocm.runtime.cpu import CpuNetwork, choose_convolution
from dac_rocm.runtime.gpu import GpuNetwork, choose_order

PROFILES = ("auto", "plain", "cpu", "gpu")
"""`auto` takes the fast network of the device; `plain` torch's own operations, the slow twin."""
FAST_DTYPES = (torch.float32, torch.bfloat16)
"""Types of number that oneDNN's packed convolutions take."""


def choose_profile(
    profile: str, device: torch.device, dtype: torch.dtype, snake: str = "auto"
) -> Choice:
    """Choose the network.

    Args:
        profile: `auto`, `plain`, `cpu` or `gpu`.
        device: Of the model.
        dtype: Of the model.
        snake: Snake backend that was asked for: any but `auto` needs the plain network.

    Raises:
        BackendError: The profile is unknown, or does not fit device and type.
    """
    if profile not in PROFILES:
        raise BackendError(
            f"profile {profile!r} found; one of {', '.join(PROFILES)} is expected. Say auto."
        )
    if profile == "gpu" or (profile == "auto" and device.type == "cuda"):
        return _gpu(device)
    fits = device.type == "cpu" and dtype in FAST_DTYPES
    if profile == "cpu" and not fits:
        raise BackendError(
            f"profile 'cpu' for {dtype} on {device} found; float32 or bfloat16 on a CPU is "
            "expected. Say auto."
        )
    if profile == "auto" and fits and snake == "auto":
        profile = "cpu"
    if profile == "cpu":
        return Choice("cpu", f"time-major, packed weights; {choose_convolution().reason}")
    return Choice("plain", "torch's own operations, on the weights as they are")


def _gpu(device: torch.device) -> Choice:
    if device.type != "cuda":
        raise BackendError(
            f"profile 'gpu' for {device} found; a CUDA or ROCm device is expected. Say auto."
        )
    return Choice("gpu", f"fused snake; memory order {choose_order().reason}")


def build_network(
    profile: str,
    steps: Steps,
    tensors: Mapping[str, Tensor],
    snakes: Mapping[str, Snake1d],
    snake: str = "auto",
) -> Network:
    """Build what runs `steps`.

    Args:
        profile: Name of a choice of `choose_profile`.
        steps: Lowered encoder or decoder.
        tensors: Parameters by canonical name.
        snakes: The `Snake1d` modules by canonical name.
        snake: Snake backend that was asked for.
    """
    if profile == "gpu":
        return GpuNetwork(steps, tensors, snakes, backend=snake)
    kind = CpuNetwork if profile == "cpu" else PlainNetwork
    return kind(steps, tensors, snakes)
