"""Snake as one Triton kernel, for CUDA and ROCm: each value is read once and written once.

Imported only when it was chosen. Sine is exact (the device library's, no polynomial), arithmetic
is float32, and every stride is an argument, so that [B, C, T], [B, T, C] and views of either run
without a copy. The slow twin is `snake_eager`.

Source: the formula of `ops.snake`. A one-dimensional grid, since the other axes of a CUDA grid
end at 65,535 blocks.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from dac_rocm.ops.snake import snake_eager

BLOCK = 1024
"""Values per program: 8 for each of 128 threads, two loads of 16 bytes in float32."""


@triton.jit  # type: ignore[untyped-decorator]
def snake_kernel(
    x: tl.tensor,
    out: tl.tensor,
    alpha: tl.tensor,
    beta: tl.tensor,
    channels: tl.tensor,
    times: tl.tensor,
    x_b: tl.tensor,
    x_c: tl.tensor,
    x_t: tl.tensor,
    out_b: tl.tensor,
    out_c: tl.tensor,
    out_t: tl.tensor,
    alpha_c: tl.tensor,
    beta_c: tl.tensor,
    BLOCK_C: tl.constexpr,  # noqa: N803
    BLOCK_T: tl.constexpr,  # noqa: N803
) -> None:
    """Compute one block of channels and times of one batch item; `*_b`, `_c`, `_t` are strides."""
    program = tl.program_id(0)
    blocks_t = tl.cdiv(times, BLOCK_T)
    blocks_c = tl.cdiv(channels, BLOCK_C)
    b = (program // (blocks_t * blocks_c)).to(tl.int64)
    first_c = (program // blocks_t) % blocks_c * BLOCK_C
    first_t = (program % blocks_t).to(tl.int64) * BLOCK_T
    c = (first_c + tl.arange(0, BLOCK_C)).to(tl.int64)[:, None]
    t = (first_t + tl.arange(0, BLOCK_T))[None, :]
    inside_c = c < channels
    inside = inside_c & (t < times)

    a = tl.load(alpha + c * alpha_c, mask=inside_c, other=0.0).to(tl.float32)
    inverse = tl.load(beta + c * beta_c, mask=inside_c, other=0.0).to(tl.float32) + 1e-9
    is_zero = inverse == 0.0
    scale = tl.where(is_zero, 0.0, tl.div_rn(1.0, tl.where(is_zero, 1.0, inverse)))

    wide = tl.load(x + b * x_b + c * x_c + t * x_t, mask=inside, other=0.0).to(tl.float32)
    sine = tl.sin(a * wide)
    y = wide + scale * (sine * sine)
    tl.store(out + b * out_b + c * out_c + t * out_t, y.to(out.dtype.element_ty), mask=inside)


def snake_triton(x: Tensor, alpha: Tensor, beta: Tensor, out: Tensor | None = None) -> Tensor:
    """Compute Snake with the fused kernel.

    Args:
        x: [B, C, T] with α and β [1, C, 1], or [B, T, C] with α and β [1, 1, C]; float32, float16
            or bfloat16, of any strides. Other shapes are left to `snake_eager`.
        alpha: Frequency, of any float type.
        beta: Inverse amplitude, shaped as `alpha`.
        out: Where to write, of the shape and type of `x`, of any strides; default: a new tensor.

    Returns:
        As `x`; `out` if it was given.
    """
    axis = _channel_axis(x, alpha, beta)
    if axis is None:
        y = snake_eager(x, alpha, beta)
        return y if out is None else out.copy_(y)
    out = torch.empty_like(x) if out is None else out
    if x.numel():
        _launch(x.movedim(axis, 1), out.movedim(axis, 1), alpha.flatten(), beta.flatten())
    return out


def _channel_axis(x: Tensor, alpha: Tensor, beta: Tensor) -> int | None:
    if x.ndim != 3 or beta.shape != alpha.shape:
        return None
    for axis in (1, 2):
        shape = [1, 1, 1]
        shape[axis] = x.shape[axis]
        if list(alpha.shape) == shape:
            return axis
    return None


def _launch(x: Tensor, out: Tensor, alpha: Tensor, beta: Tensor) -> None:
    """Run the kernel on x and out [B, C, T] of any strides, α and β [C]."""
    batch, channels, times = x.shape
    block_c, block_t = block_shape(channels, times, channels_last=x.stride(1) == 1)
    programs = batch * triton.cdiv(channels, block_c) * triton.cdiv(times, block_t)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        snake_kernel[(programs,)](
            x,
            out,
            alpha,
            beta,
            channels,
            times,
            *x.stride(),
            *out.stride(),
            alpha.stride(0),
            beta.stride(0),
            BLOCK_C=block_c,
            BLOCK_T=block_t,
        )


def block_shape(channels: int, times: int, *, channels_last: bool) -> tuple[int, int]:
    """Return channels and times per program, longest along the axis that is dense in memory."""
    dense = min(BLOCK, triton.next_power_of_2(channels if channels_last else times))
    rest = BLOCK // dense
    return (dense, rest) if channels_last else (rest, dense)
