"""The plain network: the engine's steps on torch's own convolutions, [B, C, T], any device.

It reads the parameters of the `nn` modules and copies none, so it follows `.to` and `.half`.
`runtime` has the faster networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dac_rocm.lowering import Conv, Step, Steps, Transposed
from dac_rocm.nn.layers import Snake1d
from dac_rocm.nodes import Kernel
from dac_rocm.ops.snake import snake


@dataclass(frozen=True, eq=False)
class PlainKernel:
    """One convolution step on torch's own operations.

    Args:
        step: Integers of the step.
        weight: As the `nn` module holds it.
        bias: As the `nn` module holds it, or None.
        alpha: Linear α [1, C, 1], or None where no snake stands before the step.
        beta: Linear β [1, C, 1], or None.
        backend: Snake backend.
    """

    step: Conv | Transposed
    weight: Tensor
    bias: Tensor | None
    alpha: Tensor | None
    beta: Tensor | None
    backend: str

    def extend(self, past: Tensor, x: Tensor, after: int) -> Tensor:
        """Return `past`, the activated `x` and `after` zeros; see `nodes.Kernel`."""
        if self.alpha is not None and self.beta is not None and x.shape[-1]:
            x = snake(x, self.alpha, self.beta, self.backend)
        if not past.shape[-1] + after:
            return x
        return torch.cat((past, x, x.new_zeros(*x.shape[:-1], after)), -1)

    def convolve(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """Convolve [B, C, T] without padding; see `nodes.Kernel`."""
        step = self.step
        if isinstance(step, Conv):
            y = F.conv1d(x, self.weight, self.bias, step.stride, 0, step.dilation)
            return y if onto is None else y.add_(onto)
        y = F.conv_transpose1d(x, self.weight, self.bias, step.stride)
        past = step.taps - 1
        return y.narrow(-1, past * step.stride, (x.shape[-1] - past) * step.stride)


class PlainNetwork:
    """Steps on torch's own operations.

    Args:
        steps: Lowered encoder or decoder.
        tensors: Parameters by canonical name.
        snakes: The `Snake1d` modules by canonical name, for their linear coefficients.
    """

    time = 2
    tf32 = False
    cached: int | None = None

    def __init__(
        self, steps: Steps, tensors: Mapping[str, Tensor], snakes: Mapping[str, Snake1d]
    ) -> None:
        self.steps = steps
        kernels = [_kernel(step, tensors, snakes) for step in steps]
        self.kernels: Sequence[Kernel | None] = kernels
        self._like = next(k.weight for k in kernels if k is not None)

    def enter(self, x: Tensor) -> Tensor:
        """Bring [B, C, T] to device and type of the weights."""
        return x.to(self._like.device, self._like.dtype)

    def leave(self, x: Tensor) -> Tensor:
        """Return `x`, which is [B, C, T] already."""
        return x


def _kernel(
    step: Step, tensors: Mapping[str, Tensor], snakes: Mapping[str, Snake1d]
) -> PlainKernel | None:
    if not isinstance(step, Conv | Transposed):
        return None
    alpha = beta = None
    backend = "auto"
    if step.snake is not None:
        module = snakes[step.snake]
        alpha, beta = module.coefficients()
        backend = module.backend
    weight, bias = tensors[f"{step.name}.weight"], tensors.get(f"{step.name}.bias")
    return PlainKernel(step, weight, bias, alpha, beta, backend)
