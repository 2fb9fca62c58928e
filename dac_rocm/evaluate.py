"""How close decoded audio is to its original: the usual measures as pure functions.

Every function takes float arrays [C, T] of one rate and length, and returns one number; channels
count equally. Nothing here may change the audio, align it or know a model.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dac_rocm.audio.loudness import loudness
from dac_rocm.errors import BackendError, ShapeError

Audio = npt.NDArray[np.floating[Any]]
"""Samples [C, T], full scale 1."""
_Float64 = npt.NDArray[np.float64]

LIMIT_DB = 100.0
"""Largest SI-SDR that is told, of either sign: float32 audio cannot carry more."""

MEL_BANDS = 80
MEL_WINDOW_SECONDS = 0.032
MEL_FLOOR = 1e-5
"""Least mel magnitude. Source: descript-audio-codec, `MelSpectrogramLoss.clamp_eps`."""

STFT_SIZES = ((1024, 600, 120), (2048, 1200, 240), (512, 240, 50))
"""(transform, window, hop) in samples. Source: Yamamoto et al. 2020, table 1."""
STFT_FLOOR = 1e-8
"""Least power. Source: auraloss 0.4.0, `STFTLoss.eps`."""

STOI_EXTRA = "evaluate"
"""Optional extra that brings pystoi."""
STOI_SECONDS = 0.5
"""STOI compares stretches of 384 ms; less than this leaves none."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Measures of one decoded clip.

    Args:
        si_sdr_db: See `si_sdr`; more is better; None where the original is silent.
        log_mel_db: See `log_mel_distance`; 0 is the same.
        stft_distance: See `multi_resolution_stft_distance`; 0 is the same.
        loudness_difference_db: See `loudness_difference`; above 0, the decoded one is louder.
        stoi: See `stoi`; None where it was not measured.
    """

    si_sdr_db: float | None
    log_mel_db: float
    stft_distance: float
    loudness_difference_db: float
    stoi: float | None

    def to_dict(self) -> dict[str, float | None]:
        """Return plain data for JSON."""
        return asdict(self)


def evaluate(
    original: Audio, decoded: Audio, sample_rate: int, *, with_stoi: bool | None = None
) -> Scores:
    """Measure everything.

    Args:
        original: [C, T].
        decoded: [C, T].
        sample_rate: Hz of both.
        with_stoi: Measure STOI; None measures it where pystoi is installed and the clip is long
            enough.

    Raises:
        ShapeError: The shapes differ, are not [C, T], or hold no samples.
        BackendError: STOI was asked for without pystoi.
    """
    if with_stoi is None:
        with_stoi = np.shape(original)[-1] >= STOI_SECONDS * sample_rate and has_stoi()
    return Scores(
        si_sdr_db=si_sdr(original, decoded) if has_sound(original) else None,
        log_mel_db=log_mel_distance(original, decoded, sample_rate),
        stft_distance=multi_resolution_stft_distance(original, decoded),
        loudness_difference_db=loudness_difference(original, decoded, sample_rate),
        stoi=stoi(original, decoded, sample_rate) if with_stoi else None,
    )


def has_sound(audio: Audio) -> bool:
    """Tell whether any channel of [C, T] is more than a constant: of silence there is no ratio."""
    return bool(np.ptp(audio, axis=-1).any())


def si_sdr(original: Audio, decoded: Audio) -> float:
    """Return the scale-invariant signal-to-distortion ratio in dB, -100 to 100.

    The mean of each channel is taken away first. Silence against silence is 100, anything else
    against silence -100.

    Source: Le Roux et al. 2018 (arXiv:1811.02508), equation 3.
    """
    x, y = _pair(original, decoded)
    x, y = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    return float(np.mean([_si_sdr_of_channel(a, b) for a, b in zip(x, y, strict=True)]))


def _si_sdr_of_channel(x: _Float64, y: _Float64) -> float:
    power = float(x @ x)
    if power == 0.0:
        return LIMIT_DB if not y.any() else -LIMIT_DB
    target = x * (float(x @ y) / power)
    error = y - target
    kept, lost = float(target @ target), float(error @ error)
    smallest = 10 ** (-LIMIT_DB / 10)
    if kept <= lost * smallest:
        return -LIMIT_DB
    return LIMIT_DB if lost <= kept * smallest else 10 * float(np.log10(kept / lost))


def log_mel_distance(original: Audio, decoded: Audio, sample_rate: int) -> float:
    """Return the mean absolute difference of log-mel spectra in dB, 0 or more.

    See `log_mel`. Source: Kumar et al. 2023 (arXiv:2306.06546), section 3.4; its
    `MelSpectrogramLoss` with `pow=2`, `mag_weight=0`, one scale, times 10.
    """
    x, y = _pair(original, decoded)
    return float(np.abs(log_mel(x, sample_rate) - log_mel(y, sample_rate)).mean())


def log_mel(audio: Audio, sample_rate: int) -> _Float64:
    """Return log-mel magnitudes [C, bands, frames] in dB, -100 or more.

    80 Slaney bands up to half the rate, Hann windows of 32 ms every 8 ms, centred, magnitudes below
    1e-5 raised to it.
    """
    window = max(16, round(MEL_WINDOW_SECONDS * sample_rate) // 4 * 4)
    bands = slaney_mel_bands(sample_rate, window, MEL_BANDS).T
    channels = [
        np.concatenate([m @ bands for m in _magnitudes(channel, window, window, window // 4)])
        for channel in audio.astype(np.float64)
    ]
    levels: _Float64 = np.maximum(np.stack(channels).swapaxes(1, 2), MEL_FLOOR)
    return 20 * np.log10(levels)


def multi_resolution_stft_distance(original: Audio, decoded: Audio) -> float:
    """Return spectral convergence plus log-magnitude distance, mean over three resolutions.

    Source: Yamamoto et al. 2020 (arXiv:1910.11480), equations 4 to 6, as `MultiResolutionSTFTLoss`
    of auraloss 0.4.0 computes them (natural logarithm).
    """
    x, y = _pair(original, decoded)
    each = [_stft_distance(*pair, *s) for pair in zip(x, y, strict=True) for s in STFT_SIZES]
    return float(np.mean(each))


def _stft_distance(x: _Float64, y: _Float64, size: int, window: int, hop: int) -> float:
    """Return the distance of one channel [T], summed over a few hundred frames at a time."""
    error, power, logs, count = 0.0, 0.0, 0.0, 0
    pieces = (_magnitudes(signal, size, window, hop) for signal in (x, y))
    for pair in zip(*pieces, strict=True):
        a, b = (np.sqrt(np.maximum(m**2, STFT_FLOOR)) for m in pair)
        error += float(((a - b) ** 2).sum())
        power += float((a**2).sum())
        logs += float(np.abs(np.log(a) - np.log(b)).sum())
        count += a.size
    return math.sqrt(error / power) + logs / count


def loudness_difference(original: Audio, decoded: Audio, sample_rate: int) -> float:
    """Return loudness of `decoded` minus that of `original` in dB; silence counts as -70 LUFS.

    Source: ITU-R BS.1770-4, integrated loudness.
    """
    x, y = (s.astype(np.float32) for s in _pair(original, decoded))
    return loudness(y, sample_rate) - loudness(x, sample_rate)


def stoi(original: Audio, decoded: Audio, sample_rate: int) -> float:
    """Return the short-time objective intelligibility, about 0 to 1; mean over channels.

    Meaningful for speech only. Clips with less than 0.4 s of sound score 0.

    Source: Taal et al. 2011 (doi:10.1109/TASL.2011.2114881), by the package pystoi.

    Raises:
        BackendError: pystoi is not installed.
    """
    x, y = _pair(original, decoded)
    measure = _pystoi()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # too short: it returns 1e-5 and says so
        each = [measure(a, b, sample_rate) for a, b in zip(x, y, strict=True)]
    return float(np.mean([0.0 if np.isnan(e) or e <= 1e-5 else e for e in each]))


def has_stoi() -> bool:
    """Tell whether `stoi` can run."""
    try:
        _pystoi()
    except BackendError:
        return False
    return True


def _pystoi() -> Any:
    try:
        return importlib.import_module("pystoi").stoi
    except ImportError as error:
        raise BackendError(
            "pystoi was not found; STOI is expected to come from it. Install it with "
            f"`pip install 'dac_rocm[{STOI_EXTRA}]'`, or measure without STOI."
        ) from error


def slaney_mel_bands(sample_rate: int, size: int, count: int) -> _Float64:
    """Return triangular bands [count, size // 2 + 1] of equal area.

    Source: M. Slaney's Auditory Toolbox (1998), as `librosa.filters.mel` has it: linear below
    1 kHz, logarithmic above.
    """
    edges = _slaney_to_hz(np.linspace(0.0, hz_to_slaney(sample_rate / 2), count + 2))
    bins = np.linspace(0.0, sample_rate / 2, size // 2 + 1)
    rise = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    area = 2.0 / (edges[2:] - edges[:-2])
    bands: _Float64 = np.maximum(0.0, np.minimum(rise, fall)) * area[:, None]
    return bands


def hz_to_slaney(hz: float) -> float:
    """Return a frequency on Slaney's mel scale."""
    return hz * 3 / 200 if hz < 1000 else 15 + 27 * float(np.log(hz / 1000) / np.log(6.4))


def _slaney_to_hz(mel: _Float64) -> _Float64:
    hz: _Float64 = np.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))
    return hz


def _magnitudes(x: _Float64, size: int, window: int, hop: int) -> Iterator[_Float64]:
    """Yield STFT magnitudes [frames, bins] of [T], a few hundred frames at a time.

    Windows are centred Hann windows; the signal is reflected at its ends.
    """
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    hann = np.pad(hann, ((size - window) // 2, (size - window + 1) // 2))
    while len(x) <= size // 2:  # reflecting needs more samples than it adds
        x = np.pad(x, (0, size // 2 + 1 - len(x)))
    padded = np.pad(x, size // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    for start in range(0, len(frames), 512):
        yield np.abs(np.fft.rfft(frames[start : start + 512] * hann))


def _pair(original: Audio, decoded: Audio) -> tuple[_Float64, _Float64]:
    x, y = np.asarray(original), np.asarray(decoded)
    if x.ndim != 2 or x.shape != y.shape or x.size == 0:
        raise ShapeError(
            f"original {x.shape} and decoded {y.shape} found; two arrays [C, T] of one shape with "
            "at least one sample are expected. Cut or pad the decoded one."
        )
    return x.astype(np.float64), y.astype(np.float64)
