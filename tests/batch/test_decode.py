import numpy as np
import pytest
import soundfile
from networks import shared

import dac_rocm
from dac_rocm.batch import Decoding, Pair, run
from dac_rocm.batch.run import Stopped, Watch


@pytest.fixture
def encoded(tmp_path):
    audio = np.random.default_rng(0).uniform(-0.3, 0.3, (2, 5000)).astype("f4")
    for name in ("a.dacz", "b.dac"):
        path = tmp_path / name
        soundfile.write(tmp_path / "source.wav", audio.T, 22050, subtype="PCM_24")
        dac_rocm.encode_file(shared("even"), tmp_path / "source.wav", path)
    return tmp_path


def pairs(folder):
    return [Pair(p, folder / "out" / f"{p.name}.wav") for p in sorted(folder.glob("*.dac*"))]


def test_bytes_are_those_of_decode_file(encoded):
    jobs = pairs(encoded)
    assert [r.status for r in run(Decoding(model=shared("even")), jobs, jobs=2)] == ["done"] * 2
    for source, target in jobs:
        dac_rocm.decode_file(shared("even"), source, encoded / "alone.wav", overwrite=True)
        assert target.read_bytes() == (encoded / "alone.wav").read_bytes()


def test_another_model_is_refused(encoded):
    (result, _) = run(Decoding(model=shared("odd"), any_model=False), pairs(encoded))
    assert result.status == "failed" and "even-0" in result.error


def test_clipping_is_said(encoded):
    path = encoded / "a.dacz"
    gained = dac_rocm.read_encoded(path)
    dac_rocm.write_encoded(path, _louder(gained), overwrite=True)
    with pytest.warns(UserWarning, match=r"out/a.dacz.wav: \d+ samples beyond full scale"):
        list(run(Decoding(model=shared("even"), subtype="pcm16"), pairs(encoded)[:1]))


def _louder(encoded):
    from dataclasses import replace

    return replace(encoded, level=type(encoded.level)(-60.0))


def test_salvage_writes_and_lists(encoded):
    path = encoded / "a.dacz"
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(data)
    (refused,) = run(Decoding(model=shared("even")), pairs(encoded)[:1])
    assert refused.status == "failed" and not (encoded / "out/a.dacz.wav").exists()
    (saved,) = run(Decoding(model=shared("even"), salvage=True), pairs(encoded)[:1])
    assert saved.status == "failed" and "1 damaged blocks" in saved.error
    assert soundfile.info(encoded / "out/a.dacz.wav").frames == 5000


def test_stops_between_blocks(encoded):
    watch = Watch()
    watch.stop()
    with pytest.raises(Stopped):
        list(Decoding(model=shared("even"))(pairs(encoded)[:1], watch))
    assert not list((encoded / "out").iterdir())
