"""Snake1d and the blocks, against the formula."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from torch import nn

from dac_rocm.nn.blocks import DecoderBlock, EncoderBlock, ResidualUnit
from dac_rocm.nn.layers import Snake1d


def test_snake_is_its_formula():
    snake = Snake1d(4, backend="eager").requires_grad_(False)
    snake.alpha.copy_(torch.tensor([0.5, 1.0, -2.0, 0.0]).reshape(1, 4, 1))
    x = torch.linspace(-4, 4, 100).expand(1, 4, 100)
    a = snake.alpha.double()
    wanted = x.double() + torch.sin(a * x.double()) ** 2 / (a + 1e-9)
    torch.testing.assert_close(snake(x), wanted.float())
    assert torch.equal(snake(x)[0, 3], x[0, 3])


def test_snake_with_logarithms():
    snake = Snake1d(2, log_scale=True, backend="eager").requires_grad_(False)
    snake.alpha.copy_(torch.tensor([0.3, -1.0]).reshape(1, 2, 1))
    snake.beta.copy_(torch.tensor([-0.5, 2.0]).reshape(1, 2, 1))
    x = torch.linspace(-4, 4, 100).expand(1, 2, 100)
    a, b = snake.alpha.double().exp(), snake.beta.double().exp()
    wanted = x.double() + torch.sin(a * x.double()) ** 2 / (b + 1e-9)
    torch.testing.assert_close(snake(x), wanted.float())


def test_a_unit_adds_to_its_input():
    unit = ResidualUnit(3, 9, log_scale=False).requires_grad_(False)
    unit.block[3].weight.zero_()
    unit.block[3].bias.zero_()
    x = torch.randn(1, 3, 200)
    assert torch.equal(unit(x), x)


@pytest.mark.parametrize("alpha", [0.0, 1e-9, -1e-9, 1e-12, 1e4])
def test_snake_stays_finite(alpha):
    """Also where alpha + 1e-9 is 0: there it gives x itself."""
    layer = Snake1d(1)
    with torch.no_grad():
        layer.alpha.fill_(alpha)
    x = nw.noise(1, 1, 100) * 3
    y = layer(x)
    assert torch.isfinite(y).all()
    if abs(alpha) <= 1e-9:
        torch.testing.assert_close(y, x, rtol=1e-5, atol=1e-5)


def test_new_snakes():
    assert Snake1d(3).alpha.eq(1).all()
    log = Snake1d(3, log_scale=True)
    assert log.alpha.eq(0).all()
    assert log.beta.eq(0).all()
    assert list(Snake1d(3).state_dict()) == ["alpha"]


def test_blocks_change_the_rate():
    config = nw.CONFIGS["mova"]
    x = nw.noise(1, config.encoder.width, 60)
    assert EncoderBlock(config.encoder, 0, log_scale=False)(x).shape[1:] == (5, 30)
    z = nw.noise(1, config.decoder.width, 12)
    assert DecoderBlock(config.decoder, 0, log_scale=False)(z).shape[1:] == (6, 60)


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_names_are_canonical(shape):
    names = set(nw.shared(shape).state_dict())
    assert {"encoder.block.0.weight", "encoder.block.1.block.0.block.0.alpha"} <= names
    n = len(nw.CONFIGS[shape].decoder.levels)
    assert (f"decoder.model.{n + 2}.bias" in names) == (shape != "oobleck")
    assert ("decoder.model.1.block.0.beta" in names) == (shape == "oobleck")
    assert isinstance(nw.shared(shape).decoder.model[-1], nn.Tanh) == (shape != "oobleck")


def test_the_networks_of_these_tests_are_not_degenerate():
    """Activations of order 1 everywhere, so that a wrong layer shows in the output."""
    for shape in nw.SHAPES:
        model = nw.shared(shape)
        z = model.encode_z(nw.noise(1, model.config.audio_channels, 2000))
        y = model.decode(nw.frames(model, 1, 40))
        assert 0.3 < z.std() < 3
        assert 0.05 < y.std() < 3
        assert z.std(-1).min() > 1e-3, "a dead channel"
