"""What is done to the level, in numbers."""

from __future__ import annotations

import networks as nw
import numpy as np
import pytest

from dac_rocm.audio.loudness import loudness
from dac_rocm.encoded import Gain, Loudness
from dac_rocm.pipeline.level import db_to_factor, descript, fixed_gain, normalizing

RATE = 16000


def blocks(audio, size=999):
    return [audio[:, i : i + size] for i in range(0, audio.shape[1], size)]


def test_decibels():
    for db, factor in ((0.0, 1.0), (20.0, 10.0), (-40.0, 0.01)):
        assert db_to_factor(db) == pytest.approx(factor)


def test_fixed():
    leveling = fixed_gain(6.0, 3)
    assert leveling.level == Gain(6.0)
    assert leveling.factor.shape == (3, 1)
    assert leveling.factor.dtype == np.float32
    audio = nw.noise(3, 10).numpy()
    np.testing.assert_allclose(leveling.apply(audio), audio * 10**0.3, rtol=1e-6)


def test_normalizing():
    audio = 0.05 * nw.noise(2, 20000).numpy()
    leveling = normalizing(blocks(audio), RATE, 2)
    assert loudness(leveling.apply(audio), RATE) == pytest.approx(-16, abs=0.01)
    assert leveling.level.db == pytest.approx(-16 - loudness(audio, RATE), abs=1e-6)
    silent = normalizing(blocks(np.zeros((1, 9000), np.float32)), RATE, 1)
    assert silent.level == Gain(0.0)


def test_descripts_rule():
    """-16 LUFS without a cap, then only the channels that peak above 1 are divided by it."""
    audio = nw.noise(2, 20000).numpy()
    audio[0, 5000] = 9.0
    audio[1] *= 0.5
    leveling = descript(blocks(audio), RATE, 2)
    assert leveling.level == Loudness(pytest.approx(loudness(audio, RATE), abs=1e-6))
    after = leveling.apply(audio)
    gain = 10 ** ((-16 - leveling.level.db) / 20)
    assert np.abs(audio[0] * gain).max() > 1
    assert np.abs(after[0]).max() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(after[1], audio[1] * gain, rtol=1e-5)


def test_descripts_rule_has_no_cap():
    audio = np.zeros((1, 9000), np.float32)
    leveling = descript(blocks(audio), RATE, 1)
    assert leveling.level == Loudness(-70.0)
    assert leveling.factor[0, 0] == pytest.approx(10 ** (54 / 20), rel=1e-5)
