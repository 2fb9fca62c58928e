"""CodecConfig: everything that fixes the shape of a network, as results.

A config says what each level is (width, stride, kernel, paddings), never which family it came
from: family rules live in `weights.layouts`, and the published results in `configs/*.json`. This
room must import neither torch nor numpy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal, TypeVar, cast

from dac_rocm.errors import ConfigError

MAX_CHANNELS = 1 << 16
"""Widest layer that a config may ask for; the widest published one has 2,048 channels."""
MAX_HOP_LENGTH = 1 << 20
"""Most samples per frame; the largest published hop is 2,048."""
MAX_SAMPLE_RATE = 768_000
"""Highest rate in Hz that audio files are made at."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Level:
    """One resolution of an encoder or decoder: its resampling convolution and residual units.

    Args:
        width: Channels after the resampling convolution.
        stride: Samples in per sample out (encoder), or out per sample in (decoder).
        kernel: Taps of the resampling convolution.
        padding: Zeros on each side (encoder), or samples cut from each side (decoder).
        output_padding: Samples of the right cut that are kept after all (decoder only).
    """

    width: int
    stride: int
    kernel: int
    padding: int
    output_padding: int = 0


@dataclass(frozen=True, kw_only=True)
class Half:
    """An encoder or a decoder: convolution, levels, snake, convolution.

    Args:
        in_channels: Channels that come in: audio channels, or the width of `z`.
        width: Channels after the first convolution (7 taps).
        levels: From the input on.
        out_channels: Channels that go out: width of the encoder output, or audio channels.
        last_kernel: Taps of the last convolution.
        dilations: Of the residual units of each level (7 taps, then 1 tap).
        final_bias: The last convolution has a bias.
        final_tanh: The output goes through tanh.
    """

    in_channels: int
    width: int
    levels: tuple[Level, ...]
    out_channels: int
    last_kernel: int
    dilations: tuple[int, ...] = (1, 3, 9)
    final_bias: bool = True
    final_tanh: bool = False


@dataclass(frozen=True, kw_only=True)
class RVQConfig:
    """Residual vector quantizer: N codebooks of K entries, each in its own narrow space.

    Args:
        codebook_size: Entries K of each codebook.
        codebook_dims: Width of the entries of each codebook; its length is N.
    """

    codebook_size: int
    codebook_dims: tuple[int, ...]

    @property
    def n_codebooks(self) -> int:
        """Number N of codebooks."""
        return len(self.codebook_dims)

    @property
    def bits_per_frame(self) -> int:
        """Bits that the codes of one frame take."""
        return self.n_codebooks * math.ceil(math.log2(self.codebook_size))


@dataclass(frozen=True, kw_only=True)
class GaussianConfig:
    """Diagonal Gaussian bottleneck of a continuous VAE.

    Args:
        latent_channels: Channels of the latents that the user sees.
        spread: How the second half of the channels gives the deviation: `logvar`, clamped to
            -30..20, or `softplus` plus 1e-4.
        in_proj: A 1-tap convolution stands between encoder and mean / spread.
        out_proj: A 1-tap convolution stands between latents and decoder.
    """

    latent_channels: int
    spread: Literal["logvar", "softplus"]
    in_proj: bool
    out_proj: bool


@dataclass(frozen=True, kw_only=True)
class CodecConfig:
    """Shape of a whole codec.

    Args:
        sample_rate: Hz.
        encoder: From audio to `z`.
        decoder: From `z` to audio.
        bottleneck: `RVQConfig` (codes) or `GaussianConfig` (latents).
        snake: `alpha`: x + sin²(αx)/α. `log_alpha_beta`: x + sin²(e^α x)/e^β.
        input_padding: How audio is filled up to a multiple of the hop: `zero`, or `reflect`
            where the clip is longer than the pad.

    Raises:
        ConfigError: The numbers do not fit together.
    """

    sample_rate: int
    encoder: Half
    decoder: Half
    bottleneck: RVQConfig | GaussianConfig
    snake: Literal["alpha", "log_alpha_beta"] = "alpha"
    input_padding: Literal["zero", "reflect"] = "zero"

    def __post_init__(self) -> None:
        _check_choice("snake", self.snake, ("alpha", "log_alpha_beta"))
        _check_choice("input_padding", self.input_padding, ("zero", "reflect"))
        _check_range("sample_rate", self.sample_rate, 1, MAX_SAMPLE_RATE)
        _check_half("encoder", self.encoder)
        _check_half("decoder", self.decoder)
        _check_bottleneck(self)
        hops = _product(self.encoder), _product(self.decoder)
        if hops[0] != hops[1] or hops[0] > MAX_HOP_LENGTH:
            raise ConfigError(
                f"strides found that multiply to {hops[0]} in the encoder and {hops[1]} in the "
                f"decoder; equal products up to {MAX_HOP_LENGTH} are expected. Mend `levels`."
            )
        if self.encoder.in_channels != self.decoder.out_channels:
            raise ConfigError(
                f"encoder for {self.encoder.in_channels} and decoder for "
                f"{self.decoder.out_channels} audio channels found; equal numbers are expected."
            )

    @property
    def hop_length(self) -> int:
        """Samples per frame."""
        return _product(self.encoder)

    @property
    def audio_channels(self) -> int:
        """Audio channels that the network takes at once."""
        return self.encoder.in_channels

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.hop_length

    @property
    def bitrate(self) -> float | None:
        """Bits per second of one audio row with all codebooks; None for a VAE."""
        if isinstance(self.bottleneck, GaussianConfig):
            return None
        return self.frame_rate * self.bottleneck.bits_per_frame

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `from_dict` and JSON take."""
        data = asdict(self)
        kind = "rvq" if isinstance(self.bottleneck, RVQConfig) else "gaussian"
        data["bottleneck"] = {"kind": kind, **data["bottleneck"]}
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CodecConfig:
        """Build a config from plain data.

        Args:
            data: As `to_dict` returns it; lists may stand for tuples.

        Raises:
            ConfigError: A field is missing, unknown or of the wrong type.
        """
        plain = dict(_mapping("config", data))
        for half in ("encoder", "decoder"):
            plain[half] = _half_from(half, plain.get(half))
        bottleneck = dict(_mapping("bottleneck", plain.get("bottleneck")))
        kind = bottleneck.pop("kind", None)
        _check_choice("bottleneck.kind", kind, ("rvq", "gaussian"))
        if kind == "rvq":
            bottleneck["codebook_dims"] = _tuple("codebook_dims", bottleneck.get("codebook_dims"))
        made = RVQConfig if kind == "rvq" else GaussianConfig
        plain["bottleneck"] = _build(made, "bottleneck", bottleneck)
        return _build(cls, "config", plain)


def _half_from(name: str, data: Any) -> Half:
    plain = dict(_mapping(name, data))
    levels = _tuple(f"{name}.levels", plain.get("levels"))
    plain["levels"] = tuple(_build(Level, f"{name}.levels", _mapping(name, lv)) for lv in levels)
    if "dilations" in plain:
        plain["dilations"] = _tuple(f"{name}.dilations", plain["dilations"])
    return _build(Half, name, plain)


def _build(kind: type[T], name: str, data: Mapping[str, Any]) -> T:
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(data) - set(known))
    missing = sorted(n for n, f in known.items() if f.default is MISSING and n not in data)
    if unknown or missing:
        raise ConfigError(
            f"{name}: unknown fields {unknown} and missing fields {missing} found; "
            f"{sorted(known)} are expected."
        )
    return kind(**data)


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}: {type(value).__name__} found; a JSON object is expected.")
    return cast("Mapping[str, Any]", value)


def _tuple(name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name}: {type(value).__name__} found; a list is expected.")
    return tuple(value)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}: {value!r} found; one of {', '.join(choices)} is expected.")


def _check_range(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name}: {value!r} found; an integer in {low}..{high} is expected.")


def _check_half(name: str, half: Half) -> None:
    for field, value in (("in_channels", half.in_channels), ("width", half.width)):
        _check_range(f"{name}.{field}", value, 1, MAX_CHANNELS)
    _check_range(f"{name}.out_channels", half.out_channels, 1, MAX_CHANNELS)
    _check_range(f"{name}.last_kernel", half.last_kernel, 1, 64)
    if not half.levels or not half.dilations:
        raise ConfigError(f"{name}: no levels or no dilations found; at least one is expected.")
    for dilation in half.dilations:
        _check_range(f"{name}.dilations", dilation, 1, 1024)
    for level in half.levels:
        _check_range(f"{name}.width", level.width, 1, MAX_CHANNELS)
        _check_range(f"{name}.stride", level.stride, 1, 1024)
        _check_range(f"{name}.kernel", level.kernel, level.stride, 4096)
        spare = level.kernel - (level.stride if name == "decoder" else 1)
        _check_range(f"{name}.padding", level.padding, 0, spare)
        _check_range(f"{name}.output_padding", level.output_padding, 0, level.padding)


def _check_bottleneck(config: CodecConfig) -> None:
    bottleneck, out = config.bottleneck, config.encoder.out_channels
    if isinstance(bottleneck, RVQConfig):
        _check_range("codebook_size", bottleneck.codebook_size, 2, 1 << 16)
        _check_range("number of codebooks", bottleneck.n_codebooks, 1, 1024)
        for dim in bottleneck.codebook_dims:
            _check_range("codebook_dims", dim, 1, MAX_CHANNELS)
        expected = (config.decoder.in_channels, config.decoder.in_channels)
    else:
        _check_choice("spread", bottleneck.spread, ("logvar", "softplus"))
        _check_range("latent_channels", bottleneck.latent_channels, 1, MAX_CHANNELS)
        latent = bottleneck.latent_channels
        expected = (
            out if bottleneck.in_proj else 2 * latent,
            config.decoder.in_channels if bottleneck.out_proj else latent,
        )
    if (out, config.decoder.in_channels) != expected:
        raise ConfigError(
            f"encoder output of {out} and decoder input of {config.decoder.in_channels} channels "
            f"found; the bottleneck expects {expected[0]} and {expected[1]}."
        )


def _product(half: Half) -> int:
    return math.prod(level.stride for level in half.levels)
