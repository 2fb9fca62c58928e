"""Signals are divided into lengths that others have too."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from tolerances import FLOAT32_LAW
from torch.nn import functional as F

from dac_rocm.runtime import convolution
from dac_rocm.runtime.pieces import SHORTEST, pieces


@pytest.mark.parametrize("outputs", [1, 255, 256, 257, 511, 512, 700, 2047, 2048, 57_853])
def test_pieces_cover_all(outputs):
    seen = torch.zeros(outputs, dtype=torch.int64)
    for start, n in pieces(outputs):
        assert start >= 0
        seen[start : start + n] += 1
    assert len(seen) == outputs and seen.min() == 1 and seen.max() <= 2


def test_few_lengths_and_little_twice():
    lengths = set()
    for outputs in range(8 * SHORTEST, 20_000, 7):
        found = pieces(outputs)
        lengths |= {n for _, n in found}
        assert sum(n for _, n in found) <= 1.125 * outputs
    assert all(n & (n - 1) == 0 for n in lengths)
    assert len(lengths) <= 14


@pytest.mark.parametrize("stride,dilation", [(1, 1), (1, 3), (2, 1)])
@pytest.mark.parametrize("outputs", [3, 256, 300, 1000])
def test_pieces_equal_the_whole(outputs, stride, dilation):
    """Three taps, by oneDNN's convolution."""
    nw.packed_or_skip()
    weight, bias = nw.noise(6, 4, 3), nw.noise(6)
    x = nw.noise(2, (outputs - 1) * stride + 2 * dilation + 1, 4)
    wanted = F.conv1d(x.transpose(1, 2), weight, bias, stride, 0, dilation).transpose(1, 2)
    convolve = convolution.packed(weight, bias, stride, dilation)
    assert (convolve(x) - wanted).abs().max() <= FLOAT32_LAW


@pytest.mark.parametrize("taps", [1, 2])
@pytest.mark.parametrize("outputs", [1, 3, 256, 300, 1000])
def test_overlapping_rows_equal_the_convolution(outputs, taps):
    """One or two taps, by oneDNN's matrix product, also in a part of a longer tensor."""
    nw.packed_or_skip()
    weight, bias = nw.noise(6, 4, taps), nw.noise(6)
    x = nw.noise(2, outputs + 20, 4).narrow(1, 9, outputs + taps - 1)
    wanted = F.conv1d(x.transpose(1, 2), weight, bias).transpose(1, 2)
    convolve = convolution.linear(weight, bias)
    assert (convolve(x) - wanted).abs().max() <= FLOAT32_LAW
