"""Round trips: the numbers that `evaluate` and reports share."""

import io

import networks as nw
import numpy as np
import pytest

from dac_rocm.container.packed_writer import write_packed
from dac_rocm.evaluate import evaluate
from dac_rocm.pipeline import decode_audio, encode_audio
from dac_rocm.roundtrip import means, round_trip


@pytest.fixture(scope="module")
def model():
    return nw.build("odd")


def noise(channels=2, length=4000):
    rng = np.random.default_rng(0)
    return (0.1 * rng.standard_normal((channels, length))).astype(np.float32)


def test_it_is_encode_decode_and_evaluate(model):
    audio, rate = noise(), 8000
    trip = round_trip(model, audio, rate, n_codebooks=1)
    decoded, _ = decode_audio(model, encode_audio(model, audio, rate, n_codebooks=1))
    assert np.array_equal(trip.decoded, decoded)
    assert trip.scores == evaluate(audio, decoded, rate)
    numbers = trip.to_dict()
    assert numbers["n_codebooks"] == 1
    assert numbers["times_real_time"] == pytest.approx(0.5 / trip.elapsed)
    assert numbers["si_sdr_db"] == trip.scores.si_sdr_db


def test_the_bitrate_is_that_of_a_long_file(model):
    trip = round_trip(model, noise(2, 200_000), model.sample_rate)
    file = io.BytesIO()
    write_packed(file, trip.encoded)
    real = 8e-3 * len(file.getvalue()) / trip.encoded.seconds
    assert trip.kbps == pytest.approx(real, rel=0.03) and trip.kbps < real


def test_latents_have_no_bitrate():
    model = nw.build("mova")
    numbers = round_trip(model, noise(1), model.sample_rate).to_dict()
    assert numbers["kbps"] is None and numbers["n_codebooks"] is None


def test_silence_has_no_ratio(model):
    silent = round_trip(model, np.zeros((1, 4000), np.float32), model.sample_rate).to_dict()
    assert silent["si_sdr_db"] is None
    assert np.isfinite([silent["log_mel_db"], silent["stft_distance"]]).all()


def test_means_are_of_rows_that_agree():
    rows = [
        {"file": "a", "model": "m", "n_codebooks": 1, "kbps": 1.0, "x": 2.0, "y": None},
        {"file": "b", "model": "m", "n_codebooks": 1, "kbps": 1.0, "x": None, "y": None},
        {"file": "c", "model": "n", "n_codebooks": 1, "kbps": 3.0, "x": 9.0, "y": None},
    ]
    assert means(rows, ("model", "n_codebooks")) == [
        {"file": "mean", "model": "m", "n_codebooks": 1, "kbps": 1.0, "x": 2.0, "y": None}
    ]
    (mean,) = means([{k: v for k, v in row.items() if k != "model"} for row in rows])
    assert mean["kbps"] == pytest.approx(5 / 3) and mean["x"] == 5.5
