"""The list of steps against the modules: same tensors, same order, same integers."""

from __future__ import annotations

import networks as nw
import pytest
from torch import nn

from dac_rocm.lowering import (
    Close,
    Conv,
    Open,
    Tanh,
    Transposed,
    half_shapes,
    lower_decoder,
    lower_encoder,
    tensor_shapes,
)
from dac_rocm.nn.layers import Snake1d
from dac_rocm.presets import list_presets

LOWER = {"encoder": lower_encoder, "decoder": lower_decoder}


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_shapes_are_those_of_the_modules(shape):
    model = nw.shared(shape)
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert tensor_shapes(model.config) == wanted
    assert next(iter(tensor_shapes(model.config))) == "encoder.block.0.weight"


@pytest.mark.parametrize("half", LOWER)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_steps_are_the_modules_in_order(shape, half):
    model = nw.shared(shape)
    steps = LOWER[half](model.config)
    convolutions = [s for s in steps if isinstance(s, Conv | Transposed)]
    modules = [
        (name, module)
        for name, module in model.named_modules()
        if name.startswith(half) and isinstance(module, nn.Conv1d | nn.ConvTranspose1d)
    ]
    assert [s.name for s in convolutions] == [name for name, _ in modules]
    for step, (_, module) in zip(convolutions, modules, strict=True):
        assert (step.in_channels, step.out_channels) == (module.in_channels, module.out_channels)
        assert (step.kernel, step.stride) == (module.kernel_size[0], module.stride[0])
        assert step.bias == (module.bias is not None)
        if isinstance(step, Conv):
            assert step.pad_left == step.pad_right == module.padding[0]
            assert step.dilation == module.dilation[0]
        else:
            assert step.trim_left == module.padding[0]
            assert step.trim_right == module.padding[0] - module.output_padding[0]
    snakes = {n for n, m in model.named_modules() if n.startswith(half) and isinstance(m, Snake1d)}
    assert {s.snake for s in convolutions if s.snake} == snakes


@pytest.mark.parametrize("half", LOWER)
def test_residual_units_open_and_close(half):
    config = nw.CONFIGS["odd"]
    steps = LOWER[half](config)
    for i, step in enumerate(steps):
        if isinstance(step, Open):
            wide, mix, close = steps[i + 1 : i + 4]
            assert wide.pad_left == wide.dilation * 3 == close.crop or close.crop == 0
            assert mix.kernel == 1
            assert isinstance(close, Close)
    units = len(config.encoder.levels) * len(config.encoder.dilations)
    assert sum(isinstance(s, Open) for s in steps) == units == 9
    assert isinstance(steps[-1], Tanh) == (half == "decoder")


@pytest.mark.parametrize("half", LOWER)
def test_padded_units_look_ahead_and_unpadded_ones_lose_their_edges(half):
    for padded in (True, False):
        steps = LOWER[half](nw.CONFIGS["even"], padded=padded)
        crops = [
            (steps[i + 1].dilation * 3, steps[i + 3].crop)
            for i, step in enumerate(steps)
            if isinstance(step, Open)
        ]
        assert all(crop == (reach if not padded else 0) or crop == 0 for reach, crop in crops)
        convolutions = [s for s in steps if isinstance(s, Conv)]
        assert any(s.pad_left for s in convolutions) == padded
        assert not any(s.trim_left for s in steps if isinstance(s, Transposed)) or padded


def test_a_step_knows_its_span():
    conv = Conv(name="x", snake=None, in_channels=1, out_channels=1, kernel=7, dilation=9)
    assert conv.span == 55
    for kernel, stride, taps in ((4, 2, 2), (10, 5, 2), (7, 2, 4), (3, 3, 1)):
        step = Transposed(
            name="x", snake=None, in_channels=1, out_channels=1, kernel=kernel, stride=stride
        )
        assert step.taps == taps


def test_published_models_have_their_numbers():
    """Values of published weights without weight norm. Source: reference/README.md, keys."""
    sizes = {
        known.name: sum(_product(shape) for shape in tensor_shapes(known.config).values())
        for known in list_presets()
    }
    assert sizes["dac-44khz"] == 76_620_777
    assert sizes["dac-24khz"] == 74_653_857
    assert sizes["dac-16khz"] == 74_141_697
    assert sizes["mova-360p"] == 371_539_137


def _product(shape):
    n = 1
    for axis in shape:
        n *= axis
    return n


def test_half_shapes_are_a_part():
    config = nw.CONFIGS["oobleck"]
    shapes = half_shapes(lower_encoder(config), config.snake)
    assert all(name.startswith("encoder.") for name in shapes)
    assert any(name.endswith(".beta") for name in shapes)
    assert shapes.items() <= tensor_shapes(config).items()
