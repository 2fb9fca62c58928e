"""What is done to the level before encoding, and undone after decoding.

Codebook models were trained at one loudness, so their input is brought to it by one gain per file,
which the encoded file keeps. Continuous models get the audio as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dac_rocm.audio.loudness import TARGET_DB, LoudnessMeter, normalizing_gain_db
from dac_rocm.audio.reader import Planar
from dac_rocm.encoded import Gain, Loudness
from dac_rocm.errors import ShapeError

LARGEST_GAIN_DB = 200.0
"""Beyond it, float32 audio is silence or noise."""


@dataclass(frozen=True, eq=False)
class Leveling:
    """One change of level.

    Args:
        level: What the encoded file keeps, so that decoding can undo it.
        factor: [C, 1], what samples are multiplied by before encoding.
    """

    level: Gain | Loudness
    factor: Planar

    def apply(self, audio: Planar) -> Planar:
        """Change the level of samples [C, n]."""
        return audio * self.factor


def fixed_gain(gain_db: float, channels: int) -> Leveling:
    """Apply a gain that the caller chose.

    Raises:
        ShapeError: It is not finite, or beyond ±`LARGEST_GAIN_DB`.
    """
    if not abs(gain_db) <= LARGEST_GAIN_DB:
        raise ShapeError(
            f"a gain of {gain_db} dB found; one within ±{LARGEST_GAIN_DB:g} dB is expected. "
            "Leave it out to have it measured."
        )
    return Leveling(Gain(gain_db), np.full((channels, 1), db_to_factor(gain_db), np.float32))


def normalizing(blocks: Iterable[Planar], sample_rate: int, channels: int) -> Leveling:
    """Measure audio and choose the gain that brings it to −16 LUFS, within limits.

    Args:
        blocks: All samples [C, n].
        sample_rate: Hz.
        channels: C.
    """
    meter = LoudnessMeter(sample_rate, channels)
    for block in blocks:
        meter.push(block)
    return fixed_gain(normalizing_gain_db(meter.loudness()), channels)


def descript(blocks: Iterable[Planar], sample_rate: int, channels: int) -> Leveling:
    """Measure audio and level it as Descript's `.dac` does.

    −16 LUFS without a cap, then each channel that peaks above 1 is divided by its peak. The file
    keeps the loudness of the input.

    Source: descript-audio-codec 1.0.0, `compress`.

    Args:
        blocks: All samples [C, n].
        sample_rate: Hz.
        channels: C.
    """
    meter, peak = LoudnessMeter(sample_rate, channels), np.zeros((channels, 1), np.float32)
    for block in blocks:
        meter.push(block)
        peak = np.maximum(peak, np.abs(block).max(axis=1, keepdims=True, initial=0))
    loudness_db = meter.loudness()
    factor = np.float32(db_to_factor(TARGET_DB - loudness_db))
    return Leveling(Loudness(loudness_db), factor / np.maximum(peak * factor, 1))


def db_to_factor(db: float) -> float:
    """Convert decibels to a factor of amplitude."""
    return float(10.0 ** (db / 20.0))
