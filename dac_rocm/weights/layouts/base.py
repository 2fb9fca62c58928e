"""What all layouts share: the rules that no tensor shows, and reading a config off the shapes.

This room holds family rules, so that `CodecConfig` holds only results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dac_rocm.config import CodecConfig, GaussianConfig, Half, Level, RVQConfig
from dac_rocm.errors import WeightsMismatchError
from dac_rocm.weights.fold import Entries

Fields = Mapping[str, Any]
"""What `metadata.kwargs` or config.json say."""

RATE_NAMES = ("sample_rate", "sampling_rate", "sampling_freq")
"""What the members of the family call their rate in Hz."""
RATE_OF_HOP = {512: 44100, 960: 48000, 1024: 44100, 1920: 48000, 2048: 44100}
"""Rate of the published models with that hop; all of them agree."""
RATE_OF_CODEBOOKS = {12: 16000, 32: 24000, 2: 24000, 4: 24000}
"""Rate of the published models with hop 320, by their number of codebooks."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """Rules that no tensor shows.

    Args:
        pads_down: Encoder padding of an odd stride is rounded down rather than up.
        keeps_odd: Decoders keep one more sample at odd strides (output padding = stride % 2).
        final_tanh: The decoder ends in tanh.
        spread: How a Gaussian bottleneck gives the deviation.
        snake: See `CodecConfig`.
        input_padding: See `CodecConfig`.
    """

    pads_down: bool = False
    keeps_odd: bool = False
    final_tanh: bool = True
    spread: Literal["logvar", "softplus"] = "softplus"
    snake: Literal["alpha", "log_alpha_beta"] = "alpha"
    input_padding: Literal["zero", "reflect"] = "zero"

    def encoder_level(self, width: int, stride: int) -> Level:
        """Level of an encoder: 2 · stride taps."""
        padding = stride // 2 if self.pads_down else -(-stride // 2)
        return Level(width=width, stride=stride, kernel=2 * stride, padding=padding)

    def decoder_level(self, width: int, stride: int) -> Level:
        """Level of a decoder: 2 · stride taps."""
        return Level(
            width=width,
            stride=stride,
            kernel=2 * stride,
            padding=-(-stride // 2),
            output_padding=stride % 2 if self.keeps_odd else 0,
        )


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One set of names.

    Args:
        name: Such as `descript`.
        matches: Tells from names (without prefix) and fields whether a checkpoint is of this kind.
        rename: Gives the entries their canonical names; droppable ones are left out.
        family: The rules for these (canonical) entries and fields.
        droppable: What `rename` leaves out, in words; empty if nothing.
        exact: The fields hold a whole `CodecConfig`.
    """

    name: str
    matches: Callable[[Entries, Fields], bool]
    rename: Callable[[Entries], Entries]
    family: Callable[[Entries, Fields], Family]
    droppable: str = ""
    exact: bool = False


class Sizes(NamedTuple):
    """What the shapes of one half show."""

    into: int
    widths: tuple[int, ...]
    strides: tuple[int, ...]
    out: int
    last_kernel: int
    final_bias: bool

    def half(self, level: Callable[[int, int], Level], *, final_tanh: bool = False) -> Half:
        """Add the family's rules."""
        return Half(
            in_channels=self.into,
            width=self.widths[0],
            levels=tuple(map(level, self.widths[1:], self.strides)),
            out_channels=self.out,
            last_kernel=self.last_kernel,
            final_bias=self.final_bias,
            final_tanh=final_tanh,
        )

    def mirrored(self, into: int, last_kernel: int) -> Sizes:
        """Return the sizes of the other half, as far as this one tells."""
        widths, strides = self.widths[::-1], self.strides[::-1]
        return Sizes(into, widths, strides, self.into, last_kernel, final_bias=True)


def config_of(entries: Entries, family: Family, sample_rate: int) -> CodecConfig:
    """Read the config off canonical entries; a half that is absent mirrors the other one.

    Raises:
        WeightsMismatchError: A tensor that fixes the shape of the network is missing.
        ConfigError: The shapes fit no network.
    """
    encoder = _sizes(entries, "encoder.block.", scaler=4, widened=0)
    decoder = _sizes(entries, "decoder.model.", scaler=1, widened=1)
    bottleneck = _bottleneck(entries, family, encoder, decoder)
    halved = isinstance(bottleneck, GaussianConfig) and not bottleneck.in_proj
    if encoder is None and decoder is not None:
        encoder = decoder.mirrored(decoder.out, 3)
        encoder = encoder._replace(out=2 * decoder.into if halved else decoder.into)
    if decoder is None and encoder is not None:
        decoder = encoder.mirrored(encoder.out // 2 if halved else encoder.out, 7)
    if encoder is None or decoder is None:
        raise WeightsMismatchError(
            "neither an encoder nor a decoder found; at least one is expected. "
            "Pass the file that holds the codec."
        )
    return assembled(family, sample_rate, encoder, decoder, bottleneck)


def assembled(
    family: Family,
    sample_rate: int,
    encoder: Sizes,
    decoder: Sizes,
    bottleneck: RVQConfig | GaussianConfig,
) -> CodecConfig:
    """Add the family's rules to the sizes of both halves."""
    return CodecConfig(
        sample_rate=sample_rate,
        encoder=encoder.half(family.encoder_level),
        decoder=decoder.half(family.decoder_level, final_tanh=family.final_tanh),
        bottleneck=bottleneck,
        snake=family.snake,
        input_padding=family.input_padding,
    )


def _sizes(entries: Entries, prefix: str, *, scaler: int, widened: int) -> Sizes | None:
    """Read off one half; None if it is absent.

    Args:
        entries: Canonical.
        prefix: Of its layers.
        scaler: Index, inside a level, of the convolution that has the stride.
        widened: Axis of that convolution's weight that has the width of the level.
    """
    half = prefix.partition(".")[0]
    if not any(name.startswith(f"{half}.") for name in entries):
        return None
    n = highest(entries, prefix, r"block\.")
    first, last = (_shape(entries, f"{prefix}{i}.weight") for i in (0, n + 2))
    scalers = [_shape(entries, f"{prefix}{i}.block.{scaler}.weight") for i in range(1, n + 1)]
    return Sizes(
        into=first[1],
        widths=(first[0], *(shape[widened] for shape in scalers)),
        strides=tuple(shape[2] // 2 for shape in scalers),
        out=last[0],
        last_kernel=last[2],
        final_bias=half == "encoder" or f"{prefix}{n + 2}.bias" in entries,
    )


def _bottleneck(
    entries: Entries, family: Family, encoder: Sizes | None, decoder: Sizes | None
) -> RVQConfig | GaussianConfig:
    n = 1 + highest(entries, "quantizer.quantizers.")
    if n:
        books = [_shape(entries, f"quantizer.quantizers.{q}.codebook.weight", 2) for q in range(n)]
        return RVQConfig(codebook_size=books[0][0], codebook_dims=tuple(dim for _, dim in books))
    projected = True
    if "quantizer.in_proj.weight" in entries:
        latent = _shape(entries, "quantizer.in_proj.weight")[0] // 2
    elif "quantizer.out_proj.weight" in entries:
        latent = _shape(entries, "quantizer.out_proj.weight")[1]
    else:
        projected = False
        latent = decoder.into if decoder else encoder.out // 2 if encoder else 0
    return GaussianConfig(
        latent_channels=latent, spread=family.spread, in_proj=projected, out_proj=projected
    )


def highest(names: Iterable[str], prefix: str, inside: str = "") -> int:
    """Return the largest index (under 1,000) that follows `prefix` in a name; -1 if there is none.

    Args:
        names: Of tensors.
        prefix: Such as `encoder.block.`.
        inside: Regular expression for what must follow the index and its dot.
    """
    pattern = re.compile(rf"{re.escape(prefix)}(\d{{1,3}})\.{inside}")
    return max((int(m[1]) for name in names if (m := pattern.match(name))), default=-1)


def _shape(entries: Entries, name: str, rank: int = 3) -> tuple[int, ...]:
    entry = entries.get(name)
    if entry is None or len(entry.shape) != rank:
        found = "nothing" if entry is None else f"shape {list(entry.shape)}"
        raise WeightsMismatchError(
            f"{name}: {found} found; a tensor of {rank} axes is expected. "
            "Take a complete checkpoint."
        )
    return entry.shape
