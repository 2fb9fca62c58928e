"""Losses of the bundled models: waveform SNR and multi-scale log-mel distance."""

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
