"""Snake, the activation of the family: x + sin²(αx) / (β + 1e-9), and which code computes it.

`snake` is the one dispatcher: `Snake1d` and the lowered steps call it, and nobody else picks a
backend. The eager function is the slow twin of every other backend.

Source: Ziyin et al. 2020 (arXiv:2006.08195), with β = α; β free in BigVGAN's SnakeBeta.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dac_rocm.choice import Choice
from dac_rocm.errors import BackendError
from dac_rocm.ops.platform import is_rocm

SnakeFunction = Callable[[Tensor, Tensor, Tensor], Tensor]

ENVIRONMENT = "DAC_ROCM_SNAKE"
"""Environment variable that names the backend where the caller says `auto`."""

ROCM_BF16 = (
    "on ROCm, TorchScript's fuser can fail to build bfloat16 kernels (the runtime header and the "
    "fuser define the same helper), so bfloat16 GPU tensors run eager"
)
"""Reason of the ROCm rule. Source: ROCm/pytorch#3255, pytorch/pytorch#185656."""


def snake_eager(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Compute x + sin²(αx) / (β + 1e-9) with plain torch operations.

    Args:
        x: Any shape and float type.
        alpha: Frequency, broadcast against `x`.
        beta: Inverse amplitude, broadcast against `x`; `alpha` itself in the plain Snake.

    Returns:
        As `x`. Half types are computed in float32 and rounded once; where β + 1e-9 is 0, x itself.
    """
    wide, a, b = x, alpha, beta
    if x.dtype in (torch.float16, torch.bfloat16):
        wide = x.float()
    if wide.dtype != a.dtype:
        a, b = a.to(wide.dtype), b.to(wide.dtype)
    b = b + 1e-9
    scale = torch.where(b == 0, torch.zeros_like(b), 1.0 / b)
    return (wide + scale * torch.sin(a * wide).square()).to(x.dtype)


def _build_torchscript() -> SnakeFunction:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit.script announces its own deprecation
        scripted: SnakeFunction = torch.jit.script(snake_eager)
    return scripted


BACKENDS: dict[str, Callable[[], SnakeFunction]] = {
    "eager": lambda: snake_eager,
    "torchscript": _build_torchscript,
}
"""Name to builder. A builder runs at the first call of its backend, never at import."""

_built: dict[str, SnakeFunction] = {}
_lock = threading.Lock()


def should_use_eager_snake_on_rocm_bf16(x: Any, alpha: Any) -> bool:
    """Tell whether the ROCm rule applies: HIP build, a GPU tensor, a bfloat16 tensor.

    Args:
        x: Input; only `is_cuda` and `dtype` are looked at.
        alpha: Parameter; likewise.
    """
    on_gpu = x.is_cuda or alpha.is_cuda
    in_bf16 = torch.bfloat16 in (x.dtype, alpha.dtype)
    return is_rocm() and on_gpu and in_bf16


def check_backend(backend: str) -> None:
    """Check the name of a backend.

    Raises:
        BackendError: It is neither `auto` nor in `BACKENDS`.
    """
    if backend != "auto" and backend not in BACKENDS:
        raise BackendError(
            f"snake backend {backend!r} found; auto or one of {', '.join(BACKENDS)} is expected."
        )


def choose_snake(x: Any, alpha: Any, backend: str = "auto") -> Choice:
    """Choose the backend for these tensors.

    Args:
        x: Input; only `is_cuda` and `dtype` are looked at.
        alpha: Parameter; likewise.
        backend: `auto`, or a name from `BACKENDS`.

    Raises:
        BackendError: The name is unknown, or the ROCm rule forbids it.
    """
    origin = "was asked for"
    if backend == "auto" and os.environ.get(ENVIRONMENT, "auto") != "auto":
        backend, origin = os.environ[ENVIRONMENT], f"was asked for by {ENVIRONMENT}"
    check_backend(backend)
    if should_use_eager_snake_on_rocm_bf16(x, alpha):
        if backend == "torchscript":
            raise BackendError(
                f"snake backend 'torchscript' {origin}, but {ROCM_BF16}. Say 'auto' or 'eager'."
            )
        return Choice("eager", ROCM_BF16)
    if backend != "auto":
        return Choice(backend, origin)
    return Choice("torchscript", "it is the fast path, and nothing here forbids it")


def snake(x: Tensor, alpha: Tensor, beta: Tensor, backend: str = "auto") -> Tensor:
    """Compute Snake with the backend that `choose_snake` picks.

    Args:
        x: Any shape and float type.
        alpha: Frequency, broadcast against `x`.
        beta: Inverse amplitude, broadcast against `x`.
        backend: `auto`, or a name from `BACKENDS`.

    Returns:
        As `x`.

    Raises:
        BackendError: See `choose_snake`.
    """
    name = choose_snake(x, alpha, backend).name
    if name == "eager":
        return snake_eager(x, alpha, beta)
    try:
        return _backend(name)(x, alpha, beta)
    except RuntimeError as error:
        _fall_back(name, error)
        return snake_eager(x, alpha, beta)


def _backend(name: str) -> SnakeFunction:
    with _lock:
        if name not in _built:
            _built[name] = BACKENDS[name]()
        return _built[name]


def _fall_back(name: str, error: Exception) -> None:
    """From now on `name` runs eager; say so once."""
    with _lock:
        first = _built.get(name) is not snake_eager
        _built[name] = snake_eager
    if first:
        warnings.warn(
            f"snake backend {name!r} failed ({str(error).splitlines()[0][:200]}); the eager one "
            f"runs from now on. Set {ENVIRONMENT}=eager to choose it without trying.",
            RuntimeWarning,
            stacklevel=3,
        )
