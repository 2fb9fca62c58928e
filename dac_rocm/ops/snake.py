"""Snake, the activation of the family: x + sin²(αx) / (β + 1e-9), and which code computes it.

`snake` is the one dispatcher: `Snake1d` and the lowered steps call it, and nobody else picks a
backend. The eager function is the slow twin of every other backend. Importing builds nothing.

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
from dac_rocm.ops import platform

SnakeFunction = Callable[..., Tensor]
"""Takes x, α, β, and where it can a tensor `out` to write to; returns the result."""

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


def _build_compile() -> SnakeFunction:
    compiled: SnakeFunction = torch.compile(snake_eager, dynamic=True, fullgraph=True)
    return compiled


def _build_triton() -> SnakeFunction:
    from dac_rocm.ops.snake_triton import snake_triton

    return snake_triton


BACKENDS: dict[str, Callable[[], SnakeFunction]] = {
    "eager": lambda: snake_eager,
    "torchscript": _build_torchscript,
    "compile": _build_compile,
    "triton": _build_triton,
}
"""Name to builder. A builder runs at the first call of its backend, never at import."""

_lock = threading.Lock()
_built: dict[str, SnakeFunction] = {}
_failed: dict[str, str] = {}
"""Backend to why it failed: it is not tried again."""
_told: set[str] = set()
"""What was said to be against the ROCm rule: backends, and the profile `compile`."""


def should_use_eager_snake_on_rocm_bf16(x: Any, alpha: Any) -> bool:
    """Tell whether the ROCm rule applies: HIP build, a GPU tensor, a bfloat16 tensor.

    Args:
        x: Input; only its device and `dtype` are looked at.
        alpha: Parameter; likewise.
    """
    on_gpu = platform.on_gpu(x) or platform.on_gpu(alpha)
    in_bf16 = torch.bfloat16 in (x.dtype, alpha.dtype)
    return platform.is_rocm() and on_gpu and in_bf16


def check_backend(backend: str) -> None:
    """Check the name of a backend.

    Raises:
        BackendError: It is neither `auto` nor in `BACKENDS`.
    """
    if backend != "auto" and backend not in BACKENDS:
        raise BackendError(
            f"snake backend {backend!r} found; auto or one of {', '.join(BACKENDS)} is expected. "
            f"Name one of them, or leave it (and {ENVIRONMENT}) out."
        )


def choose_snake(x: Any, alpha: Any, backend: str = "auto") -> Choice:
    """Choose the backend for these tensors.

    Args:
        x: Input; only its device and `dtype` are looked at, and whether it asks for gradients.
        alpha: Parameter; likewise.
        backend: `auto`, or a name from `BACKENDS`.

    Raises:
        BackendError: The name is unknown, or the backend cannot run such tensors.

    Warns:
        RuntimeWarning: Once per backend: it was asked for against the ROCm rule, and is obeyed.
    """
    origin = "was asked for"
    if backend == "auto" and os.environ.get(ENVIRONMENT, "auto") != "auto":
        backend, origin = os.environ[ENVIRONMENT], f"was asked for by {ENVIRONMENT}"
    check_backend(backend)
    if should_use_eager_snake_on_rocm_bf16(x, alpha):
        choice = _choose_under_rule(backend, origin)
    elif backend == "auto":
        choice = _choose_fast(x, alpha)
    else:
        choice = Choice(backend, origin)
    if choice.name == "triton":
        choice = _choose_triton(x, alpha, choice)
    if choice.name in _failed:
        return Choice("eager", f"{choice.name} failed before: {_failed[choice.name]}")
    return choice


def _choose_under_rule(backend: str, origin: str) -> Choice:
    if backend == "auto":
        return Choice("eager", ROCM_BF16)
    if backend == "torchscript":
        raise BackendError(
            f"snake backend 'torchscript' {origin}, but {ROCM_BF16}. Say 'auto' or 'eager'."
        )
    if backend != "eager":
        tell_once(backend, f"snake backend {backend!r} {origin} and is used, though {ROCM_BF16}.")
    return Choice(backend, origin)


def _choose_fast(x: Any, alpha: Any) -> Choice:
    there = platform.on_gpu(x) and platform.has_gpu() and platform.has_triton()
    if there and not _beyond_triton(x, alpha):
        return Choice("triton", "one fused kernel on a GPU: each value is read and written once")
    return Choice("torchscript", "the fast path where Triton has no GPU")


def _choose_triton(x: Any, alpha: Any, choice: Choice) -> Choice:
    if not (platform.on_gpu(x) or platform.triton_is_interpreted()):
        raise BackendError(
            f"snake backend 'triton' {choice.reason}, for a tensor that is on no GPU; a CUDA or "
            "ROCm tensor is expected. Say 'auto'."
        )
    beyond = _beyond_triton(x, alpha)
    return Choice("eager", beyond) if beyond else choice


def _beyond_triton(x: Any, alpha: Any) -> str:
    """Why the Triton kernel must not be used for these tensors; empty if it may."""
    if torch.float64 in (x.dtype, alpha.dtype):
        return "the Triton kernel computes in float32, which float64 tensors must not lose to"
    asked = any(getattr(t, "requires_grad", False) for t in (x, alpha))
    return "the Triton kernel has no gradient" if asked and torch.is_grad_enabled() else ""


def snake(
    x: Tensor, alpha: Tensor, beta: Tensor, backend: str = "auto", *, out: Tensor | None = None
) -> Tensor:
    """Compute Snake with the backend that `choose_snake` picks.

    Args:
        x: Any shape and float type.
        alpha: Frequency, broadcast against `x`.
        beta: Inverse amplitude, broadcast against `x`.
        backend: `auto`, or a name from `BACKENDS`.
        out: Where to write the result, of the shape and type of `x`; default: a new tensor.

    Returns:
        As `x`; `out` if it was given.

    Raises:
        BackendError: See `choose_snake`.
    """
    name = choose_snake(x, alpha, backend).name
    if name == "triton" and out is not None:
        return _attempt(name, x, alpha, beta, out)
    y = _attempt(name, x, alpha, beta) if name != "eager" else snake_eager(x, alpha, beta)
    return y if out is None else out.copy_(y)


def _attempt(name: str, x: Tensor, alpha: Tensor, beta: Tensor, *out: Tensor) -> Tensor:
    try:
        return _backend(name)(x, alpha, beta, *out)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # compilers raise all kinds
        y = snake_eager(x, alpha, beta)  # raises by itself where the tensors are at fault
        _fall_back(name, error)
        return out[0].copy_(y) if out else y


def _backend(name: str) -> SnakeFunction:
    with _lock:
        if name not in _built:
            _built[name] = BACKENDS[name]()
        return _built[name]


def _fall_back(name: str, error: Exception) -> None:
    """From now on eager runs where `name` was chosen; say so once."""
    why = (str(error).splitlines() or [type(error).__name__])[0][:200]
    with _lock:
        first = name not in _failed
        _failed.setdefault(name, why)
    if first:
        warnings.warn(
            f"snake backend {name!r} failed ({why}); the eager one runs from now on. Set "
            f"{ENVIRONMENT}=eager to choose it without trying.",
            RuntimeWarning,
            stacklevel=4,
        )


def tell_once(subject: str, text: str) -> None:
    """Warn of a subject, unless that was done before."""
    with _lock:
        first = subject not in _told
        _told.add(subject)
    if first:
        warnings.warn(text, RuntimeWarning, stacklevel=5)
