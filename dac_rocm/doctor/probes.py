"""Probes: small computations whose true results are known, for the doctor to run anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional as F

from dac_rocm.codec import Codec
from dac_rocm.model import load
from dac_rocm.ops import platform
from dac_rocm.ops.snake import snake
from dac_rocm.runtime.select import DTYPES

LIMITS = {
    "float32": {"operation": 1e-5, "network": 1e-3},
    "float16": {"operation": 5e-3, "network": 1e-1},
    "bfloat16": {"operation": 4e-2, "network": 4e-1},
}
"""Largest error, as a share of the largest value that is expected. One operation: about ten steps
of the type. The network: ten times what the bundled model shows on a CPU in that type."""
SECONDS = 0.25
"""Length of the audio that the bundled model encodes and decodes."""


@dataclass(frozen=True)
class Probe:
    """One computation with its true result.

    Args:
        name: In words.
        kind: Key of `LIMITS`.
        run: Computes it on a device and in a type.
        truth: The result in float64.
    """

    name: str
    kind: str
    run: Callable[[str, str], Tensor]
    truth: Tensor

    def error(self, device: str, dtype: str) -> float:
        """Run it; returns the largest difference over the largest true value."""
        with platform.float32_precision():
            found = self.run(device, dtype).double().cpu()
        return float((found - self.truth).abs().max() / self.truth.abs().max())


def make_probes() -> tuple[Probe, ...]:
    """Make every probe with its true result.

    Convolutions are checked against sums of products, in which no library has a hand; the bundled
    model against its readable modules in float64.
    """
    generator = torch.Generator().manual_seed(0)
    x, w, up = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((2, 32, 500), (48, 32, 7), (32, 16, 8))
    )
    alpha = torch.rand(1, 32, 1, generator=generator, dtype=torch.float64) + 0.3
    audio = 0.1 * torch.randn(1, 1, int(16000 * SECONDS), generator=generator)
    return (
        Probe("snake", "operation", _on(snake, x, alpha, alpha), _snake(x, alpha)),
        Probe("conv", "operation", _on(partial(F.conv1d, dilation=3), x, w), _conv(x, w, 3)),
        Probe(
            "transposed conv",
            "operation",
            _on(partial(F.conv_transpose1d, stride=4), x, up),
            _transposed(x, up, 4),
        ),
        *_model_probes(audio),
    )


def _on(function: Callable[..., Tensor], *tensors: Tensor) -> Callable[[str, str], Tensor]:
    """Make what computes a function of tensors on a device and in a type."""
    return lambda device, dtype: function(*(t.to(device, DTYPES[dtype]) for t in tensors))


def _snake(x: Tensor, alpha: Tensor) -> Tensor:
    return x + torch.sin(alpha * x).square() / (alpha + 1e-9)


def _conv(x: Tensor, weight: Tensor, dilation: int) -> Tensor:
    """Convolve by summing products, tap by tap."""
    taps = weight.shape[-1]
    n = x.shape[-1] - dilation * (taps - 1)
    shifted = (x[..., k * dilation : k * dilation + n] for k in range(taps))
    return torch.stack([weight[..., k] @ part for k, part in enumerate(shifted)]).sum(0)


def _transposed(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    """Convolve, transposed, by summing products, tap by tap."""
    taps = weight.shape[-1]
    y = x.new_zeros(x.shape[0], weight.shape[1], (x.shape[-1] - 1) * stride + taps)
    for k in range(taps):
        y[..., k : k + (x.shape[-1] - 1) * stride + 1 : stride] += weight[..., k].T @ x
    return y


def _model_probes(audio: Tensor) -> tuple[Probe, ...]:
    @cache
    def model(device: str, dtype: str) -> Codec:
        return load("tiny", device=device, dtype=dtype)

    twin = load("tiny", device="cpu", snake="eager", optimize=False).double()
    z = twin.get_submodule("encoder")(twin.pad(audio).double())
    heard = twin.get_submodule("decoder")(z)
    return (
        Probe("encode", "network", lambda *to: model(*to).encode_z(audio), z),
        Probe("decode", "network", lambda *to: model(*to).decode_z(z), heard),
    )
