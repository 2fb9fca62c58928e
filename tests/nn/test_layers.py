"""Snake1d and the blocks, against the formula."""

from __future__ import annotations

import torch

from dac_rocm.nn.blocks import ResidualUnit
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
