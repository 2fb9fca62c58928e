"""Training audio in memory, and segments drawn from it: draw `step` depends on nothing else."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RATE = 16_000
MIX = {"speech": 0.6, "music": 0.3, "effects": 0.1}
"""Shares of the segments, so that two hours of prompts do not drown the rest."""
TARGET_DB = -18.0
"""RMS of the loud parts in dB of full scale; about -16 LUFS for speech."""
LEVEL_SPREAD_DB = 4.0
QUIET_DB = -50.0
"""Segments below are drawn again."""
PEAK = 0.98
TILTED, TILTS = 0.5, (-0.4, 0.8)
"""Share of the segments that get another spectral tilt, and the poles that make it."""


@dataclass(frozen=True, eq=False)
class Recording:
    """One file: int16 samples and the factor that brings it to `TARGET_DB`."""

    samples: np.ndarray
    gain: float


def loud_gain(x: np.ndarray) -> float:
    """Return the factor to `TARGET_DB` of the loud half of all 0.1 s blocks, at most 40 dB."""
    n = min(len(x), RATE // 10)
    blocks = np.mean(x[: len(x) // n * n].reshape(-1, n).astype(np.float64) ** 2, axis=1)
    loud = blocks[blocks >= 0.1 * blocks.mean()].mean()
    return float(min(100.0, 10 ** (TARGET_DB / 20) / max(np.sqrt(loud), 1e-5)))


class Corpus:
    """Recordings by kind.

    Args:
        recordings: Kind to list; kinds that are absent are not drawn.
    """

    def __init__(self, recordings: dict[str, list[Recording]]) -> None:
        self.recordings = {kind: some for kind, some in recordings.items() if some}
        shares = np.array([MIX[kind] for kind in self.recordings])
        self.shares = shares / shares.sum()
        self.weights = {}
        for kind, some in self.recordings.items():
            lengths = np.array([len(r.samples) for r in some], dtype=np.float64)
            self.weights[kind] = lengths / lengths.sum()

    @classmethod
    def read(cls, folder: Path, split: str = "train") -> Corpus:
        """Read the files of `training.tsv` (see fetch_training_audio.py)."""
        import soundfile

        found: dict[str, list[Recording]] = {kind: [] for kind in MIX}
        with (folder / "training.tsv").open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines, delimiter="\t"):
                if row["split"] == split:
                    samples, _ = soundfile.read(folder / row["file"], dtype="int16")
                    found[row["kind"]].append(Recording(samples, loud_gain(samples / 32768)))
        return cls(found)

    def batch(self, seed: int, step: int, size: int, length: int) -> np.ndarray:
        """Draw float32 segments [size, 1, length]; the same for the same arguments."""
        rng = np.random.default_rng((seed, step))
        return np.stack([self._segment(rng, length)[None] for _ in range(size)])

    def _segment(self, rng: np.random.Generator, length: int) -> np.ndarray:
        kinds = list(self.recordings)
        for _ in range(20):
            kind = kinds[rng.choice(len(kinds), p=self.shares)]
            some = self.recordings[kind]
            recording = some[rng.choice(len(some), p=self.weights[kind])]
            x = _cut(recording, rng, length)
            if 10 * np.log10(np.mean(x**2) + 1e-12) > QUIET_DB:
                break
        level = 10 ** (rng.normal(0.0, LEVEL_SPREAD_DB) / 20)
        return np.float32(level * min(1.0, PEAK / (level * np.abs(x).max() + 1e-9))) * x


def tilt(x: np.ndarray, pole: float) -> np.ndarray:
    """Filter by 1 / (1 - pole / z), periodic, at the same power; a positive pole dulls."""
    turn = np.exp(-2j * np.pi * np.fft.rfftfreq(len(x)))
    y = np.fft.irfft(np.fft.rfft(x) / (1 - pole * turn), len(x)).astype(np.float32)
    power = float(np.mean(y**2))
    return y * np.float32(np.sqrt(np.mean(x**2) / power)) if power > 0 else x


def _cut(recording: Recording, rng: np.random.Generator, length: int) -> np.ndarray:
    """Cut at a random place, at a random speed, tilt and polarity; zeros follow a short file."""
    speed = rng.uniform(0.85, 1.2) if rng.random() < 0.4 else 1.0
    need = int(np.ceil(length * speed)) + 1
    start = rng.integers(0, max(1, len(recording.samples) - need + 1))
    x = recording.samples[start : start + need].astype(np.float32) / 32768
    x = np.pad(x, (0, need - len(x)))
    if rng.random() < TILTED:
        x = tilt(x, rng.uniform(*TILTS))
    if speed != 1.0:
        x = np.interp(np.arange(length) * speed, np.arange(need), x).astype(np.float32)
    return x[:length] * np.float32(recording.gain * rng.choice((-1.0, 1.0)))
