"""Convolutions in other words: integers and weights rearranged, nothing computed."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from dac_rocm.lowering import Transposed


def side_by_side(step: Transposed, weight: Tensor) -> Tensor:
    """Return the weight of a plain convolution that makes the outputs of a step side by side.

    Output i · stride + r of the transposed convolution is the sum over t of input i - t times tap
    t · stride + r: a plain convolution of `taps` taps, with (r, channel) as its channels.

    Args:
        step: Integers of the step.
        weight: [in, out, kernel].

    Returns:
        [stride · out, in, taps].
    """
    into, out, kernel = weight.shape
    padded = F.pad(weight, (0, step.taps * step.stride - kernel))
    taps = padded.view(into, out, step.taps, step.stride).flip(2)
    return taps.permute(3, 1, 0, 2).reshape(step.stride * out, into, step.taps)
