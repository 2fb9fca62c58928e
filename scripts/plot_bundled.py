#!/usr/bin/env python3
"""Draw the spectrogram of a recording beside what the bundled models make of it.

Needs: matplotlib (extra `plot`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

WINDOW, HOP = 400, 80
FLOOR_DB = -80.0


def spectrogram(x: np.ndarray) -> np.ndarray:
    """Return levels in dB of the loudest point [bins, frames] of mono audio [T]."""
    frames = np.lib.stride_tricks.sliding_window_view(x, WINDOW)[::HOP] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(frames, 1024)).T ** 2
    return np.maximum(10 * np.log10(power / power.max() + 1e-12), FLOOR_DB)


def decoded(audio: np.ndarray, rate: int, name: str) -> tuple[str, np.ndarray]:
    """Return a title, and mono audio [1, T] as the model gives it back."""
    import dac_rocm

    model = dac_rocm.load(name, device="cpu")
    encoded = dac_rocm.encode_audio(model, audio, rate)
    y, _ = dac_rocm.decode_audio(model, encoded)
    what = "8 kbit/s" if isinstance(model, dac_rocm.DAC) else "latents"
    return f"{name}, {what}", np.asarray(y)


def draw(panels: list[tuple[str, np.ndarray]], rate: int, path: Path) -> None:
    """Write one picture with the panels below each other."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(panels), 1, figsize=(9, 2.6 * len(panels)), sharex=True)
    for (title, x), axis in zip(panels, axes, strict=True):
        extent = (0.0, x.shape[1] / rate, 0.0, rate / 2000)
        axis.imshow(spectrogram(x[0]), origin="lower", aspect="auto", extent=extent, cmap="magma")
        axis.set_title(title, fontsize=10)
        axis.set_ylabel("kHz")
    axes[-1].set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--audio", type=Path, default=ROOT / "tests/data/audio/speech_it_m_16k.wav")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/models/spectrogram.png")
    parser.add_argument("--seconds", type=float, default=3.6)
    args = parser.parse_args()

    from dac_rocm.audio.files import read_audio

    audio, rate = read_audio(args.audio)
    audio = audio.mean(0, keepdims=True)[:, : int(args.seconds * rate)]
    both = [decoded(audio, rate, name) for name in ("tiny", "tiny-vae")]
    draw([("original", audio), *both], rate, args.out)


if __name__ == "__main__":
    main()
