"""Measures: laws, closed forms, and values of published implementations."""

import sys

import numpy as np
import pytest

from dac_rocm import evaluate as ev
from dac_rocm.errors import BackendError, ShapeError

RATE = 16_000


def pair():
    """The signals whose stored values below were computed with other packages."""
    rng, t = np.random.default_rng(7), np.arange(RATE) / RATE
    x = 0.3 * np.sin(2 * np.pi * 220 * t) * (1 + 0.5 * np.sin(2 * np.pi * 3 * t))
    x = x + 0.05 * rng.standard_normal(RATE)
    y = 0.8 * x + 0.03 * rng.standard_normal(RATE) + 0.01
    return (
        np.stack([x, x[::-1]]).astype(np.float32),
        np.stack([y, 0.5 * y[::-1]]).astype(np.float32),
    )


@pytest.fixture
def measures():
    return {
        "log_mel": lambda x, y: ev.log_mel_distance(x, y, RATE),
        "stft": ev.multi_resolution_stft_distance,
        "loudness": lambda x, y: ev.loudness_difference(x, y, RATE),
    }


def test_si_sdr_of_orthogonal_noise_is_the_power_ratio():
    t = np.arange(1000) / 1000
    x = np.sin(2 * np.pi * 10 * t)[None]
    noise = 0.1 * np.cos(2 * np.pi * 10 * t)[None]
    assert ev.si_sdr(x, x + noise) == pytest.approx(20.0)


@pytest.mark.parametrize("gain", [1e-3, -2.0, 50.0])
def test_si_sdr_ignores_level_and_sign(gain):
    x, y = pair()
    assert ev.si_sdr(x, gain * y) == pytest.approx(ev.si_sdr(x, y), abs=1e-4)


def test_si_sdr_ignores_an_offset():
    x, y = pair()
    assert ev.si_sdr(x, y + 0.3) == pytest.approx(ev.si_sdr(x, y), abs=1e-4)


def test_si_sdr_is_limited():
    x, _ = pair()
    silence = np.zeros_like(x)
    assert ev.si_sdr(x, x) == 100.0
    assert ev.si_sdr(silence, silence) == 100.0
    assert ev.si_sdr(silence, x) == -100.0
    assert ev.si_sdr(x, silence) == -100.0


def test_nothing_is_far_from_itself(measures):
    x, _ = pair()
    assert {name: f(x, x) for name, f in measures.items()} == dict.fromkeys(measures, 0.0)


def test_silence_is_finite(measures):
    x, _ = pair()
    silence = np.zeros_like(x)
    for measure in measures.values():
        assert np.isfinite(
            [measure(silence, silence), measure(silence, x), measure(x, silence)]
        ).all()


@pytest.mark.parametrize("length", [1, 7, 200, 2000])
def test_short_clips_are_measured(measures, length):
    x, y = (s[:, :length] for s in pair())
    assert np.isfinite([f(x, y) for f in measures.values()]).all()
    assert ev.evaluate(x, y, RATE).stoi is None


@pytest.mark.parametrize("db", [-20.0, 6.0])
def test_a_gain_is_seen_in_decibels(db):
    rng = np.random.default_rng(0)
    x = 0.1 * rng.standard_normal((1, RATE))
    y = x * 10 ** (db / 20)
    assert ev.log_mel_distance(x, y, RATE) == pytest.approx(abs(db), abs=1e-6)
    assert ev.loudness_difference(x, y, RATE) == pytest.approx(db, abs=1e-3)


def test_more_noise_is_farther(measures):
    x, _ = pair()
    noise = np.random.default_rng(1).standard_normal(x.shape)
    for name in ("log_mel", "stft"):
        rising = [measures[name](x, x + level * noise) for level in (0.001, 0.01, 0.1)]
        assert rising == sorted(rising)


def test_channels_count_equally():
    x, y = pair()
    each = [ev.multi_resolution_stft_distance(x[i : i + 1], y[i : i + 1]) for i in (0, 1)]
    assert ev.multi_resolution_stft_distance(x, y) == pytest.approx(np.mean(each))


def test_values_of_published_implementations():
    """Computed once with auraloss 0.4.0, torchmetrics 1.9.0, in float64."""
    x, y = pair()
    assert ev.si_sdr(x, y) == pytest.approx(15.7916, abs=1e-4)
    each = [ev.multi_resolution_stft_distance(x[i : i + 1], y[i : i + 1]) for i in (0, 1)]
    assert each == pytest.approx([0.6958462, 1.4027777], abs=1e-5)


def test_mel_bands_are_those_of_torchaudio():
    functional = pytest.importorskip("torchaudio").functional
    theirs = functional.melscale_fbanks(257, 0.0, 8000.0, 80, RATE, "slaney", "slaney")
    assert np.abs(ev.slaney_mel_bands(RATE, 512, 80) - theirs.T.numpy()).max() < 1e-6


@pytest.mark.peers
def test_auraloss_agrees():
    torch, auraloss = pytest.importorskip("torch"), pytest.importorskip("auraloss")
    x, y = pair()
    theirs = auraloss.freq.MultiResolutionSTFTLoss()(
        torch.tensor(y[None, :1]).double(), torch.tensor(x[None, :1]).double()
    )
    assert ev.multi_resolution_stft_distance(x[:1], y[:1]) == pytest.approx(float(theirs), abs=1e-5)


def test_stoi_is_that_of_pystoi():
    pystoi = pytest.importorskip("pystoi")
    x, y = pair()
    theirs = [pystoi.stoi(x[i].astype(float), y[i].astype(float), RATE) for i in (0, 1)]
    assert ev.stoi(x, y, RATE) == pytest.approx(np.mean(theirs))
    assert ev.stoi(x, x, RATE) == pytest.approx(1.0)
    assert ev.evaluate(x, y, RATE).stoi == pytest.approx(np.mean(theirs))


def test_stoi_of_silence_and_of_too_little_is_zero():
    pytest.importorskip("pystoi")
    x, y = pair()
    silence = np.zeros_like(x)
    assert ev.stoi(silence, silence, RATE) == 0.0
    assert ev.stoi(x[:, :3000], y[:, :3000], RATE) == 0.0


def test_without_pystoi_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pystoi", None)
    x, y = pair()
    assert ev.evaluate(x, y, RATE).stoi is None
    with pytest.raises(BackendError, match=r"dac_rocm\[evaluate\]"):
        ev.evaluate(x, y, RATE, with_stoi=True)


def test_scores_are_plain_data():
    x, y = pair()
    scores = ev.evaluate(x, y, RATE, with_stoi=False)
    assert scores.to_dict() == {
        "si_sdr_db": ev.si_sdr(x, y),
        "log_mel_db": ev.log_mel_distance(x, y, RATE),
        "stft_distance": ev.multi_resolution_stft_distance(x, y),
        "loudness_difference_db": ev.loudness_difference(x, y, RATE),
        "stoi": None,
    }


@pytest.mark.parametrize("shapes", [((1, 5), (1, 6)), ((5,), (5,)), ((1, 0), (1, 0))])
def test_shapes_that_do_not_fit_are_refused(shapes):
    x, y = (np.zeros(s) for s in shapes)
    with pytest.raises(ShapeError, match="one shape"):
        ev.si_sdr(x, y)
