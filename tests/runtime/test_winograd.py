"""Minimal filtering equals the direct convolution, whatever the length and the dilation."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from tolerances import EXACT_LAW, FLOAT32_LAW, WINOGRAD
from torch.nn import functional as F

from dac_rocm.engine import run
from dac_rocm.nn.layers import Snake1d
from dac_rocm.runtime import cpu
from dac_rocm.runtime.convolution import PackedProducts
from dac_rocm.runtime.cpu import CpuNetwork
from dac_rocm.runtime.winograd import OUTPUTS, PRODUCTS, TAPS, BatchedProducts, Winograd, transforms


def direct(weight, bias, dilation, x):
    return F.conv1d(x.transpose(1, 2), weight, bias, dilation=dilation).transpose(1, 2)


@pytest.mark.parametrize("dilation", [1, 3, 9])
@pytest.mark.parametrize("outputs", [1, 4, 5, 6, 44, 45, 46, 200])
@pytest.mark.parametrize("channels", [4, 48])
def test_packed_products_equal_batched_ones(channels, outputs, dilation, monkeypatch):
    nw.packed_or_skip()
    weight, bias = nw.noise(6, channels, TAPS), nw.noise(6)
    x = nw.noise(2, outputs + (TAPS - 1) * dilation, channels)
    for products in (PackedProducts, BatchedProducts):
        monkeypatch.setattr(products, "piece", 1 << 13)
    packed = Winograd(weight, bias, dilation, PackedProducts)(x)
    batched = Winograd(weight, bias, dilation, BatchedProducts)(x)
    wanted = direct(weight, bias, dilation, x)
    assert (packed - batched).abs().max() <= FLOAT32_LAW * wanted.abs().max()
    assert (packed - wanted).abs().max() <= WINOGRAD * wanted.abs().max()


@pytest.mark.parametrize("dilation", [1, 3, 9])
@pytest.mark.parametrize("outputs", [1, 4, 5, 6, 44, 45, 46, 200])
def test_equals_the_direct_convolution(outputs, dilation, monkeypatch):
    monkeypatch.setattr(BatchedProducts, "piece", 1 << 10)  # several pieces
    weight, bias = nw.noise(6, 4, TAPS, dtype=torch.float64), nw.noise(6, dtype=torch.float64)
    x = nw.noise(2, outputs + (TAPS - 1) * dilation, 4, dtype=torch.float64)
    kernel = Winograd(weight, bias, dilation, BatchedProducts)
    wanted = direct(weight, bias, dilation, x)
    scale = wanted.abs().max()
    assert (kernel(x) - wanted).abs().max() <= EXACT_LAW * scale


def test_a_part_of_a_longer_tensor():
    """The engine hands in views whose items are further apart than they are long."""
    weight = nw.noise(3, 2, TAPS, dtype=torch.float64)
    x = nw.noise(2, 90, 2, dtype=torch.float64).narrow(1, 7, 61)
    kernel = Winograd(weight, None, 3, BatchedProducts)
    assert (kernel(x) - direct(weight, None, 3, x)).abs().max() <= EXACT_LAW * 100


def test_rounding_in_float32():
    """Measured 3e-6 of the signal at 384 channels, as the module says."""
    weight = nw.noise(384, 384, TAPS) / (384 * TAPS) ** 0.5
    x = nw.noise(1, 256, 384)
    wanted = direct(weight.double(), None, 1, x.double())
    error = (Winograd(weight, None, 1, BatchedProducts)(x) - wanted).square().mean().sqrt()
    assert error <= 5e-6 * wanted.square().mean().sqrt()


def test_the_transforms_are_the_convolution():
    """Each of the products of taps and inputs adds to its output once, and to no other."""
    a, g, b = (torch.tensor(rows, dtype=torch.float64) for rows in transforms())
    assert (a.shape, g.shape, b.shape) == (
        (OUTPUTS, PRODUCTS),
        (PRODUCTS, TAPS),
        (PRODUCTS, PRODUCTS),
    )
    found = torch.einsum("mn,nr,nx->mrx", a, g, b)
    m, r, x = torch.meshgrid(*map(torch.arange, found.shape), indexing="ij")
    assert (found - (m + r == x).double()).abs().max() <= 1e-11


@pytest.mark.parametrize("packed_channels", [1, 1 << 20])
@pytest.mark.parametrize("half", ["encoder", "decoder"])
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_networks_with_it_equal_plain_ones(shape, half, packed_channels, monkeypatch):
    monkeypatch.setattr(cpu, "WINOGRAD_CHANNELS", 1)
    monkeypatch.setattr(cpu, "PACKED_CHANNELS", packed_channels)
    made = []
    monkeypatch.setattr(cpu, "Winograd", lambda *a: made.append(Winograd(*a)) or made[-1])
    model = nw.shared(shape)
    snakes = {n: m for n, m in model.named_modules() if isinstance(m, Snake1d)}
    network = CpuNetwork(model.steps(half), dict(model.named_parameters()), snakes)
    unit = model.hop_length if half == "encoder" else 1
    channels = (
        model.config.audio_channels if half == "encoder" else model.config.decoder.in_channels
    )
    x = nw.noise(2, channels, 23 * unit)
    wanted = run(model.network(half), x)
    assert made
    for tile in (None, 3 * unit):
        gap = run(network, x, tile=tile) - wanted
        assert gap.abs().max() <= WINOGRAD * wanted.abs().max()
