"""The continuous bottleneck against its formulas."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from dac_rocm.config import GaussianConfig
from dac_rocm.nn.gaussian import Gaussian, GaussianBottleneck


def bottleneck(spread):
    config = GaussianConfig(latent_channels=3, spread=spread, in_proj=False, out_proj=False)
    return GaussianBottleneck(6, 3, config)


def test_logvar_is_clamped():
    z = torch.tensor([-100.0, -30.0, 0.0, 20.0, 100.0]).expand(1, 6, 5)
    std = bottleneck("logvar")(z).std
    wanted = torch.tensor([-30.0, -30.0, 0.0, 20.0, 20.0]).mul(0.5).exp()
    torch.testing.assert_close(std[0, 0], wanted)


def test_softplus_has_a_floor():
    z = torch.tensor([-100.0, 0.0, 50.0]).expand(1, 6, 3)
    std = bottleneck("softplus")(z).std
    torch.testing.assert_close(std[0, 0], torch.tensor([1e-4, 0.6931472 + 1e-4, 50.0001]))


def test_mean_comes_first():
    z = nw.noise(1, 6, 4)
    assert torch.equal(bottleneck("logvar")(z).mean, z[:, :3])


def test_mode_is_the_mean_and_twice_the_same():
    """Users want the mean, and no noise: user demand 25."""
    model = nw.shared("meta")
    x = nw.noise(1, 1, 999)
    one, two = model.encode(x), model.encode(x)
    assert torch.equal(one.mode(), one.mean)
    assert torch.equal(one.mean, two.mean)
    assert torch.equal(one.std, two.std)
    assert (one.std > 0).all()


def test_samples_follow_a_generator():
    gaussian = nw.shared("mova").encode(nw.noise(1, 1, 999))
    draw = [gaussian.sample(generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])
    noise = torch.randn(gaussian.mean.shape, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(draw[0], gaussian.mean + gaussian.std * noise)
    torch.manual_seed(5)
    first = gaussian.sample()
    torch.manual_seed(5)
    assert torch.equal(gaussian.sample(), first)


def test_samples_have_the_moments():
    mean, std = torch.full((1, 2, 50_000), 3.0), torch.full((1, 2, 50_000), 0.5)
    draw = Gaussian(mean, std).sample(generator=torch.Generator().manual_seed(0))
    assert abs(draw.mean() - 3) < 0.01
    assert abs(draw.std() - 0.5) < 0.01


def test_kl_is_that_of_torch():
    mean, std = nw.noise(2, 3, 5), nw.noise(2, 3, 5, seed=1).abs() + 0.1
    wanted = kl_divergence(Normal(mean, std), Normal(0.0, 1.0)).sum((1, 2))
    torch.testing.assert_close(Gaussian(mean, std).kl(), wanted)
    assert Gaussian(torch.zeros(1, 2, 3), torch.ones(1, 2, 3)).kl().item() == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_samples_keep_the_type(dtype):
    gaussian = Gaussian(torch.zeros(1, 2, 3, dtype=dtype), torch.ones(1, 2, 3, dtype=dtype))
    assert gaussian.sample().dtype == dtype
