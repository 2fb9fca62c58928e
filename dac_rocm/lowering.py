"""The network as a flat list of steps, each a few integers and the names of its tensors.

Everything that runs or measures the network reads this list: lengths and latency (`geometry`),
the streaming engine, the fast kernels, and the shapes that a checkpoint must have. The readable
modules of `nn` are its slow twin. Steps hold no tensors; this room must import neither torch nor
numpy.

Source: Descript Audio Codec (Kumar et al. 2023, arXiv:2306.06546), figure 2 and appendix A.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dac_rocm.config import CodecConfig, GaussianConfig, Half, RVQConfig

FIRST_KERNEL = 7
"""Taps of the first convolution of each half, in every member of the family."""
UNIT_KERNEL = 7
"""Taps of the dilated convolution of a residual unit, in every member of the family."""


@dataclass(frozen=True, kw_only=True)
class Conv:
    """A convolution, after a snake where `snake` is set.

    Args:
        name: Tensors are `{name}.weight` [out, in, kernel] and `{name}.bias` [out].
        snake: Prefix of the snake's tensors (`{snake}.alpha` [1, in, 1]), or None.
        pad_left: Zeros before the start.
        pad_right: Zeros after the end.
        bias: The bias exists.
    """

    name: str
    snake: str | None
    in_channels: int
    out_channels: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    pad_left: int = 0
    pad_right: int = 0
    bias: bool = True

    @property
    def span(self) -> int:
        """Inputs that one output sees, gaps included."""
        return self.dilation * (self.kernel - 1) + 1


@dataclass(frozen=True, kw_only=True)
class Transposed:
    """A transposed convolution after a snake.

    Args:
        name: Tensors are `{name}.weight` [in, out, kernel] and `{name}.bias` [out].
        snake: Prefix of the snake's tensors.
        trim_left: Samples cut from the start of the full output.
        trim_right: Samples cut from its end.
    """

    name: str
    snake: str | None
    in_channels: int
    out_channels: int
    kernel: int
    stride: int
    trim_left: int = 0
    trim_right: int = 0
    bias: bool = True

    @property
    def taps(self) -> int:
        """Inputs that one output sees."""
        return -(-self.kernel // self.stride)


@dataclass(frozen=True)
class Open:
    """Start of a residual unit: keep the signal for `Close`."""


@dataclass(frozen=True)
class Close:
    """End of a residual unit: add the kept signal, less `crop` samples on each side."""

    crop: int = 0


@dataclass(frozen=True)
class Tanh:
    """Hyperbolic tangent on every sample."""


Step = Conv | Transposed | Open | Close | Tanh
Steps = tuple[Step, ...]


def lower_encoder(config: CodecConfig, *, padded: bool = True) -> Steps:
    """Lower the encoder to steps.

    Args:
        config: The network.
        padded: False leaves out all padding, as Descript's chunked `.dac` asks for.
    """
    half = config.encoder
    steps: list[Step] = [
        _conv("encoder.block.0", None, half.in_channels, half.width, FIRST_KERNEL, padded)
    ]
    width = half.width
    for i, level in enumerate(half.levels, 1):
        prefix = f"encoder.block.{i}.block"
        for j, dilation in enumerate(half.dilations):
            steps += _unit(f"{prefix}.{j}", width, dilation, padded)
        n = len(half.dilations)
        pad = level.padding if padded else 0
        steps.append(
            Conv(
                name=f"{prefix}.{n + 1}",
                snake=f"{prefix}.{n}",
                in_channels=width,
                out_channels=level.width,
                kernel=level.kernel,
                stride=level.stride,
                pad_left=pad,
                pad_right=pad,
            )
        )
        width = level.width
    return (*steps, *_last("encoder.block", half, width, padded))


def lower_decoder(config: CodecConfig, *, padded: bool = True) -> Steps:
    """Lower the decoder to steps.

    Args:
        config: The network.
        padded: False leaves out all padding, as Descript's chunked `.dac` asks for.
    """
    half = config.decoder
    steps: list[Step] = [
        _conv("decoder.model.0", None, half.in_channels, half.width, FIRST_KERNEL, padded)
    ]
    width = half.width
    for i, level in enumerate(half.levels, 1):
        prefix = f"decoder.model.{i}.block"
        steps.append(
            Transposed(
                name=f"{prefix}.1",
                snake=f"{prefix}.0",
                in_channels=width,
                out_channels=level.width,
                kernel=level.kernel,
                stride=level.stride,
                trim_left=level.padding if padded else 0,
                trim_right=level.padding - level.output_padding if padded else 0,
            )
        )
        width = level.width
        for j, dilation in enumerate(half.dilations, 2):
            steps += _unit(f"{prefix}.{j}", width, dilation, padded)
    return (*steps, *_last("decoder.model", half, width, padded))


def _conv(name: str, snake: str | None, into: int, out: int, kernel: int, padded: bool) -> Conv:
    pad = kernel // 2 if padded else 0
    return Conv(
        name=name,
        snake=snake,
        in_channels=into,
        out_channels=out,
        kernel=kernel,
        pad_left=pad,
        pad_right=pad,
    )


def _unit(prefix: str, width: int, dilation: int, padded: bool) -> Steps:
    pad = dilation * (UNIT_KERNEL - 1) // 2
    wide = Conv(
        name=f"{prefix}.block.1",
        snake=f"{prefix}.block.0",
        in_channels=width,
        out_channels=width,
        kernel=UNIT_KERNEL,
        dilation=dilation,
        pad_left=pad if padded else 0,
        pad_right=pad if padded else 0,
    )
    mix = _conv(f"{prefix}.block.3", f"{prefix}.block.2", width, width, 1, padded)
    return (Open(), wide, mix, Close(0 if padded else pad))


def _last(prefix: str, half: Half, width: int, padded: bool) -> Steps:
    n = len(half.levels)
    pad = half.last_kernel // 2 if padded else 0
    last = Conv(
        name=f"{prefix}.{n + 2}",
        snake=f"{prefix}.{n + 1}",
        in_channels=width,
        out_channels=half.out_channels,
        kernel=half.last_kernel,
        pad_left=pad,
        pad_right=pad,
        bias=half.final_bias,
    )
    return (last, Tanh()) if half.final_tanh else (last,)


def tensor_shapes(config: CodecConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of the canonical layout, encoder first."""
    return {
        **half_shapes(lower_encoder(config), config.snake),
        **dict(_bottleneck_shapes(config)),
        **half_shapes(lower_decoder(config), config.snake),
    }


def half_shapes(steps: Steps, snake: str) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that `steps` use; `snake` is `CodecConfig.snake`."""
    shapes: dict[str, tuple[int, ...]] = {}
    for step in steps:
        if not isinstance(step, Conv | Transposed):
            continue
        if step.snake is not None:
            for leaf in ("alpha",) if snake == "alpha" else ("alpha", "beta"):
                shapes[f"{step.snake}.{leaf}"] = (1, step.in_channels, 1)
        into, out = step.in_channels, step.out_channels
        ends = (out, into) if isinstance(step, Conv) else (into, out)
        shapes[f"{step.name}.weight"] = (*ends, step.kernel)
        if step.bias:
            shapes[f"{step.name}.bias"] = (step.out_channels,)
    return shapes


def _bottleneck_shapes(config: CodecConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    bottleneck = config.bottleneck
    out, into = config.encoder.out_channels, config.decoder.in_channels
    if isinstance(bottleneck, RVQConfig):
        for q, dim in enumerate(bottleneck.codebook_dims):
            prefix = f"quantizer.quantizers.{q}"
            yield from _point(f"{prefix}.in_proj", out, dim)
            yield from _point(f"{prefix}.out_proj", dim, into)
            yield f"{prefix}.codebook.weight", (bottleneck.codebook_size, dim)
    else:
        yield from _gaussian_shapes(bottleneck, out, into)


def _gaussian_shapes(
    bottleneck: GaussianConfig, out: int, into: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    if bottleneck.in_proj:
        yield from _point("quantizer.in_proj", out, 2 * bottleneck.latent_channels)
    if bottleneck.out_proj:
        yield from _point("quantizer.out_proj", bottleneck.latent_channels, into)


def _point(name: str, into: int, out: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (out, into, 1)
    yield f"{name}.bias", (out,)
