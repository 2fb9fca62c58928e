"""Run by `test_snake_triton.py` with TRITON_INTERPRET=1: the kernel against its twin."""

from __future__ import annotations

import sys

import torch

from dac_rocm.ops import snake_triton as room
from dac_rocm.ops.snake import snake, snake_eager

ALPHAS = torch.tensor([0.0, 1e-9, -1.0, 1e4]).view(1, 4, 1)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def compare(x, alpha, beta, **options):
    """Within 2 ulp and 1e-6 of the eager twin, and of the formula in float64."""
    y = snake(x, alpha, beta, "triton", **options)
    assert y.dtype == x.dtype and y.shape == x.shape and torch.isfinite(y).all()
    for wanted in (snake_eager(x, alpha, beta).double(), truth(x, alpha, beta)):
        gap = (y.double() - wanted).abs()
        limit = 2 * torch.finfo(x.dtype).eps * wanted.abs() + 1e-6
        assert (gap <= limit).all(), (x.shape, x.dtype, gap.max())


def truth(x, alpha, beta):
    """The formula in float64 on the very numbers that the kernel gets; no beta here is -1e-9."""
    step = torch.sin(alpha.double() * x.double()).square()
    return x.double() + step / (beta.float() + 1e-9).double()


def lengths():
    """Around 65,536, where other kernels broke; in large blocks, since the interpreter is slow."""
    compare(torch.randn(1, 1, 65_537), torch.rand(1, 1, 1), torch.rand(1, 1, 1))
    room.BLOCK = 1 << 17
    for n in (1, 65_535, 65_536, 65_537):
        for dtype in DTYPES:
            x = (3 * torch.randn(1, 4, n)).to(dtype)
            compare(x, ALPHAS.to(dtype), ALPHAS.to(dtype))


def small():
    """Batches, odd strides, both memory orders, beta, mixed types, an `out` with strides."""
    room.BLOCK = 64
    alpha, beta = torch.rand(1, 5, 1) + 0.3, torch.rand(1, 5, 1) + 0.3
    for dtype in DTYPES:
        for n in (1, 2, 63, 64, 65, 130):
            compare(torch.randn(2, 5, n).to(dtype), alpha, beta)
    x = torch.randn(3, 40, 9)
    compare(x.transpose(1, 2)[:, 1:6, ::3], alpha, beta)
    compare(x[::2, 2:12:2, 1:], alpha, beta)
    compare(x.transpose(1, 2)[:, :, :5], alpha.transpose(1, 2), beta.transpose(1, 2))
    compare(x[:, :, :5], alpha.transpose(1, 2), beta.transpose(1, 2))
    wide = torch.full((3, 5, 30), 7.0)
    compare(x[:, :5], alpha, beta, out=wide[:, :, 10:19])
    assert (wide[:, :, :10] == 7).all() and (wide[:, :, 19:] == 7).all()


def other():
    """Empty tensors, and shapes that the kernel leaves to the eager function."""
    room.BLOCK = 64
    alpha = torch.rand(1, 5, 1)
    assert snake(torch.randn(2, 5, 0), alpha, alpha, "triton").shape == (2, 5, 0)
    compare(torch.randn(5, 7), torch.rand(5, 1), torch.rand(5, 1))
    compare(torch.randn(5, 7), torch.rand(5, 1), torch.rand(5, 1), out=torch.empty(5, 7))
    compare(torch.randn(2, 1, 9), torch.rand(1, 1, 1), torch.rand(1, 1, 1))
    assert room.block_shape(96, 20, channels_last=False) == (2, 32)
    assert room.block_shape(5, 900, channels_last=True) == (8, 8)


torch.manual_seed(0)
{"lengths": lengths, "small": small, "other": other}[sys.argv[1]]()
