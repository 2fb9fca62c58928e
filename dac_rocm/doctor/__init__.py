"""Doctor: what this machine is, what was chosen for it and why, and whether it computes rightly.

Small probes (snake, convolutions, the bundled model) run on every device and in every type of
number, and are compared with float64 on the CPU. Where one is wrong, the switches that could mend
it are tried, and the first that does is named. Nothing here changes the machine, and of the process
only MIOpen's find mode, as `load` does.
"""

from __future__ import annotations

import math
import os
import platform as machine
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch

from dac_rocm.choice import Choice
from dac_rocm.doctor.probes import LIMITS, Probe, make_probes
from dac_rocm.errors import BackendError
from dac_rocm.ops import platform
from dac_rocm.ops.snake import ENVIRONMENT, choose_snake
from dac_rocm.runtime.backends import conv_backend, prepare_miopen
from dac_rocm.runtime.optimize import choose_profile
from dac_rocm.runtime.select import DTYPES, choose_device, choose_dtype, device_kind

PACKAGES = {
    **{name: (name,) for name in ("dac_rocm", "torchaudio", "numpy", "soundfile", "safetensors")},
    "triton": ("triton", "pytorch-triton-rocm", "pytorch-triton"),
}
"""Package to the names under which it is distributed."""
VARIABLES = ("DAC_ROCM_", "MIOPEN_", "HIP_", "HSA_", "ROCR_", "CUDA_", "PYTORCH_", "TRITON_")
"""How the names of environment variables begin that matter here."""


@dataclass(frozen=True)
class Check:
    """One probe on one device in one type.

    Args:
        name: `snake`, `conv`, `transposed conv`, `encode` or `decode`.
        device: As torch names it.
        dtype: Type of number.
        error: Largest difference from float64 on the CPU, over the largest value expected.
        limit: Largest error that is still right.
        finding: What went wrong and what mends it; empty where nothing did.
    """

    name: str
    device: str
    dtype: str
    error: float
    limit: float
    finding: str = ""

    @property
    def ok(self) -> bool:
        """The error is within the limit; NaN is not."""
        return self.error <= self.limit

    @property
    def ran(self) -> bool:
        """It gave finite numbers."""
        return math.isfinite(self.error)


@dataclass(frozen=True)
class Report:
    """What the doctor found.

    Args:
        facts: Versions, devices and environment variables, in words.
        choices: What is chosen on this machine, and why.
        checks: Every probe that was run.
    """

    facts: dict[str, str]
    choices: dict[str, Choice]
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Every check is right."""
        return all(check.ok for check in self.checks)


def diagnose(devices: Sequence[str] | None = None) -> Report:
    """Examine the machine.

    Args:
        devices: As torch names them; default: all that are there.

    Raises:
        BackendError: A device is unknown or not there.
    """
    names = [choose_device(name).name for name in devices or platform.devices()]
    for name in names:
        prepare_miopen(name)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # what they would say is in the report
        pairs = [(name, dtype) for name in names for dtype in dtypes_of(name)]
        table = make_probes()
        checks = [examine(probe, *pair) for pair in pairs for probe in table]
        return Report(facts(), dict(choices(pairs)), tuple(checks))


def dtypes_of(device: str) -> list[str]:
    """Return the types of number to be used on a device: those it computes in without emulation."""
    kind = device_kind(device)
    if kind == "cuda":
        has_bfloat16 = platform.gpu_has_bfloat16(torch.device(device))
        return ["float32", "float16"] + ["bfloat16"] * has_bfloat16
    return ["float32"] + ["bfloat16"] * (kind == "cpu" and platform.cpu_has_bfloat16())


def facts() -> dict[str, str]:
    """Return versions, devices and the environment variables that matter here."""
    found = {"python": machine.python_version(), "system": machine.platform()}
    found |= {name: _version(distributions) for name, distributions in PACKAGES.items()}
    found |= {name: value or "none" for name, value in platform.versions().items()}
    found |= platform.devices()
    found |= {n: v for n, v in sorted(os.environ.items()) if n.startswith(VARIABLES)}
    return found


def _version(distributions: Sequence[str]) -> str:
    for name in distributions:
        with suppress(PackageNotFoundError):
            return version(name)
    return "not installed"


def choices(pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Choice]]:
    """Yield what is chosen by itself on this machine, and for each device and type."""
    device = choose_device()
    yield "device", device
    yield "dtype", choose_dtype("auto", device.name)
    for name, dtype in pairs:
        x = torch.zeros(1, 1, 1, device=name, dtype=DTYPES[dtype])
        yield f"snake on {name} in {dtype}", _chosen(choose_snake, x, x)
        network = _chosen(choose_profile, "auto", x.device, x.dtype)
        yield f"network on {name} in {dtype}", network


def _chosen(choose: Callable[..., Choice], *args: object) -> Choice:
    try:
        return choose(*args)
    except BackendError as error:
        return Choice("none", str(error))


def examine(probe: Probe, device: str, dtype: str) -> Check:
    """Run one probe; where it is wrong, find the switch that mends it."""
    limit = LIMITS[dtype][probe.kind]
    error, problem = _attempt(probe, device, dtype)
    check = Check(probe.name, device, dtype, error, limit)
    if check.ok:
        return check
    return Check(
        probe.name, device, dtype, error, limit, f"{problem}; {_mended(probe, device, dtype)}"
    )


def _attempt(probe: Probe, device: str, dtype: str) -> tuple[float, str]:
    try:
        return probe.error(device, dtype), "wrong result"
    except Exception as failure:  # a broken library raises all kinds
        return float("nan"), f"{type(failure).__name__}: {failure}".splitlines()[0]


def _mended(probe: Probe, device: str, dtype: str) -> str:
    for switch, context, other in _switches(device, dtype):
        with context:
            error, _ = _attempt(probe, device, other)
        if error <= LIMITS[other][probe.kind]:
            return f"{switch} mends it"
    return f"no switch mends it on {device}: use another device, and report this page"


def _switches(device: str, dtype: str) -> Iterator[tuple[str, AbstractContextManager[object], str]]:
    """Yield what a user can set, a context that does the same, and the type to run in."""
    yield f"{ENVIRONMENT}=eager", _eager_snake(), dtype
    for name in ("native", "cpu"):
        yield f"conv_backend({name!r})", conv_backend(name), dtype
    yield "dtype='float32'", nullcontext(), "float32"


@contextmanager
def _eager_snake() -> Iterator[None]:
    before = os.environ.get(ENVIRONMENT)
    os.environ[ENVIRONMENT] = "eager"
    try:
        yield
    finally:
        del os.environ[ENVIRONMENT]
        if before is not None:
            os.environ[ENVIRONMENT] = before
