"""Convolutions of [B, T, C]: oneDNN's with packed weights, and torch's public one.

oneDNN's packed calls are private in torch: `choose_convolution` tries them first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from dac_rocm.choice import Choice
from dac_rocm.runtime.pieces import Convolve, by_pieces
from dac_rocm.runtime.winograd import Products

LENGTHS = 2
"""Lengths for which bfloat16 weights are kept packed: a push has pieces of two (`pieces`)."""


def packed(weight: Tensor, bias: Tensor | None, stride: int, dilation: int) -> Convolve:
    """Convolve by oneDNN with weights in its own order."""
    ops = torch.ops.mkldnn
    dense = weight[:, :, None].contiguous(memory_format=torch.channels_last)
    where = [0, 0], [1, stride], [1, dilation], 1

    def pack(length: int) -> Tensor:
        ordered: Tensor = ops._reorder_convolution_weight(
            dense, *where, [1, weight.shape[1], 1, length]
        )
        return ordered

    ordered_for = _one_order(pack, weight) if weight.dtype != torch.bfloat16 else _orders(pack)

    def convolve(x: Tensor) -> Tensor:
        ordered = ordered_for(x.shape[1])
        return _signal(ops._convolution_pointwise(_image(x), ordered, bias, *where, "none", [], ""))

    span = (weight.shape[2] - 1) * dilation + 1
    return by_pieces(convolve, weight.shape[0], span, stride)


def _one_order(pack: Callable[[int], Tensor], weight: Tensor) -> Callable[[int], Tensor]:
    """In float32 one order of the weights suits all lengths."""
    ordered = pack(_typical_length(weight))
    return lambda length: ordered


def _orders(pack: Callable[[int], Tensor]) -> Callable[[int], Tensor]:
    """In bfloat16 oneDNN has orders for short and for long signals.

    The wrong one is redone at each call, which takes 20 to 100 times as long as the convolution.
    """
    return lru_cache(LENGTHS)(pack)


def linear(weight: Tensor, bias: Tensor | None) -> Convolve:
    """Multiply by oneDNN's matrix product, the faster one where there are 1 or 2 taps.

    Rows of several taps overlap in memory: each is the one before it, a step later.
    """
    ops = torch.ops.mkldnn
    out, into, taps = weight.shape
    rows = weight.transpose(1, 2).reshape(out, taps * into)
    ordered = ops._reorder_linear_weight(rows, _typical_length(weight))

    def convolve(x: Tensor) -> Tensor:
        shape = x.shape[0], x.shape[1] - taps + 1, taps * into
        seen = x.as_strided(shape, x.stride()) if taps > 1 else x
        y: Tensor = ops._linear_pointwise(seen, ordered, bias, "none", [], "")
        return y

    return by_pieces(convolve, out, taps, 1)


class PackedProducts(Products):
    """By oneDNN with packed filters, one by one."""

    piece = 1 << 20

    def __init__(self, filters: Tensor, bias: Tensor | None) -> None:
        pack, length = torch.ops.mkldnn._reorder_linear_weight, _typical_length(filters)
        self._filters = [pack(f, length) for f in filters]
        self._biases = [bias] + [None] * (len(filters) - 1)

    def __call__(self, points: Tensor) -> Tensor:
        """See `winograd.Products`."""
        multiply = torch.ops.mkldnn._linear_pointwise
        each = zip(points, self._filters, self._biases, strict=True)
        return torch.stack([multiply(x, f, bias, "none", [], "") for x, f, bias in each])


def public(weight: Tensor, bias: Tensor | None, stride: int, dilation: int) -> Convolve:
    """Convolve by torch's public call, which reorders the weights each time."""
    dense = weight[:, :, None].contiguous(memory_format=torch.channels_last)

    def convolve(x: Tensor) -> Tensor:
        return _signal(F.conv2d(_image(x), dense, bias, (1, stride), 0, (1, dilation)))

    return convolve


def _typical_length(weight: Tensor) -> int:
    return max(64, (1 << 20) // max(weight.shape[:2]))


def _image(x: Tensor) -> Tensor:
    """View [B, T, C] as [B, C, 1, T], channels last."""
    return x.transpose(1, 2).unsqueeze(2)


def _signal(y: Tensor) -> Tensor:
    """View [B, C, 1, T], channels last, as [B, T, C]."""
    return y.squeeze(2).transpose(1, 2)


def choose_convolution() -> Choice:
    """Choose between oneDNN's packed calls and torch's public one, by trying."""
    weight, bias, x = torch.ones(2, 2, 2), torch.ones(2), torch.arange(8.0).view(1, 4, 2)
    wanted = torch.tensor([7.0, 15.0, 23.0]).view(1, 3, 1).expand(1, 3, 2)
    try:
        found = packed(weight, bias, 1, 1)(x), linear(weight, bias)(x)
    except (AttributeError, RuntimeError, TypeError) as error:
        return Choice("conv2d", f"oneDNN's packed call is not to be had ({type(error).__name__})")
    if not all(torch.equal(y, wanted) for y in found):
        return Choice("conv2d", "oneDNN's packed call gave another result than it should")
    return Choice("onednn", "weights are packed once, and not at every call")
