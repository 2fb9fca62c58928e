"""Facts about the machine, asked at call time: the only place that asks torch for them.

Nothing here is cached and nothing is decided: a fact that changes (a test that fakes ROCm, a
device that is taken away) is seen at the next question. The one setting that lives here is
`float32_precision`, because every engine needs it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

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


def on_gpu(x: Any) -> bool:
    """True where tensor `x` is on a CUDA or ROCm device."""
    return bool(x.is_cuda)


def has_triton() -> bool:
    """True where Triton is installed; it is not imported."""
    return "triton" in sys.modules or find_spec("triton") is not None


def triton_is_interpreted() -> bool:
    """True where Triton was asked to interpret its kernels, on tensors of any device."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def gpu_has_bfloat16(device: torch.device) -> bool:
    """True where a CUDA or ROCm device computes in bfloat16 without emulating it.

    Source: bfloat16 came with compute capability 8.0 (Ampere); every GPU of ROCm takes it.
    """
    return is_rocm() or torch.cuda.get_device_capability(device)[0] >= 8


def cpu_has_bfloat16() -> bool:
    """True where the CPU multiplies in bfloat16 (AVX512-BF16 or AMX)."""
    asked = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, lambda: False)() for name in asked)


def versions() -> dict[str, str | None]:
    """Return the versions of what torch was built with; None for what it has not."""
    library = "MIOpen" if is_rocm() else "cuDNN"
    found = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return {
        "torch": str(torch.__version__),
        "ROCm (HIP)": torch.version.hip,
        "CUDA": torch.version.cuda,
        library: None if found is None else str(found),
    }


def devices() -> dict[str, str]:
    """Return each device that torch sees, as torch names it, in words."""
    capability = torch.backends.cpu.get_cpu_capability()
    found = {"cpu": f"CPU, {torch.get_num_threads()} threads, {capability}"}
    for i in range(torch.cuda.device_count() if has_gpu() else 0):
        found[f"cuda:{i}"] = _gpu_in_words(i)
    if has_mps():
        found["mps"] = "Apple GPU"
    return found


def _gpu_in_words(i: int) -> str:
    facts = torch.cuda.get_device_properties(i)
    kind = getattr(facts, "gcnArchName", "") if is_rocm() else f"sm_{facts.major}{facts.minor}"
    return f"{facts.name}, {kind}, {facts.total_memory / 2**30:.0f} GiB"


@contextmanager
def float32_precision(*, tf32: bool = False) -> Iterator[None]:
    """Let float32 convolutions and products on NVIDIA round to TF32, or not, and restore that.

    Torch allows it for convolutions by default, and codes then differ between machines. The flags
    are those of the process: of contexts that are open in several threads the newest holds, and
    the last one to close puts back what was before the first.

    Args:
        tf32: Allow 10-bit mantissas.
    """
    own = [tf32]
    with _precision_lock:
        if not _open:
            _before[:] = _precision_flags()
        _open.append(own)
        _set_precision()
    try:
        yield
    finally:
        with _precision_lock:
            _open[:] = [other for other in _open if other is not own]
            _set_precision()


_precision_lock = threading.Lock()
_open: list[list[bool]] = []
"""What the open contexts of all threads want, the newest last."""
_before: list[tuple[Any, str, Any]] = []
"""The flags as they were before the first of them."""


def _set_precision() -> None:
    for place, name, value in _before:
        setattr(place, name, _PRECISION[name][_open[-1][0]] if _open else value)


_PRECISION = {"allow_tf32": (False, True), "fp32_precision": ("ieee", "tf32")}
"""Flag to its values without and with TF32."""


def _precision_flags() -> list[tuple[Any, str, Any]]:
    """Place, name and value of the flags: torch refuses the old ones once the new ones were set."""
    cudnn: Any = torch.backends.cudnn
    matmul = torch.backends.cuda.matmul
    try:
        return [(place, "allow_tf32", place.allow_tf32) for place in (cudnn, matmul)]
    except RuntimeError:
        places = cudnn.conv, cudnn.rnn, matmul
        return [(place, "fp32_precision", place.fp32_precision) for place in places]
