"""Which device and which type of number, with reasons."""

from __future__ import annotations

import torch

from dac_rocm.choice import Choice
from dac_rocm.errors import BackendError
from dac_rocm.ops.platform import has_gpu, has_mps

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def choose_device(wanted: str | torch.device = "auto") -> Choice:
    """Choose a device.

    Args:
        wanted: `auto`, or a device as torch names it: `cpu`, `cuda`, `cuda:1`, `mps`.

    Raises:
        BackendError: The device is unknown or not there.
    """
    name = str(wanted)
    if name == "auto":
        if has_gpu():
            return Choice("cuda", "torch sees a CUDA or ROCm device")
        if has_mps():
            return Choice("mps", "torch sees an Apple GPU")
        return Choice("cpu", "torch sees no GPU")
    try:
        kind = torch.device(name).type
    except RuntimeError as error:
        raise BackendError(
            f"device {name!r} found; auto, cpu, cuda, cuda:N or mps is expected."
        ) from error
    if (kind == "cuda" and not has_gpu()) or (kind == "mps" and not has_mps()):
        raise BackendError(
            f"device {name!r} was asked for, and torch sees none; a device that is there is "
            "expected. Use device='auto', or install a torch build for it."
        )
    return Choice(name, "was asked for")


def choose_dtype(wanted: str | torch.dtype = "auto") -> Choice:
    """Choose the type of the weights.

    Args:
        wanted: `auto`, `float32`, `float16`, `bfloat16` or the torch type.

    Raises:
        BackendError: Another type.
    """
    name = str(wanted).removeprefix("torch.")
    if name == "auto":
        return Choice("float32", "codes must not depend on rounding")
    if name not in DTYPES:
        raise BackendError(
            f"dtype {name!r} found; auto or one of {', '.join(DTYPES)} is expected."
        )
    return Choice(name, "was asked for")
