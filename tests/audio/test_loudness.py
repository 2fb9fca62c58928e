"""The original codec's meter to 0.01 dB, and the slow recursive filter as twin."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from dac_rocm.audio.loudness import (
    LoudnessMeter,
    k_weighting,
    k_weighting_biquads,
    loudness,
    normalizing_gain_db,
)

DSP = Path(__file__).parents[1] / "data/dsp"
VALUES = json.loads((DSP / "manifest.json").read_text())["loudness"]["values_in_LUFS"]
SIGNALS = load_file(DSP / "loudness_signals.safetensors")

atol_audiotools = 1e-3  # its filters run in float32; 0.01 dB is asked for
atol_float64 = 1e-9


def noise(channels, n, peak=0.5):
    return np.random.default_rng(n).uniform(-peak, peak, (channels, n)).astype(np.float32)


@pytest.mark.parametrize("name", VALUES)
def test_equals_the_original(name):
    value = VALUES[name]
    result = loudness(SIGNALS[name], value["sample_rate"])
    assert abs(result - value["audiotools"]) < atol_audiotools
    assert abs(result - value["audiotools_float64_same_blocks"]) < atol_float64


@pytest.mark.parametrize("rate", [4000, 16000, 44100, 48000])
def test_the_filters_equal_the_recursive_ones(rate):
    size = 2**15
    impulse = np.zeros(4000)
    impulse[0] = 1
    for b, a in k_weighting_biquads(rate):
        out = np.zeros(len(impulse))
        for i in range(len(out)):
            past = [(impulse[i - k], out[i - k]) if i >= k else (0, 0) for k in (1, 2)]
            out[i] = b[0] * impulse[i] + sum(
                b[k] * x - a[k] * y for k, (x, y) in enumerate(past, 1)
            )
        impulse = out
    assert np.abs(np.fft.irfft(k_weighting(rate, size))[:4000] - impulse).max() < 1e-12


@pytest.mark.parametrize("rate", [1, 7, 100, 999, 2999, 4000, 8000, 44056, 192000])
def test_the_filters_fade_within_what_is_kept(rate):
    meter = LoudnessMeter(rate, 1)
    response = np.fft.irfft(k_weighting(rate, 4 * len(meter._response)))
    assert np.abs(response[meter._fade :]).max() < 1e-12


@given(
    st.sampled_from([999, 8000, 11025, 16000, 22050]),
    st.integers(1, 40_000),
    st.lists(st.integers(0, 40_000), max_size=6),
    st.integers(1, 8),
)
@settings(max_examples=25, deadline=None)
def test_any_division_gives_the_same_number(rate, n, cuts, channels):
    audio = noise(channels, n)
    meter = LoudnessMeter(rate, channels)
    for part in np.split(audio, sorted(min(cut, n) for cut in cuts), axis=1):
        meter.push(part)
        assert -70 <= meter.loudness() < 20
    assert meter.loudness() == loudness(audio, rate)


@pytest.mark.parametrize("seconds", [2.0, 2.13])
def test_what_is_kept_of_the_past_suffices(seconds):
    """One step over the whole signal equals many with history."""
    rate = 16000
    audio = noise(1, int(seconds * rate)) * np.linspace(0, 1, int(seconds * rate), dtype=np.float32)
    whole = LoudnessMeter(rate, 1)
    whole._step = whole._hop * 40
    whole._response = k_weighting(rate, 2**17)
    whole.push(audio)
    assert abs(whole.loudness() - loudness(audio, rate)) < 1e-10


def test_gain_moves_loudness_by_as_much():
    audio = noise(2, 50_000)
    assert abs(loudness(audio * np.float32(0.5), 16000) - loudness(audio, 16000) + 6.0206) < 1e-4


def test_channel_weights():
    alone = {
        channels: [
            round(
                loudness(np.eye(channels, dtype=np.float32)[:, i : i + 1] * noise(1, 16000), 16000),
                3,
            )
            for i in range(channels)
        ]
        for channels in range(1, 9)
    }
    plain = alone[1][0]
    surround = round(loudness(noise(1, 16000), 16000) + 10 * np.log10(1.41), 3)
    for channels, lfe, raised in [
        (4, None, {3}),
        (5, None, {3, 4}),
        (6, 3, {4, 5}),
        (7, 3, {5, 6}),
        (8, 3, {6, 7}),
    ]:
        for i, value in enumerate(alone[channels]):
            expected = -70 if i == lfe else surround if i in raised else plain
            assert abs(value - expected) < 2e-3


@pytest.mark.parametrize("rate", [1, 2, 10, 100, 3000, 8000, 192000, 1_000_000])
@pytest.mark.parametrize("n", [0, 1, 5000])
def test_never_nan(rate, n):
    for audio in (np.zeros((1, n), np.float32), noise(1, n), np.full((1, n), 3e38, np.float32)):
        assert np.isfinite(loudness(audio, rate))


def test_memory_does_not_grow():
    meter = LoudnessMeter(8000, 1)
    for _ in range(50):
        meter.push(noise(1, 10_000))
    assert meter._pending.shape[1] <= meter._fade + meter._step
    assert sum(e.size for e in meter._energies) <= 20 * 50 * 10_000 / 8000


def test_gain():
    assert normalizing_gain_db(-20.0) == 4.0
    assert normalizing_gain_db(-10.0) == -6.0
    assert normalizing_gain_db(-69.9) == 40.0
    assert normalizing_gain_db(-70.0) == 0.0
    assert normalizing_gain_db(-30.0, target_db=-20.0) == 10.0
