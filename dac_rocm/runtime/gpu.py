"""The GPU network: fused snakes, and convolutions in the memory order that suits the card.

Two orders: [B, T, C] ("channels-last"), which tensor cores read without a transposition, and
[B, C, T] ("channels-first"), which MIOpen is tuned for. In the first a transposed convolution is
a plain one that makes `stride` outputs side by side, and a convolution of one tap is a product of
matrices. It runs on any device; the plain network is its slow twin (`tests/runtime/test_gpu.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from dac_rocm.choice import Choice
from dac_rocm.errors import BackendError
from dac_rocm.lowering import Conv, Step, Steps, Transposed
from dac_rocm.nn.layers import Snake1d
from dac_rocm.ops import platform
from dac_rocm.ops.conv import side_by_side
from dac_rocm.ops.snake import snake

Convolve = Callable[[Tensor], Tensor]

ORDERS = {"channels-first": 2, "channels-last": 1}
"""Memory order to its axis of time."""


def choose_order(wanted: str = "auto") -> Choice:
    """Choose the memory order.

    Args:
        wanted: `auto`, `channels-last` or `channels-first`.

    Raises:
        BackendError: Another name.
    """
    if wanted in ORDERS:
        return Choice(wanted, "was asked for")
    if wanted != "auto":
        raise BackendError(
            f"memory order {wanted!r} found; auto or one of {', '.join(ORDERS)} is expected. "
            "Leave it out to let the package choose."
        )
    if platform.is_rocm():
        return Choice("channels-first", "MIOpen is tuned for it; not yet measured here")
    return Choice("channels-last", "tensor cores read it as it is; not yet measured here")


class GpuKernel:
    """One convolution step.

    Args:
        step: Integers of the step.
        weight: As the `nn` module holds it.
        bias: As the `nn` module holds it, or None.
        module: The snake before the step, or None.
        backend: Snake backend; see `ops.snake`.
        time: Axis of time: 1 or 2.
    """

    def __init__(
        self,
        step: Conv | Transposed,
        weight: Tensor,
        bias: Tensor | None,
        module: Snake1d | None,
        *,
        backend: str,
        time: int,
    ) -> None:
        self.step, self.backend, self.time = step, backend, time
        self.alpha = self.beta = None
        if module is not None:
            pair = (c.detach().movedim(1, 3 - time) for c in module.coefficients())
            self.alpha, self.beta = pair
        make = _first if time == 2 else _last
        self._convolve = make(step, weight, bias)

    def activate(self, x: Tensor) -> Tensor:
        """Apply the snake to `x` in memory order, if there is one."""
        if self.alpha is None or self.beta is None or not x.shape[self.time]:
            return x
        return snake(x, self.alpha, self.beta, self.backend)

    def extend(self, past: Tensor, x: Tensor, after: int = 0) -> Tensor:
        """Return `past`, the activated `x` and `after` zeros; see `nodes.Kernel`."""
        time, n, m = self.time, past.shape[self.time], x.shape[self.time]
        if n + after == 0:
            return self.activate(x)
        shape = list(x.shape)
        shape[time] = n + m + after
        both = x.new_empty(shape)
        both.narrow(time, 0, n).copy_(past)
        both.narrow(time, n + m, after).zero_()
        target = both.narrow(time, n, m)
        if self.alpha is None or self.beta is None:
            target.copy_(x)
        else:
            snake(x, self.alpha, self.beta, self.backend, out=target)
        return both

    def convolve(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """Convolve `x` in memory order without padding; see `nodes.Kernel`."""
        y = self._convolve(x)
        return y if onto is None else y.add_(onto)


class GpuNetwork:
    """Steps on a GPU; see `engine.Network`.

    Args:
        steps: Lowered encoder or decoder.
        tensors: Parameters by canonical name, on the device and of the type to run in.
        snakes: The `Snake1d` modules by canonical name.
        backend: Snake backend; see `ops.snake`.
        order: Memory order; see `choose_order`.
        tf32: Let float32 products on NVIDIA round to TF32.
    """

    cached: int | None = None

    def __init__(
        self,
        steps: Steps,
        tensors: Mapping[str, Tensor],
        snakes: Mapping[str, Snake1d],
        *,
        backend: str = "auto",
        order: str = "auto",
        tf32: bool = False,
    ) -> None:
        self.steps, self.tf32 = steps, tf32
        self.order = choose_order(order)
        self.time = ORDERS[self.order.name]
        self.kernels: Sequence[GpuKernel | None] = [
            self._kernel(step, tensors, snakes, backend) for step in steps
        ]
        self._like = next(
            tensors[f"{s.name}.weight"] for s in steps if isinstance(s, Conv | Transposed)
        )

    def _kernel(
        self,
        step: Step,
        tensors: Mapping[str, Tensor],
        snakes: Mapping[str, Snake1d],
        backend: str,
    ) -> GpuKernel | None:
        if not isinstance(step, Conv | Transposed):
            return None
        bias = tensors.get(f"{step.name}.bias")
        module = None if step.snake is None else snakes[step.snake]
        weight = tensors[f"{step.name}.weight"].detach()
        return GpuKernel(step, weight, bias, module, backend=backend, time=self.time)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self._like.device

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        return self._like.dtype

    def enter(self, x: Tensor) -> Tensor:
        """Bring [B, C, T] into memory order, device and type of the weights."""
        x = x.to(self.device, self.dtype)
        return x if self.time == 2 else x.transpose(1, 2).contiguous()

    def leave(self, x: Tensor) -> Tensor:
        """Bring a result back to [B, C, T]."""
        return x if self.time == 2 else x.transpose(1, 2).contiguous()


def _first(step: Conv | Transposed, weight: Tensor, bias: Tensor | None) -> Convolve:
    """Convolve [B, C, T]."""
    if isinstance(step, Conv):
        return lambda x: F.conv1d(x, weight, bias, step.stride, 0, step.dilation)
    start = (step.taps - 1) * step.stride

    def transposed(x: Tensor) -> Tensor:
        y = F.conv_transpose1d(x, weight, bias, step.stride)
        return y.narrow(-1, start, x.shape[-1] * step.stride - start)

    return transposed


def _last(step: Conv | Transposed, weight: Tensor, bias: Tensor | None) -> Convolve:
    """Convolve [B, T, C]."""
    if isinstance(step, Transposed):
        return _last_transposed(step, weight, bias)
    if step.kernel == step.stride == 1:
        matrix = weight.squeeze(-1).contiguous()
        return lambda x: F.linear(x, matrix, bias)
    dense = weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)

    def convolve(x: Tensor) -> Tensor:
        image = x.transpose(1, 2).unsqueeze(2)
        y = F.conv2d(image, dense, bias, (1, step.stride), 0, (1, step.dilation))
        return y.squeeze(2).transpose(1, 2)

    return convolve


def _last_transposed(step: Transposed, weight: Tensor, bias: Tensor | None) -> Convolve:
    plain = Conv(
        name=step.name,
        snake=None,
        in_channels=step.in_channels,
        out_channels=step.stride * step.out_channels,
        kernel=step.taps,
    )
    shared = None if bias is None else bias.repeat(step.stride)
    convolve = _last(plain, side_by_side(step, weight), shared)
    return lambda x: convolve(x).reshape(x.shape[0], -1, step.out_channels)
