"""A picture of what a codec does to one file, drawn with matplotlib (extra `plot`).

matplotlib is imported when a picture is drawn, never before, and its global state is left alone.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dac_rocm.atomic import atomic_write
from dac_rocm.audio.files import read_audio
from dac_rocm.audio.reader import Planar
from dac_rocm.codec import Codec
from dac_rocm.container import container_of, read_encoded
from dac_rocm.encoded import EncodedAudio
from dac_rocm.errors import BackendError, OutputError, UnknownContainerError
from dac_rocm.evaluate import MEL_BANDS
from dac_rocm.pipeline import decode_audio
from dac_rocm.report.spectra import (
    COLUMNS,
    DIFFERENCE_DB,
    Levels,
    Range,
    difference,
    envelope,
    hz_ticks,
    pooled,
    shown_range,
    spectrogram,
)
from dac_rocm.roundtrip import round_trip

FORMATS = ("png", "svg", "pdf")
EXTRA = "plot"
"""Optional extra that brings matplotlib."""
DPI = 110
LEVELS, DIFFERENCE = "viridis", "PuOr_r"
"""Colour maps that colour-blind people can read: loud is bright; orange is more, purple less."""
WIDTH, PANEL_HEIGHT, MARGIN = 10.0, 1.75, 0.6
"""Inches."""

Panel = Callable[[Any, Any], None]
"""Draws on a figure and axes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pictured:
    """What there is to draw of one file.

    Args:
        name: Of the file.
        sample_rate: Hz.
        original: [C, T]; None where only codes are there.
        encoded: Its codes or latents.
        decoded: [C, T].
        frame_rate: Frames per second.
    """

    name: str
    sample_rate: int
    original: Planar | None
    encoded: EncodedAudio
    decoded: Planar
    frame_rate: float

    @property
    def seconds(self) -> float:
        """Duration."""
        return int(self.decoded.shape[1]) / self.sample_rate


def plot_file(
    model: Codec,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    n_codebooks: int | None = None,
    overwrite: bool = False,
) -> None:
    """Draw waveforms, log-mel spectrograms, their difference, and codes or latents.

    Args:
        model: A whole model; its decoder is enough for an encoded file.
        source: An audio file, which is encoded and decoded, or `.dacz` or `.dac`.
        target: `.png`, `.svg` or `.pdf` to write.
        n_codebooks: Codebooks to use for audio; None for all.
        overwrite: Replace an existing target.

    Raises:
        BackendError: matplotlib is not installed.
        OutputError: The target has another suffix, exists, or cannot be written.
        SourceError, AudioError, ContainerError, ShapeError: The source cannot be used.
    """
    form = Path(target).suffix[1:].lower()
    if form not in FORMATS:
        raise OutputError(
            f"{target} found; a name that ends in .png, .svg or .pdf is expected. Choose one."
        )
    figure_module = _matplotlib()
    with atomic_write(target, overwrite=overwrite) as file, warnings.catch_warnings():
        figure = _draw(figure_module, _pictured(model, source, n_codebooks))
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a name in rare letters
        figure.savefig(file, format=form, dpi=DPI)


def _matplotlib() -> Any:
    try:
        return import_module("matplotlib.figure")
    except ImportError as error:
        raise BackendError(
            "matplotlib was not found; pictures are expected to be drawn with it. Install it with "
            f"`pip install 'dac_rocm[{EXTRA}]'`, or use `dac-rocm report`, which needs none."
        ) from error


def is_encoded(path: str | os.PathLike[str]) -> bool:
    """Tell `.dacz` and `.dac` from audio by their first bytes.

    Raises:
        SourceError: The file cannot be read.
    """
    try:
        container_of(path)
    except UnknownContainerError:
        return False
    return True


def _pictured(model: Codec, source: str | os.PathLike[str], n_codebooks: int | None) -> Pictured:
    name, frame_rate = Path(source).name, model.config.frame_rate
    if is_encoded(source):
        encoded = read_encoded(source)
        decoded, rate = decode_audio(model, encoded)
        original = None
    else:
        original, rate = read_audio(source)
        trip = round_trip(model, original, rate, n_codebooks=n_codebooks)
        encoded, decoded = trip.encoded, trip.decoded
    return Pictured(
        name=name,
        sample_rate=rate,
        original=original,
        encoded=encoded,
        decoded=decoded,
        frame_rate=frame_rate,
    )


def _draw(figure_module: Any, pictured: Pictured) -> Any:
    panels = _panels(pictured)
    figure = figure_module.Figure(
        figsize=(WIDTH, MARGIN + PANEL_HEIGHT * len(panels)), layout="constrained"
    )
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for panel, ax in zip(panels, axes, strict=True):
        panel(figure, ax)
    axes[0].set_xlim(0, pictured.seconds)
    axes[-1].set_xlabel("seconds")
    figure.suptitle(pictured.name, parse_math=False)
    return figure


def _panels(pictured: Pictured) -> list[Panel]:
    """Return what to draw, from top to bottom."""
    rate, original = pictured.sample_rate, pictured.original
    decoded = spectrogram(pictured.decoded, rate)
    if original is None:
        return [
            lambda _, ax: _waveforms(ax, pictured),
            lambda fig, ax: _spectrogram(fig, ax, pictured, decoded, shown_range(decoded)),
            lambda fig, ax: _encoded(fig, ax, pictured),
        ]
    before = spectrogram(original, rate)
    shown = shown_range(before)
    return [
        lambda _, ax: _waveforms(ax, pictured),
        lambda fig, ax: _spectrogram(fig, ax, pictured, before, shown, "original"),
        lambda fig, ax: _spectrogram(fig, ax, pictured, decoded, shown),
        lambda fig, ax: _difference(fig, ax, pictured, difference(before, decoded, shown)),
        lambda fig, ax: _encoded(fig, ax, pictured),
    ]


def _waveforms(ax: Any, pictured: Pictured) -> None:
    for audio, label, colour in (
        (pictured.original, "original", "0.6"),
        (pictured.decoded, "decoded", "#0072b2"),
    ):
        if audio is not None:
            low, high = envelope(audio)
            seconds = np.linspace(0, pictured.seconds, len(low))
            ax.fill_between(seconds, low, high, color=colour, label=label, alpha=0.8, lw=0.3)
    ax.set_ylabel("amplitude")
    ax.set_title("waveform", loc="left", fontsize="medium")
    ax.legend(loc="upper right", ncols=2, fontsize="small")


def _spectrogram(
    figure: Any, ax: Any, pictured: Pictured, levels: Levels, shown: Range, what: str = "decoded"
) -> None:
    image = _image(ax, levels, pictured.seconds, LEVELS, *shown)
    figure.colorbar(image, ax=ax, label="dB", pad=0.01)
    _hz_axis(ax, pictured.sample_rate, f"log-mel spectrogram, {what}")


def _difference(figure: Any, ax: Any, pictured: Pictured, change: Levels) -> None:
    image = _image(ax, change, pictured.seconds, DIFFERENCE, -DIFFERENCE_DB, DIFFERENCE_DB)
    figure.colorbar(image, ax=ax, label="dB", pad=0.01)
    _hz_axis(ax, pictured.sample_rate, "difference: decoded minus original")


def _encoded(figure: Any, ax: Any, pictured: Pictured) -> None:
    """Draw codes [rows · codebooks, frames], or latents [rows · channels, frames]."""
    encoded = pictured.encoded
    data = encoded.data.reshape(-1, encoded.frames)
    seconds = encoded.frames / pictured.frame_rate
    if encoded.is_codes:
        stride = -(-encoded.frames // COLUMNS)  # a mean of codes would mean nothing
        image = _image(ax, data[:, ::stride], seconds, LEVELS, 0, int(data.max(initial=1)), 0.5)
        label, title, unit = "code", "codes", "codebook"
    else:
        far = float(np.abs(data).max()) or 1.0
        levels = pooled(data.astype(np.float64), COLUMNS)
        image = _image(ax, levels, seconds, DIFFERENCE, -far, far, 0.5)
        label, title, unit = "value", "latents", "channel"
    rows = encoded.data.shape[0]
    figure.colorbar(image, ax=ax, label=label, pad=0.01)
    ax.set_ylabel(unit)
    ax.set_title(title + f", {rows} rows" * (rows > 1), loc="left", fontsize="medium")


def _image(
    ax: Any,
    data: npt.NDArray[Any],
    seconds: float,
    colours: str,
    low: float,
    high: float,
    first: float = 0.0,
) -> Any:
    """Draw [rows, columns], the first row at the bottom, from `first` up."""
    return ax.imshow(
        data,
        origin="lower",
        aspect="auto",
        extent=(0, seconds, first, first + len(data)),
        cmap=colours,
        vmin=low,
        vmax=high,
        interpolation="nearest",
    )


def _hz_axis(ax: Any, sample_rate: int, title: str) -> None:
    heights, labels = zip(*hz_ticks(sample_rate), strict=True)
    ax.set_yticks([MEL_BANDS * height for height in heights], labels)
    ax.set_ylabel("Hz")
    ax.set_title(title, loc="left", fontsize="medium")
