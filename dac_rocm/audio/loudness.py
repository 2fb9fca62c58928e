"""Programme loudness after ITU-R BS.1770-4, block by block, as the original codec measures it.

The K-weighting is applied in float64 by overlap-save: the response of the filters fades below 1e-22
within the quarter of a second that is kept of what came before, so the result is that of the
recursive filters, whatever the division into pushes. This file must not change the samples.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dac_rocm.audio.reader import Planar

SILENCE_DB = -70.0
"""LUFS. Absolute gate of BS.1770, and the least that is ever returned."""

TARGET_DB = -16.0
"""LUFS at which the published RVQ models were trained."""

MAX_GAIN_DB = 40.0
"""dB. Quieter recordings would be raised into their noise."""

BLOCK_SECONDS = 0.4
MIN_SECONDS = 0.5
"""Shorter signals are measured as if zeros followed. Source: audiotools."""

RELATIVE_GATE_DB = -10.0
OFFSET_DB = -0.691
FADE_SECONDS = 0.25
MIN_FADE = 1024
"""Samples. Below 4 kHz the filters are clamped, and fade within samples rather than seconds."""

_SURROUND = 1.41
CHANNEL_WEIGHTS = {
    6: (1.0, 1.0, 1.0, 0.0, _SURROUND, _SURROUND),
    7: (1.0, 1.0, 1.0, 0.0, 1.0, _SURROUND, _SURROUND),
    8: (1.0, 1.0, 1.0, 0.0, 1.0, 1.0, _SURROUND, _SURROUND),
}
"""Channels in WAVE order (FL FR FC LFE BL BR SL SR; 6.1 has one back channel): the LFE is left out,
and those at 60 to 120 degrees count 1.41. Source: BS.1770-4 tables 3 and 4."""

_UP_TO_FIVE = (1.0, 1.0, 1.0, _SURROUND, _SURROUND)
"""L R C Ls Rs. Source: BS.1770-4 table 3, audiotools."""

_Float64 = npt.NDArray[np.float64]


class LoudnessMeter:
    """Measure a stream of samples [C, n]; what is kept grows by 20 numbers a second."""

    def __init__(self, sample_rate: int, channels: int) -> None:
        self._channels = channels
        weights = CHANNEL_WEIGHTS.get(channels, _UP_TO_FIVE[:channels])
        self._weights = np.array(weights)
        self._block = max(4, int(BLOCK_SECONDS * sample_rate))
        self._hop = self._block // 4
        self._block_scale = 1 / max(4.0, BLOCK_SECONDS * sample_rate)
        self._min_length = int(MIN_SECONDS * sample_rate)
        self._fade = max(MIN_FADE, math.ceil(FADE_SECONDS * sample_rate))
        size = 2 ** math.ceil(math.log2(4 * self._fade))
        self._step = (size - self._fade) // self._hop * self._hop
        self._response = k_weighting(sample_rate, size)
        self._length = 0
        self._pending: Planar = np.zeros((channels, self._fade), np.float32)
        self._energies: list[_Float64] = []

    def push(self, audio: Planar) -> None:
        """Take any number of samples [C, n]."""
        self._length += audio.shape[1]
        pending = np.concatenate([self._pending, audio], axis=1)
        while pending.shape[1] >= self._fade + self._step:
            self._energies.append(self._measure(pending, self._step))
            pending = pending[:, self._step :]
        self._pending = pending.copy()

    def loudness(self) -> float:
        """Return the loudness in LUFS of all samples so far, -70 at least; more may follow."""
        length = max(self._length, self._min_length)
        seen = self._length - (self._pending.shape[1] - self._fade)
        energies = [*self._energies]
        if seen < length:
            pending = np.pad(self._pending, ((0, 0), (0, self._step)))
            energies.append(self._measure(pending, length - seen))
        return self._gated(self._block_powers(energies, length))

    def _measure(self, audio: Planar, valid: int) -> _Float64:
        """Return the weighted energy of each hop of one step, and of the hop's first samples.

        Args:
            audio: Samples, [C, fade + step] or more; the first `fade` were measured before.
            valid: Samples of the step that count; those beyond are zeros after the end.

        Returns:
            [step / hop, 2]: sum over the hop, and over as many samples as a block exceeds 4 hops.
        """
        size = 2 * (len(self._response) - 1)
        spectrum = np.fft.rfft(audio[:, : self._fade + self._step].astype(np.float64), size)
        filtered = np.fft.irfft(spectrum * self._response, size)
        power = self._weights @ filtered[:, self._fade : self._fade + self._step] ** 2
        power[valid:] = 0
        hops = power.reshape(-1, self._hop)
        rest = self._block - 4 * self._hop
        return np.stack([hops.sum(axis=1), hops[:, :rest].sum(axis=1)], axis=1)

    def _block_powers(self, energies: list[_Float64], length: int) -> _Float64:
        """Return the mean power of each block of 0.4 s; the last may be partial, and counts."""
        n_blocks = math.ceil(max(0, length - self._block) / self._hop) + 1
        hops = np.concatenate([*energies, np.zeros((5, 2))])
        full = sum(hops[i : i + n_blocks, 0] for i in range(4))
        powers: _Float64 = (full + hops[4 : 4 + n_blocks, 1]) * self._block_scale
        return powers

    @staticmethod
    def _gated(powers: _Float64) -> float:
        """Return the loudness of the blocks above both gates."""
        powers = powers[powers > _power(SILENCE_DB)]
        if len(powers) == 0:
            return SILENCE_DB
        powers = powers[powers > powers.mean() * 10 ** (RELATIVE_GATE_DB / 10)]
        return max(SILENCE_DB, OFFSET_DB + 10 * math.log10(powers.mean()))


def loudness(audio: Planar, sample_rate: int) -> float:
    """Return the loudness of a whole signal [C, T] in LUFS, -70 at least."""
    meter = LoudnessMeter(sample_rate, audio.shape[0])
    meter.push(audio)
    return meter.loudness()


def normalizing_gain_db(loudness_db: float, target_db: float = TARGET_DB) -> float:
    """Return the gain in dB that brings audio to `target_db` LUFS, +40 at most, 0 for silence."""
    if loudness_db <= SILENCE_DB:
        return 0.0
    return min(target_db - loudness_db, MAX_GAIN_DB)


@lru_cache(maxsize=16)
def k_weighting(sample_rate: int, size: int) -> npt.NDArray[np.complex128]:
    """Return the response of the two K-weighting filters at the frequencies of an rfft of `size`.

    A high shelf (+4 dB, Q 1/sqrt 2, 1500 Hz) and a high pass (Q 1/2, 38 Hz), both kept below the
    Nyquist frequency. Source: pyloudnorm's filters, in R. Bristow-Johnson's cookbook form.
    """
    z = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    shelf, high_pass = k_weighting_biquads(sample_rate)
    response = _response(shelf, z) * _response(high_pass, z)
    response.flags.writeable = False
    return response


def k_weighting_biquads(sample_rate: int) -> tuple[_Float64, _Float64]:
    """Return the high shelf and the high pass, each [2, 3]: numerator and denominator, a0 = 1."""
    a = 10 ** (4 / 40)
    cos, alpha = _angle(1500, math.sqrt(0.5), sample_rate)
    root = 2 * math.sqrt(a) * alpha
    up, down = a + 1, a - 1
    shelf = np.array(
        [
            [
                a * (up + down * cos + root),
                -2 * a * (down + up * cos),
                a * (up + down * cos - root),
            ],
            [up - down * cos + root, 2 * (down - up * cos), up - down * cos - root],
        ]
    )
    cos, alpha = _angle(38, 0.5, sample_rate)
    high_pass = np.array(
        [[(1 + cos) / 2, -(1 + cos), (1 + cos) / 2], [1 + alpha, -2 * cos, 1 - alpha]]
    )
    return shelf / shelf[1, 0], high_pass / high_pass[1, 0]


def _angle(frequency: float, q: float, sample_rate: int) -> tuple[float, float]:
    """Return cos w and sin w / 2Q of a filter at `frequency` Hz."""
    w = 2 * math.pi * min(frequency / sample_rate, 0.49)
    return math.cos(w), math.sin(w) / (2 * q)


def _response(biquad: _Float64, z: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
    numerator, denominator = (b0 + z * (b1 + z * b2) for b0, b1, b2 in biquad)
    response: npt.NDArray[np.complex128] = numerator / denominator
    return response


def _power(loudness_db: float) -> float:
    return float(10 ** ((loudness_db - OFFSET_DB) / 10))
