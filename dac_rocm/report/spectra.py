"""What pictures show, as arrays: spectrograms, their differences, waveforms, and round ticks.

Long files are brought down to a fixed number of columns. Nothing here draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dac_rocm.audio.reader import Planar
from dac_rocm.evaluate import MEL_BANDS, MEL_FLOOR, hz_to_slaney, log_mel

Levels = npt.NDArray[np.float64]
"""Log-mel magnitudes [bands, columns] in dB."""

COLUMNS = 1600
"""Most columns of a picture: about what a screen shows, and a zoom of a few times."""
SHOWN_DB = 80.0
"""Decibels from the darkest to the brightest colour."""
DIFFERENCE_DB = 24.0
"""Difference that has the full colour."""
TICKS_HZ = (125, 250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 64000)


class Range(NamedTuple):
    """Levels in dB of the darkest and the brightest colour."""

    low: float
    high: float


def spectrogram(audio: Planar, sample_rate: int, columns: int = COLUMNS) -> Levels:
    """Return the log-mel magnitudes [bands, columns] of [C, T] in dB, mean over channels.

    They are those that the log-mel distance compares, averaged over neighbours where there are
    more frames than `columns`.
    """
    return pooled(log_mel(audio, sample_rate).mean(0), columns)


def pooled(levels: Levels, columns: int) -> Levels:
    """Return [rows, frames] as [rows, at most `columns`], each the mean of its neighbours."""
    frames = levels.shape[1]
    if frames <= columns:
        return levels
    edges = np.arange(columns + 1) * frames // columns
    means: Levels = np.add.reduceat(levels, edges[:-1], axis=1) / np.diff(edges)
    return means


def shown_range(original: Levels) -> Range:
    """Choose the levels that colours stand for, by the loudest place of the original.

    They do not go below what `log_mel` can tell, so that silence is dark.
    """
    low = max(20 * math.log10(MEL_FLOOR), float(original.max()) - SHOWN_DB)
    return Range(low, low + SHOWN_DB)


def difference(original: Levels, decoded: Levels, shown: Range) -> Levels:
    """Return decoded minus original in dB; what lies below the shown range counts as its end."""
    return np.maximum(decoded, shown.low) - np.maximum(original, shown.low)


def envelope(audio: Planar, columns: int = COLUMNS) -> npt.NDArray[np.float64]:
    """Return the least and the largest sample [2, columns] of [C, T], over all channels."""
    length = audio.shape[1]
    edges = np.arange(min(columns, length)) * length // min(columns, length)
    low = np.minimum.reduceat(audio.min(0), edges)
    return np.stack([low, np.maximum.reduceat(audio.max(0), edges)]).astype(np.float64)


def height_of(hz: float, sample_rate: int) -> float:
    """Return where a frequency lies on a spectrogram, from 0 (bottom) to 1 (top)."""
    band = hz_to_slaney(hz) / hz_to_slaney(sample_rate / 2) * (MEL_BANDS + 1) - 0.5
    return min(1.0, band / MEL_BANDS)


def hz_ticks(sample_rate: int, apart: float = 0.1) -> Iterator[tuple[float, str]]:
    """Yield height and label of frequencies that lie at least `apart`."""
    last = -1.0
    for hz in TICKS_HZ:
        height = height_of(hz, sample_rate)
        if hz <= sample_rate / 2 and height - last >= apart:
            last = height
            yield height, f"{hz // 1000}k" if hz >= 1000 else str(hz)


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Return about so many round numbers from `low` to `high`."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * nice for nice in (1, 2, 5, 10) if power * nice >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def to_unit(values: npt.NDArray[Any], low: float, high: float) -> npt.NDArray[np.float64]:
    """Return values mapped from `low`..`high` to 0..1, clipped."""
    unit: npt.NDArray[np.float64] = np.clip((values - low) / (high - low), 0.0, 1.0)
    return unit
