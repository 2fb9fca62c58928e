"""Which device and which type of number, with reasons: two tables and the questions to them.

Nothing here is set or moved; `load` does what is chosen.
"""

from __future__ import annotations

import warnings

import torch

from dac_rocm.choice import Choice
from dac_rocm.errors import BackendError
from dac_rocm.ops import platform

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

AUTO_DTYPE = {
    "cuda": Choice(
        "float32",
        "codes must not depend on rounding; float16 and bfloat16 are faster, if asked for",
    ),
    "mps": Choice("float32", "on Apple GPUs bfloat16 gives noise and float16 is unstable"),
    "cpu": Choice("float32", "a CPU is fastest and exact in float32"),
}
"""Type by kind of device. Source: Comfy-Org/ComfyUI#15207, nari-labs/dia#188, nari-labs/dia#215."""

WARNED = {
    ("mps", "float16"): "float16 is unstable on Apple GPUs",
    ("cpu", "float16"): "float16 on a CPU is many times slower than float32, and ends at 65,504",
}
"""Type that a kind of device computes in, with what to say of it."""


def choose_device(wanted: str | torch.device = "auto") -> Choice:
    """Choose a device.

    Args:
        wanted: `auto`, or a device as torch names it: `cpu`, `cuda` (also for ROCm), `cuda:1`,
            `mps`.

    Raises:
        BackendError: The device is unknown or not there.
    """
    name = str(wanted)
    if name == "auto":
        if platform.has_gpu():
            return Choice("cuda", "torch sees a CUDA or ROCm device")
        if platform.has_mps():
            return Choice("mps", "torch sees an Apple GPU")
        return Choice("cpu", "torch sees no GPU")
    kind = device_kind(name)
    if (kind == "cuda" and not platform.has_gpu()) or (kind == "mps" and not platform.has_mps()):
        raise BackendError(
            f"device {name!r} was asked for, and torch sees none; a device that is there is "
            "expected. Use device='auto', or install a torch build for it."
        )
    return Choice(name, "was asked for")


def choose_dtype(wanted: str | torch.dtype = "auto", device: str | torch.device = "cpu") -> Choice:
    """Choose the type of the weights, which is the type of the computation.

    Args:
        wanted: `auto`, `float32`, `float16`, `bfloat16` or the torch type.
        device: Where the weights will be.

    Raises:
        BackendError: Another type, or one that the device cannot compute in.

    Warns:
        RuntimeWarning: The device computes in this type, but slowly or badly.
    """
    name, kind = str(wanted).removeprefix("torch."), device_kind(device)
    if name == "auto":
        return AUTO_DTYPE.get(kind, Choice("float32", "no other type is known to be right here"))
    if name not in DTYPES:
        raise BackendError(
            f"dtype {name!r} found; auto or one of {', '.join(DTYPES)} is expected. "
            "Name one of them."
        )
    if name == "bfloat16":
        _check_bfloat16(kind, torch.device(device))
    warning = WARNED.get((kind, name))
    if warning is not None:
        _warn(name, kind, warning)
    return Choice(name, "was asked for")


def device_kind(device: str | torch.device) -> str:
    """Return the kind of a device: `cpu`, `cuda` (also for ROCm), `mps`.

    Raises:
        BackendError: Torch knows no such device.
    """
    try:
        return torch.device(device).type
    except RuntimeError as error:
        raise BackendError(
            f"device {str(device)!r} found; auto, cpu, cuda, cuda:N or mps is expected. "
            "`dac-rocm doctor` lists what is there."
        ) from error


def _check_bfloat16(kind: str, device: torch.device) -> None:
    if kind == "mps":
        raise BackendError(
            "dtype 'bfloat16' on an Apple GPU found, where it gives noise; float32 is expected. "
            "Leave the dtype out."
        )
    if kind == "cuda" and not platform.gpu_has_bfloat16(device):
        raise BackendError(
            f"dtype 'bfloat16' on {device} found, which cannot compute in it; float16 or float32 "
            "is expected. Use dtype='float16' for speed."
        )
    if kind == "cpu" and not platform.cpu_has_bfloat16():
        _warn("bfloat16", kind, "this CPU only emulates bfloat16, more slowly than float32")


def _warn(name: str, kind: str, reason: str) -> None:
    warnings.warn(
        f"dtype {name!r} on {kind} found: {reason}. Use dtype='float32'.",
        RuntimeWarning,
        stacklevel=3,
    )
