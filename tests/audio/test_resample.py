"""The original codec's resampler to 2e-5, and the laws of any resampler."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from dac_rocm.audio import resample as room
from dac_rocm.audio.resample import MAX_KERNEL_BYTES, Resampler, kernel_bytes, resample
from dac_rocm.errors import AudioError, BackendError

DSP = Path(__file__).parents[1] / "data/dsp"
CASES = json.loads((DSP / "manifest.json").read_text())["resample"]["cases"]
TENSORS = load_file(DSP / "resample.safetensors")
RATES = [8000, 16000, 22050, 24000, 44056, 44100, 48000]
SINC = [(44100, 16000), (16000, 44100), (48000, 24000), (8000, 48000), (128000, 44100)]
SOXR = [(44056, 44100), (44100, 44056), (48000, 47999)]

atol_reference = 2e-5
atol_constant = 2e-6


def noise(channels, n):
    return np.random.default_rng(n).uniform(-1, 1, (channels, n)).astype(np.float32)


def pushed(audio, cuts, old, new):
    resampler = Resampler(old, new, len(audio))
    parts = [resampler.push(part) for part in np.split(audio, sorted(cuts), axis=1)]
    return np.concatenate([*parts, resampler.flush()], axis=1)


@pytest.mark.parametrize("name", CASES)
def test_equals_the_original(name):
    case = CASES[name]
    result = resample(TENSORS[f"{name}.in"], case["from"], case["to"])
    assert result.dtype == np.float32 and result.shape == TENSORS[f"{name}.out"].shape
    assert np.abs(result - TENSORS[f"{name}.out"]).max() < atol_reference


def test_which_resampler():
    for old, new in [(o, n) for o in RATES for n in RATES]:
        divisor = np.gcd(old, new)
        big = kernel_bytes(old // divisor, new // divisor) > MAX_KERNEL_BYTES
        assert big == (44056 in (old, new) and old != new and 8000 not in (old, new))


@pytest.mark.parametrize("old, new", [*SINC, *SOXR])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_division_gives_the_same_samples(old, new, data):
    n = data.draw(st.integers(1, 60_000))
    cuts = data.draw(st.lists(st.integers(0, n), max_size=6))
    audio = noise(data.draw(st.integers(1, 3)), n)
    assert np.array_equal(pushed(audio, cuts, old, new), resample(audio, old, new))


def test_tiny_pushes_give_the_same_samples():
    audio = noise(2, 3000)
    assert np.array_equal(
        pushed(audio, range(0, 3000, 7), 44100, 16000), resample(audio, 44100, 16000)
    )


@given(st.sampled_from(RATES), st.sampled_from(RATES), st.integers(0, 5000))
@settings(max_examples=60, deadline=None)
def test_length(old, new, n):
    assert resample(np.zeros((1, n), np.float32), old, new).shape == (1, n * new // old)


@pytest.mark.parametrize("old, new", [*SINC, *SOXR])
def test_a_constant_stays_constant(old, new):
    result = resample(np.full((2, 30_000), 0.3, np.float32), old, new)
    assert np.abs(result - 0.3).max() < atol_constant


@pytest.mark.parametrize("old, new", [*SINC, *SOXR])
def test_a_tone_keeps_its_place(old, new):
    n, hz = old // 2, 440
    tone = np.sin(2 * np.pi * hz * np.arange(n) / old).astype(np.float32)[None]
    result = resample(tone, old, new)[0]
    expected = np.sin(2 * np.pi * hz * np.arange(len(result)) / new)
    inner = slice(len(result) // 10, -len(result) // 10)
    assert np.abs(result - expected)[inner].max() < 2e-4


@pytest.mark.parametrize("old, new", [(48000, 16000), (44100, 8000), (96000, 44056)])
def test_a_tone_above_the_band_dies(old, new):
    tone = np.sin(np.pi * 1.1 * new / old * np.arange(40_000)).astype(np.float32)
    assert np.abs(resample(tone[None], old, new)[0, 1000:-1000]).max() < 1e-3


def test_equal_rates_change_nothing():
    audio = noise(2, 100)
    assert np.array_equal(resample(audio, 44100, 44100), audio)


def test_flush_starts_anew():
    audio = noise(1, 5000)
    resampler = Resampler(44100, 16000, 1)
    first = np.concatenate([resampler.push(audio), resampler.flush()], axis=1)
    assert resampler.flush().shape == (1, 0)
    second = np.concatenate([resampler.push(audio), resampler.flush()], axis=1)
    assert np.array_equal(first, second)


def test_memory_does_not_grow():
    resampler = Resampler(48000, 44100, 1)
    sizes = [(resampler.push(noise(1, 10_000)), resampler._buffer.nbytes)[1] for _ in range(40)]
    assert max(sizes) < 4 * (room.BLOCK + 10_000)


@pytest.mark.parametrize("old, new", [(0, 16000), (16000, 0), (-1, 16000), (2**31, 44100)])
def test_impossible_rates(old, new):
    with pytest.raises(AudioError, match="expected rates of 1 to 1000000 Hz"):
        Resampler(old, new, 1)


@pytest.mark.parametrize(
    "module, old, new", [("torchaudio.transforms", 44100, 16000), ("soxr", 44056, 44100)]
)
def test_a_broken_package_says_how_to_mend_it(monkeypatch, module, old, new):
    room._sinc_kernel.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BackendError, match=f"install|{module}"):
        resample(noise(1, 100), old, new)
    assert resample(noise(1, 100), 16000, 16000).shape == (1, 100)
