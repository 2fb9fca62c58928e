"""What pictures show: true levels, true places, and few enough columns."""

import numpy as np
import pytest

from dac_rocm.evaluate import log_mel, log_mel_distance
from dac_rocm.report import spectra

RATE = 16_000


def tone(hz, seconds=1.0, level=0.5, channels=1):
    t = np.arange(int(seconds * RATE)) / RATE
    return np.tile(level * np.sin(2 * np.pi * hz * t), (channels, 1)).astype(np.float32)


@pytest.mark.parametrize("hz", [200, 500, 1000, 3000, 7000])
def test_a_tone_lies_at_its_tick(hz):
    levels = spectra.spectrogram(tone(hz), RATE)
    loudest = (levels.mean(1).argmax() + 0.5) / len(levels)
    assert loudest == pytest.approx(spectra.height_of(hz, RATE), abs=1 / len(levels))


def test_pictures_show_what_the_distance_measures():
    x, y = tone(300), 0.5 * tone(300) + 0.001 * tone(2000)
    change = log_mel(y, RATE) - log_mel(x, RATE)
    assert abs(change).mean() == pytest.approx(log_mel_distance(x, y, RATE))
    assert np.array_equal(spectra.spectrogram(x, RATE), log_mel(x, RATE)[0])


def test_long_files_have_few_columns_with_the_same_means():
    levels = np.random.default_rng(0).standard_normal((3, 1000))
    few = spectra.pooled(levels, 7)
    assert few.shape == (3, 7)
    assert few[:, 0] == pytest.approx(levels[:, :142].mean(1))
    assert spectra.pooled(levels, 1000) is levels
    assert spectra.pooled(levels[:, :500], 250) == pytest.approx(
        levels[:, :500].reshape(3, 250, 2).mean(2)
    )


def test_an_event_stays_where_it_was():
    audio = np.zeros((1, 60 * RATE), np.float32)
    audio[0, 45 * RATE] = 1.0
    levels = spectra.spectrogram(audio, RATE, 100)
    low, high = spectra.envelope(audio, 100)
    assert levels.max(0).argmax() == 75
    assert high.argmax() == 75 and not low.any()


def test_the_envelope_holds_every_peak():
    audio = np.random.default_rng(0).standard_normal((2, 12345)).astype(np.float32)
    low, high = spectra.envelope(audio, 50)
    assert (low.min(), high.max()) == (audio.min(), audio.max())
    assert spectra.envelope(audio[:, :3]).shape == (2, 3)


def test_silence_is_dark():
    silent = spectra.spectrogram(np.zeros((1, RATE), np.float32), RATE)
    shown = spectra.shown_range(silent)
    assert not spectra.to_unit(silent, *shown).any()
    loud = spectra.spectrogram(tone(440), RATE)
    assert spectra.to_unit(loud, *spectra.shown_range(loud)).max() == 1.0


def test_the_difference_leaves_out_what_is_not_shown():
    shown = spectra.Range(-80, 0)
    before, after = np.array([[-200.0, -20.0, -90.0]]), np.array([[-100.0, -26.0, -60.0]])
    assert spectra.difference(before, after, shown).tolist() == [[0.0, -6.0, 20.0]]


@pytest.mark.parametrize("rate", [4000, 16000, 44100, 192000])
def test_frequencies_do_not_crowd(rate):
    heights, labels = zip(*spectra.hz_ticks(rate), strict=True)
    assert np.diff(heights).min() >= 0.1 and 0 <= min(heights) <= max(heights) <= 1
    assert len(set(labels)) == len(labels) >= 3


@pytest.mark.parametrize(
    "low, high, expected",
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-17.3, 12.1, [-15, -10, -5, 0, 5, 10]),
        (0, 180, [0, 50, 100, 150]),
        (3, 3, [3]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert spectra.ticks(low, high) == expected
