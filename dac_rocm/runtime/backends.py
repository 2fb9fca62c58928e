"""Manners towards the libraries that convolve: MIOpen, cuDNN, oneDNN; and what to do if they fail.

Each context sets global flags of torch, for the whole process, and puts every one back, also
after an exception. Nothing here ever turns on `cudnn.benchmark`: on ROCm it starts a search of
minutes for every new shape.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from dac_rocm.errors import AudioError, BackendError
from dac_rocm.ops import platform

CONV_BACKENDS = ("auto", "library", "miopen", "cudnn", "native", "cpu")
"""`library` is what torch was built with (`miopen` on ROCm, `cudnn` on CUDA)."""
FIND_MODE = "MIOPEN_FIND_MODE"
"""How MIOpen looks for a kernel. Source: MIOpen documentation, "Find modes"."""
SILENCE_SECONDS = 30.0
"""How long the first convolution may take before a hint is given."""
_begun: set[str] = set()
"""GPUs on which something has run."""
CONVOLUTIONS = frozenset({F.conv1d, F.conv2d, F.conv_transpose1d, F.linear})


@contextmanager
def conv_backend(name: str = "auto") -> Iterator[None]:
    """Convolve with another library; every flag is as before on the way out.

    Args:
        name: `auto` leaves all as it is. `miopen` or `cudnn` (or `library`, the one that torch
            has). `native`: torch's own kernels, no library. `cpu`: each convolution of this
            thread is computed on the CPU, whatever the device of its tensors.

    Raises:
        BackendError: The name is unknown, or torch was built with the other library.
    """
    _check_conv_backend(name)
    library = name not in ("native", "cpu")
    flags = (
        []
        if name in ("auto", "cpu")
        else [
            (torch.backends.cudnn, "enabled", library),
            (torch.backends.cudnn, "benchmark", False),
            (torch.backends.mkldnn, "enabled", library),
        ]
    )
    with flags_set(*flags), _OnCpu() if name == "cpu" else nullcontext():
        yield


def _check_conv_backend(name: str) -> None:
    if name not in CONV_BACKENDS:
        raise BackendError(
            f"conv backend {name!r} found; one of {', '.join(CONV_BACKENDS)} is expected. "
            "Leave it out to let torch choose."
        )
    if name in ("miopen", "cudnn") and (name == "miopen") is not platform.is_rocm():
        other = "cudnn" if name == "miopen" else "miopen"
        raise BackendError(
            f"conv backend {name!r} found; this torch was built with {other}. Say 'library', or "
            "install the other build."
        )


@contextmanager
def flags_set(*flags: tuple[Any, str, Any]) -> Iterator[None]:
    """Set flags (place, name, value), and put them back on the way out, the last one first."""
    before = [(place, name, getattr(place, name)) for place, name, _ in flags]
    try:
        for place, name, value in flags:
            setattr(place, name, value)
        yield
    finally:
        for place, name, value in reversed(before):
            setattr(place, name, value)


class _OnCpu(TorchFunctionMode):
    """Computes convolutions on the CPU and brings the results back."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one function of torch."""
        if func not in CONVOLUTIONS:
            return func(*args, **(kwargs or {}))
        moved = [a.cpu() if isinstance(a, Tensor) else a for a in args]
        named = {k: a.cpu() if isinstance(a, Tensor) else a for k, a in (kwargs or {}).items()}
        return func(*moved, **named).to(args[0].device)


@contextmanager
def deterministic() -> Iterator[None]:
    """Let torch use only kernels that give the same bits every time; restored on the way out.

    For cuBLAS the variable CUBLAS_WORKSPACE_CONFIG is set meanwhile, unless it was; that works
    only before its first product.
    """
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with (
        _variable_set("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        flags_set(
            (torch.backends.cudnn, "deterministic", True),
            (torch.backends.cudnn, "benchmark", False),
        ),
    ):
        try:
            torch.use_deterministic_algorithms(True)
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warn_only)


@contextmanager
def _variable_set(name: str, value: str) -> Iterator[None]:
    """Set an environment variable, unless it is set; removed again on the way out."""
    was_there = name in os.environ
    os.environ.setdefault(name, value)
    try:
        yield
    finally:
        if not was_there:
            os.environ.pop(name, None)


def prepare_miopen(device: str | torch.device) -> bool:
    """Set MIOpen's fast find mode, unless the user set one; call it before the first convolution.

    With the default mode the first decode took 84 s where the fast one took 7 s, and every new
    shape searches again. Source: multimodal-art-projection/YuE#167.

    Args:
        device: Where convolutions will run; nothing is done for the CPU, or without ROCm.

    Returns:
        True where the mode was set.
    """
    if not platform.is_rocm() or torch.device(device).type != "cuda" or FIND_MODE in os.environ:
        return False
    os.environ[FIND_MODE] = "FAST"
    return True


@contextmanager
def hint_when_silent(
    seconds: float = SILENCE_SECONDS, tell: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Give a hint on stderr if the body takes longer than `seconds`; for the first convolution.

    Args:
        seconds: Patience.
        tell: Takes the hint; default: print it to stderr.
    """
    timer = threading.Timer(seconds, tell or _tell, [_hint(seconds, os.environ)])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def hint_at_first(device: torch.device) -> Iterator[None]:
    """Give the hint if the first run on a GPU takes long; later runs, and CPUs, have none."""
    if device.type != "cuda" or str(device) in _begun:
        yield
        return
    with hint_when_silent():
        yield
    _begun.add(str(device))


def _hint(seconds: float, environment: Mapping[str, str]) -> str:
    start = f"the first run on this GPU has been silent for {seconds:g} s; the library may be "
    if platform.is_rocm():
        return (
            f"{start}searching for kernels ({FIND_MODE}={environment.get(FIND_MODE, 'unset')}). "
            f"Wait, or stop and set {FIND_MODE}=FAST, or use conv_backend('native')."
        )
    return f"{start}building kernels. Wait, or stop and use conv_backend('native')."


def _tell(text: str) -> None:
    print(f"dac_rocm: {text}", file=sys.stderr, flush=True)


def finite_or_retry(x: Tensor, again: Callable[[], Tensor] | None, what: str) -> Tensor:
    """Return `x` if it is finite, else what `again` computes in a wider type.

    Args:
        x: A result, usually of float16 weights.
        again: Computes the same in float32; None where that is what `x` is.
        what: Name of the result, for messages.

    Raises:
        AudioError: It is not finite the second time either, or there is no second time.

    Warns:
        RuntimeWarning: The second time was needed.
    """
    if torch.isfinite(x).all():
        return x
    if again is not None:
        warnings.warn(
            f"{what} in {x.dtype} overflowed; it was computed again in float32. "
            "Use dtype='float32' or 'bfloat16'.",
            RuntimeWarning,
            stacklevel=2,
        )
        return finite_or_retry(again(), None, what)
    raise AudioError(
        f"NaN or infinite values in {what} of {x.dtype} found; finite ones are expected. "
        "Use dtype='float32', and run `dac-rocm doctor` if you do."
    )
