"""The CPU network: time-major activations, packed weights, snakes that cost three passes.

Activations are [B, T, C], which oneDNN calls channels-last: its convolutions then run near the
machine's peak. Every convolution, strided and transposed ones too, is one call with weights that
were packed once. The amplitude 1/α of a snake is multiplied into the weights after it, so the
snake itself is u = αx, s = sin u, u + s².

The plain network is the slow twin; `tests/laws` ties the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from dac_rocm.lowering import Conv, Step, Steps, Transposed
from dac_rocm.nn.layers import Snake1d
from dac_rocm.nodes import Kernel
from dac_rocm.ops.conv import side_by_side
from dac_rocm.runtime.convolution import (
    PackedProducts,
    choose_convolution,
    linear,
    packed,
    public,
)
from dac_rocm.runtime.pieces import Convolve
from dac_rocm.runtime.winograd import TAPS, BatchedProducts, Winograd

MIN_ALPHA = 1e-8
"""Frequencies below are taken as this: u + u² is then u to the last bit, as the formula says."""

PIECE = 1 << 17
"""Elements of a snake that each thread computes at once: they stay in the cache of its core."""

CACHED = 3 << 19
"""Elements of an activation (6 MiB in float32) that stay in the cache that each core has to itself
or shares."""

ROWS = 64
"""Output channels of a weight that are computed at once, in float64."""

WINOGRAD_CHANNELS = 96
"""Fewest channels where fewer multiplications pay for the transforms: 1.1 times faster at 96 and
twice at 384 on two Zen 4 cores; at 64 as fast as the direct convolution."""
PACKED_CHANNELS = 192
"""Fewest channels where its products are faster with packed weights, one by one."""


class CpuKernel:
    """One convolution step on [B, T, C].

    Args:
        step: Integers of the step.
        weight: As the `nn` module holds it.
        bias: As the `nn` module holds it, or None.
        snake: The module before the step, or None.
        gain: What the outputs are multiplied by [C'], or None: α of the snake behind the step.
        driven: The step before multiplied by α, and its outputs are for this one alone.
        private: Use oneDNN's packed calls, which torch keeps private.
    """

    def __init__(
        self,
        step: Conv | Transposed,
        weight: Tensor,
        bias: Tensor | None,
        snake: Snake1d | None,
        *,
        gain: Tensor | None,
        driven: bool,
        private: bool,
    ) -> None:
        self.step, self._driven = step, driven
        self.alpha, self.beta = _coefficients(snake)
        if gain is not None and bias is not None:
            bias = (bias.double() * gain).to(bias.dtype)
        dense = side_by_side(step, weight) if isinstance(step, Transposed) else weight
        self._fold = _folded_stride(step)
        dense = _fold(_scaled(dense, self.beta, gain), self._fold)
        self._convolve = _convolution(step, dense, _bias_of(step, bias), self._fold, private)
        if self.alpha is not None and self.beta is not None:
            self.alpha, self.beta = self.alpha.to(weight.dtype), self.beta.to(weight.dtype)
            self._shared = bool(torch.equal(self.alpha, self.beta))

    def extend(self, past: Tensor, x: Tensor, after: int) -> Tensor:
        """Return `past`, β · snake(x), which the weights undo, and `after` zeros."""
        n, m = past.shape[1], x.shape[1]
        ready = self.alpha is None or self._driven
        if n + after == 0 and ready:
            both = inside = x
        else:
            both = x.new_empty(x.shape[0], n + m + after, x.shape[2])
            both.narrow(1, 0, n).copy_(past)
            both.narrow(1, n + m, after).zero_()
            inside = both.narrow(1, n, m)
            if ready:
                inside.copy_(x)
        self._activate(inside if ready else x, inside)
        return both

    def _activate(self, x: Tensor, out: Tensor) -> None:
        """Write β · snake(x) to `out`, piece by piece, so that a piece stays in the cache.

        Where `out` is `x`, that is αx before.
        """
        if self.alpha is None or self.beta is None:
            return
        rows = max(1, PIECE * torch.get_num_threads() // (x.shape[0] * x.shape[2]))
        sines = x.new_empty(x.shape[0], min(rows, x.shape[1]), x.shape[2])
        for start in range(0, x.shape[1], rows):
            n = min(rows, x.shape[1] - start)
            piece, u, s = x.narrow(1, start, n), out.narrow(1, start, n), sines.narrow(1, 0, n)
            if out is not x:
                torch.mul(piece, self.alpha, out=u)
            _sin(u, s)
            if not self._shared:
                torch.mul(piece, self.beta, out=u)
            u.addcmul_(s, s)

    def convolve(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """Convolve [B, T, C] without padding; see `nodes.Kernel`."""
        if self._fold > 1:
            x = x.contiguous().view(x.shape[0], -1, self._fold * x.shape[2])
        y = self._convolve(x)
        if isinstance(self.step, Transposed):
            return y.reshape(y.shape[0], -1, self.step.out_channels)
        return y if onto is None else y.add_(onto)


def _sin(x: Tensor, out: Tensor) -> None:
    """Write the sine by numpy where there is one thread: in float32 twice as fast as MKL's here."""
    if x.dtype != torch.float32 or torch.get_num_threads() > 1:
        torch.sin(x, out=out)
        return
    with np.errstate(invalid="ignore"):
        np.sin(x.numpy(), out=out.numpy())


def _coefficients(snake: Snake1d | None) -> tuple[Tensor | None, Tensor | None]:
    """Return α and β [C] in float64, away from zero."""
    if snake is None:
        return None, None
    alpha, beta = (c.detach().double().flatten() for c in snake.coefficients())
    if not snake.log_scale:
        alpha = torch.where(alpha.abs() < MIN_ALPHA, MIN_ALPHA, alpha)
        return alpha, alpha
    return alpha, beta + 1e-9


def _scaled(weight: Tensor, beta: Tensor | None, gain: Tensor | None) -> Tensor:
    """Return a copy of a weight, times `gain` [C'], over β [C], rounded once.

    Few rows at a time are in float64.
    """
    copy = torch.empty_like(weight)
    for i in range(0, len(weight), ROWS):
        rows = weight[i : i + ROWS].double()
        if gain is not None:
            rows = rows * gain[i : i + ROWS, None, None]
        if beta is not None:
            rows = rows / beta[:, None]
        copy[i : i + ROWS] = rows
    return copy


def _folded_stride(step: Conv | Transposed) -> int:
    """Return s where a strided convolution has 2 s taps, else 1.

    Its input [T, C] is then [T / s, s C] in the same memory, and the convolution one of 2 taps.
    """
    return step.stride if isinstance(step, Conv) and step.kernel == 2 * step.stride else 1


def _fold(weight: Tensor, stride: int) -> Tensor:
    if stride == 1:
        return weight
    out, into, _ = weight.shape
    taps = weight.view(out, into, 2, stride)
    return taps.permute(0, 3, 1, 2).reshape(out, stride * into, 2)


def _convolution(
    step: Conv | Transposed, weight: Tensor, bias: Tensor | None, fold: int, private: bool
) -> Convolve:
    weight = weight.contiguous()
    stride, dilation = (step.stride // fold, step.dilation) if isinstance(step, Conv) else (1, 1)
    if _saves_products(step, weight):
        one_by_one = private and min(weight.shape[:2]) >= PACKED_CHANNELS
        return Winograd(weight, bias, dilation, PackedProducts if one_by_one else BatchedProducts)
    if not private:
        return public(weight, bias, stride, dilation)
    if weight.shape[2] <= 2 and stride == dilation == 1:
        return linear(weight, bias)
    return packed(weight, bias, stride, dilation)


def _saves_products(step: Conv | Transposed, weight: Tensor) -> bool:
    """Tell whether minimal filtering is faster; bfloat16 has no digits to spare for it."""
    return (
        isinstance(step, Conv)
        and (step.kernel, step.stride) == (TAPS, 1)
        and min(step.in_channels, step.out_channels) >= WINOGRAD_CHANNELS
        and weight.dtype != torch.bfloat16
        and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    )


def _bias_of(step: Conv | Transposed, bias: Tensor | None) -> Tensor | None:
    if bias is None or isinstance(step, Conv):
        return bias
    return bias.repeat(step.stride)


class CpuNetwork:
    """Steps as `CpuKernel`s. Arguments: see `plain.PlainNetwork`."""

    time = 1
    tf32 = False

    def __init__(
        self, steps: Steps, tensors: Mapping[str, Tensor], snakes: Mapping[str, Snake1d]
    ) -> None:
        self.steps = steps
        private = choose_convolution().name == "onednn"
        gains = [*(_gain(*pair, snakes) for pair in pairwise(steps)), None]
        self.kernels: Sequence[Kernel | None] = [
            _kernel(step, tensors, snakes, gain, before is not None, private)
            for step, gain, before in zip(steps, gains, [None, *gains[:-1]], strict=True)
        ]
        self._dtype = next(iter(tensors.values())).dtype

    @property
    def cached(self) -> int:
        """See `engine.Network`: as much for each core."""
        return CACHED * torch.get_num_threads()

    def enter(self, x: Tensor) -> Tensor:
        """Bring [B, C, T] to [B, T, C]."""
        return x.to("cpu", self._dtype).transpose(1, 2).contiguous()

    def leave(self, x: Tensor) -> Tensor:
        """Bring [B, T, C] to [B, C, T]."""
        return x.transpose(1, 2).contiguous()


def _gain(step: Step, after: Step, snakes: Mapping[str, Snake1d]) -> Tensor | None:
    """Return α of the snake that a convolution's outputs go to, and nowhere else; else None."""
    if not isinstance(step, Conv) or not isinstance(after, Conv | Transposed):
        return None
    alpha, beta = _coefficients(snakes.get(after.snake or ""))
    return alpha if alpha is beta else None


def _kernel(
    step: Step,
    tensors: Mapping[str, Tensor],
    snakes: Mapping[str, Snake1d],
    gain: Tensor | None,
    driven: bool,
    private: bool,
) -> CpuKernel | None:
    if not isinstance(step, Conv | Transposed):
        return None
    snake = snakes[step.snake] if step.snake is not None else None
    weight, bias = tensors[f"{step.name}.weight"], tensors.get(f"{step.name}.bias")
    return CpuKernel(step, weight, bias, snake, gain=gain, driven=driven, private=private)
