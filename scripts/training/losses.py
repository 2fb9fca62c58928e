"""Losses of the bundled models: waveform SNR, multi-scale log-mel distance, intelligibility."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

WINDOWS = (64, 128, 256, 512, 1024, 2048)
"""Samples of each STFT. Source: Kumar et al. 2023, section 3.4, without the shortest."""
MELS = (5, 10, 20, 40, 80, 128)
FLOOR = 1e-5
"""Least mel magnitude, as Descript's loss has it."""
PRE_EMPHASIS = 0.9
QUIET = 1e-6
"""Mean square (-60 dB) added to both sides of the SNR, so that silence is no infinite loss."""

STOI_WINDOW, STOI_HOP, STOI_FRAMES = 410, 205, 30
"""25.6 ms, half of it, and 384 ms at 16 kHz. Source: Taal et al. 2011, section II."""
STOI_BANDS, STOI_LOWEST_HZ = 15, 150.0
STOI_CLIP = 1 + 10 ** (15 / 20)
"""A band may be louder than the original by this factor: its SDR is held above -15 dB."""


def snr_loss(x: Tensor, y: Tensor) -> Tensor:
    """Return minus the SNR of `y` [B, 1, T] against `x` in units of 10 dB, [B]."""
    error = (x - y).square().mean((1, 2)) + QUIET
    return (error / (x.square().mean((1, 2)) + QUIET)).log10()


def pre_emphasise(x: Tensor) -> Tensor:
    """Lift the highs: x[t] - 0.9 x[t - 1]."""
    return x[..., 1:] - PRE_EMPHASIS * x[..., :-1]


@cache
def mel_matrix(window: int, mels: int, rate: int) -> Tensor:
    """Triangular HTK mel filters [bins, mels], each of sum 1 (and at least one bin wide)."""
    top = 2595.0 * torch.log10(torch.tensor(1.0 + rate / 2 / 700.0, dtype=torch.float64))
    edges = 700.0 * (10 ** (torch.linspace(0, 1, mels + 2, dtype=torch.float64) * top / 2595) - 1)
    bins = torch.linspace(0, rate / 2, window // 2 + 1, dtype=torch.float64)[:, None]
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    bin_width = rate / window
    rise = (bins - left) / (centre - left).clamp(min=bin_width)
    fall = (right - bins) / (right - centre).clamp(min=bin_width)
    matrix = torch.minimum(rise, fall).clamp(min=0)
    return (matrix / matrix.sum(0).clamp(min=1e-9)).float()


def log_mel(x: Tensor, window: int, mels: int, rate: int) -> Tensor:
    """Return log10 mel power of [B, 1, T]: [B, frames, mels]."""
    hann = torch.hann_window(window)
    spectrum = torch.stft(x[:, 0], window, window // 4, window=hann, return_complex=True)
    magnitude = (spectrum.real.square() + spectrum.imag.square() + 1e-10).sqrt() / window**0.5
    return 2.0 * (magnitude.mT @ mel_matrix(window, mels, rate)).clamp(min=FLOOR).log10()


def mel_loss(x: Tensor, y: Tensor, rate: int) -> Tensor:
    """Return the mean over scales of |log-mel difference| in units of 10 dB, scalar."""
    each = []
    for window, mels in zip(WINDOWS, MELS, strict=True):
        with torch.no_grad():
            wanted = log_mel(x, window, mels, rate)
        each.append((wanted - log_mel(y, window, mels, rate)).abs().mean())
    return torch.stack(each).mean()


@cache
def third_octaves(size: int, rate: int) -> Tensor:
    """One-third octave bands from 150 Hz: 1 for the bins [bins, bands] within, else 0."""
    centres = STOI_LOWEST_HZ * 2 ** (torch.arange(STOI_BANDS) / 3)
    bins = torch.linspace(0, rate / 2, size // 2 + 1)[:, None]
    return ((bins >= centres * 2 ** (-1 / 6)) & (bins < centres * 2 ** (1 / 6))).float()


def envelopes(x: Tensor, rate: int) -> Tensor:
    """Return the magnitude of each band of [B, 1, T] in stretches: [B, bands, stretches, 30]."""
    size = 2 * 512
    hann = torch.hann_window(STOI_WINDOW)
    spectrum = torch.stft(
        x[:, 0], size, STOI_HOP, STOI_WINDOW, window=hann, center=False, return_complex=True
    )
    power = spectrum.real.square() + spectrum.imag.square()
    bands = (third_octaves(size, rate).T @ power + 1e-7).sqrt()
    return bands.unfold(2, STOI_FRAMES, STOI_FRAMES // 4)


def intelligibility_loss(x: Tensor, y: Tensor, rate: int) -> Tensor:
    """Return 1 minus the mean correlation of the band envelopes, scalar.

    It is STOI at the rate of the audio, with silence left in. Needs 0.41 s of audio or more.

    Source: Taal et al. 2011 (doi:10.1109/TASL.2011.2114881), equations 3 to 5.
    """
    with torch.no_grad():
        a = envelopes(x, rate)
    b = envelopes(y, rate)
    b = b * (a.square().sum(-1, keepdim=True) / b.square().sum(-1, keepdim=True)).sqrt()
    b = torch.minimum(b, a * STOI_CLIP)
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    norm = (a.square().sum(-1) * b.square().sum(-1) + 1e-12).sqrt()
    return 1 - ((a * b).sum(-1) / norm).mean()
