"""Descript's own command opens what we write: real files, every rate, whole seconds included."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from tolerances import PCM16

import dac_rocm
from dac_rocm.audio.files import read_audio
from dac_rocm.audio.writer import create_audio

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venvs/descript/bin/python"
KITS = sorted((ROOT / "tests/data/reference/descript").glob("*/weights.pth"))
RATES = (8000, 16000, 22050, 24000, 44100, 48000)
LEVEL = 2e-3
"""Of the peak: two meters 0.01 dB apart, and two resamplers 2e-5 apart."""

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(not PYTHON.exists(), reason="scripts/peers has not made the environment"),
]


def tone(rate: int, length: int) -> np.ndarray:
    """A falling harmonic sound with some noise, [1, length]."""
    t = np.arange(length) / rate
    rng = np.random.default_rng(rate + length)
    sound = sum(np.sin(2 * np.pi * 220 * k * t) / k for k in range(1, 6)) * np.exp(-2 * t)
    return (0.2 * sound + 0.01 * rng.standard_normal(length))[None].astype(np.float32)


def lengths(rate: int) -> tuple[int, ...]:
    """Whole seconds, and lengths around them."""
    return rate, rate - 1, rate // 2 + 7, 2 * rate


@pytest.mark.parametrize("weights", KITS, ids=lambda path: path.parent.name)
def test_their_command_decodes_our_files(weights: Path, tmp_path: Path) -> None:
    model = dac_rocm.load(weights)
    ours = tmp_path / "ours"
    ours.mkdir()
    for rate in RATES:
        for length in lengths(rate):
            source = tmp_path / f"{rate}_{length}.wav"
            with create_audio(source, rate, 1, subtype="float32") as writer:
                writer.write(tone(rate, length))
            dac_rocm.encode_file(model, source, ours / f"{rate}_{length}.dac")
    theirs = tmp_path / "theirs"
    command = ["-m", "dac", "decode", str(ours), "--output", str(theirs), "--device", "cpu"]
    done = subprocess.run(
        [PYTHON, "-W", "ignore", *command, "--weights_path", str(weights)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for path in sorted(ours.glob("*.dac")):
        rate, length = map(int, path.stem.split("_"))
        audio, found_rate = read_audio(theirs / f"{path.stem}.wav")
        assert (found_rate, audio.shape) == (rate, (1, length)), path.stem
        mine, _ = dac_rocm.decode_audio(model, dac_rocm.read_encoded(path))
        assert np.abs(audio - mine).max() <= LEVEL * np.abs(mine).max() + PCM16, path.stem
