"""The continuous bottleneck."""

from __future__ import annotations

import networks as nw
import pytest
import torch

from dac_rocm.config import GaussianConfig
from dac_rocm.errors import AudioError
from dac_rocm.nn.gaussian import Gaussian, GaussianBottleneck


def test_kl_is_that_of_torch():
    torch.manual_seed(0)
    g = Gaussian(torch.randn(2, 3, 5), torch.rand(2, 3, 5) + 0.1)
    normal = torch.distributions.Normal
    wanted = torch.distributions.kl_divergence(normal(g.mean, g.std), normal(0.0, 1.0))
    torch.testing.assert_close(g.kl(), wanted.sum((1, 2)))


def test_samples_follow_their_generator_and_spread():
    g = Gaussian(torch.full((1, 2, 20000), 3.0), torch.full((1, 2, 20000), 0.5))
    draw = [g.sample(generator=torch.Generator().manual_seed(7)) for _ in range(2)]
    assert torch.equal(*draw)
    assert draw[0].mean().item() == pytest.approx(3.0, abs=0.02)
    assert draw[0].std().item() == pytest.approx(0.5, abs=0.02)
    assert torch.equal(g.mode(), g.mean)
    assert g.sample().shape == g.mean.shape


def test_spreads():
    plain = {"latent_channels": 1, "in_proj": False, "out_proj": False}
    z = torch.tensor([[[0.0, 0.0, 0.0], [-100.0, 0.0, 100.0]]])
    logvar = GaussianBottleneck(2, 1, GaussianConfig(spread="logvar", **plain))(z)
    clamped = torch.tensor([-30.0, 0.0, 20.0])
    torch.testing.assert_close(logvar.std[0, 0], (0.5 * clamped).exp())
    softplus = GaussianBottleneck(2, 1, GaussianConfig(spread="softplus", **plain))(z)
    torch.testing.assert_close(softplus.std[0, 0], torch.tensor([1e-4, 0.69324718, 100.0001]))


def test_the_same_twice_and_never_nan():
    model = nw.shared("mova")
    x = nw.noise(1, 1, 900)
    assert torch.equal(model.encode(x).mean, model.encode(x).mean)
    with pytest.raises(AudioError, match="NaN or infinite values in z"):
        model.from_z(torch.full((1, 9, 2), float("nan")))
