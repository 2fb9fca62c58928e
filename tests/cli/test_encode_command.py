"""`dac-rocm encode`, in this process: targets, flags, streams, reports."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import networks as nw
import numpy as np
import pytest
import soundfile

from dac_rocm.cli.main import main
from dac_rocm.container import read_encoded
from dac_rocm.encoded import Gain, Loudness
from dac_rocm.pipeline import encode_audio, encode_file

RATE = 16000


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for shape in ("even", "mova"):
        nw.shared(shape).save_pretrained(folder / shape)
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with a clip."""
    monkeypatch.chdir(tmp_path)
    audio = nw.noise(1, 8000).numpy()
    soundfile.write("in.wav", audio.T, RATE, subtype="FLOAT")
    return tmp_path


@pytest.fixture
def encode(models, here):
    def run(*flags, model="even"):
        return main(["encode", *map(str, flags), "--model", str(models / model)])

    return run


def feed(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def listing(folder):
    return sorted(p.name for p in folder.iterdir())


def test_default_target(encode, here, capsys):
    assert encode("in.wav") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("in.wav -> in.dacz: 0.50 s, ")
    assert "kbps" in err
    assert "x real time" in err
    assert err.count("\n") == 1
    assert np.array_equal(
        read_encoded("in.dacz").data, encode_file(nw.shared("even"), "in.wav").data
    )


def test_format_and_suffix(encode, here):
    assert encode("in.wav", "--format", "dac") == 0
    assert isinstance(read_encoded("in.dac").level, Loudness)
    assert encode("in.wav", "-o", "y.dac") == 0
    assert isinstance(read_encoded("y.dac").level, Loudness)
    assert encode("in.wav", "-o", "y.v1", "--format", "dacz") == 0
    assert isinstance(read_encoded("y.v1").level, Gain)


def test_options_reach_the_codes(encode, here):
    assert encode("in.wav", "-o", "a.dacz", "--n-codebooks", 2, "--gain-db", -3) == 0
    stored = read_encoded("a.dacz")
    assert stored.data.shape[1] == 2
    assert stored.level == Gain(-3.0)
    assert encode("in.wav", "-o", "b.dacz", "--no-loudness") == 0
    assert read_encoded("b.dacz").level == Gain(0.0)
    assert encode("in.wav", "-o", "c.dacz", "--latents-dtype", "float16", model="mova") == 0
    assert read_encoded("c.dacz").data.dtype == np.float16


def test_chunks_change_nothing(encode, here):
    for i, flags in enumerate(([], ["--chunk-seconds", 0.05], ["--max-memory", 1])):
        assert encode("in.wav", "-o", f"{i}.dacz", *flags) == 0
    whole = read_encoded("0.dacz").data
    assert (read_encoded("1.dacz").data == whole).mean() > 0.999
    assert (read_encoded("2.dacz").data == whole).mean() > 0.999


def test_json(encode, here, capsys):
    assert encode("in.wav", "--json") == 0
    out, _ = capsys.readouterr()
    report = json.loads(out)
    assert report["source"] == "in.wav"
    assert report["target"] == "in.dacz"
    assert report["seconds"] == 0.5
    assert report["frames"] == 250
    assert report["file_bytes"] == (here / "in.dacz").stat().st_size
    assert report["kbps"] == pytest.approx(8e-3 * report["file_bytes"] / 0.5)
    assert report["gain_db"] == read_encoded("in.dacz").level.db


def test_verbose_says_what_was_chosen_and_why(encode, here, capsys):
    assert encode("in.wav", "-v", "--device", "cpu") == 0
    err = capsys.readouterr().err
    assert "cpu: was asked for" in err
    assert "float32: " in err
    assert "chunk of " in err
    assert encode("in.wav", "-v", "--chunk-seconds", 0.1, "--force") == 0
    assert "chunk of 0.10 s per channel: --chunk-seconds" in capsys.readouterr().err


def test_nothing_is_overwritten(encode, here, capsys):
    (here / "in.dacz").write_bytes(b"mine")
    assert encode("in.wav") == 1
    err = capsys.readouterr().err
    assert err.startswith("error: in.dacz exists already")
    assert "--force" in err
    assert (here / "in.dacz").read_bytes() == b"mine"
    assert encode("in.wav", "--force") == 0
    assert listing(here) == ["in.dacz", "in.wav"]


def test_a_stream_of_wav(encode, here, monkeypatch, capsysbinary):
    feed(monkeypatch, (here / "in.wav").read_bytes())
    assert encode("-", "-o", "-") == 0
    out, err = capsysbinary.readouterr()
    assert b"gain 0 dB (see --gain-db)" in err
    (here / "x").write_bytes(out)
    stored = read_encoded("x")
    audio, _ = soundfile.read("in.wav", dtype="float32")
    wanted = encode_audio(nw.shared("even"), audio, RATE, loudness=False)
    assert np.array_equal(stored.data, wanted.data)
    assert (stored.level, stored.length) == (Gain(0.0), 8000)


def test_a_gain_for_a_stream(encode, here, monkeypatch, capsys):
    feed(monkeypatch, (here / "in.wav").read_bytes())
    assert encode("-", "-o", "x.dacz", "--gain-db", 4.5) == 0
    assert "0 dB" not in capsys.readouterr().err
    assert read_encoded("x.dacz").level == Gain(4.5)


def test_a_stream_of_raw_samples(encode, here, monkeypatch):
    audio = nw.noise(2, 5000).numpy().clip(-1, 1)
    feed(monkeypatch, (audio.T * 32767).astype("<i2").tobytes())
    flags = ("--rate", 8000, "--channels", 2, "--sample-format", "s16")
    assert encode("-", "-o", "x.dacz", *flags) == 0
    stored = read_encoded("x.dacz")
    assert (stored.channels, stored.sample_rate, stored.length) == (2, 8000, 5000)
    assert stored.source_subtype == "PCM_16"


def test_a_file_to_stdout(encode, here, capsysbinary):
    """Unlike stdin, a file can be measured first."""
    assert encode("in.wav", "-o", "-") == 0
    out, _ = capsysbinary.readouterr()
    (here / "x").write_bytes(out)
    assert encode("in.wav") == 0
    assert out == (here / "in.dacz").read_bytes()
    assert not (here / "-").exists()


def test_a_stream_makes_no_dac(encode, here, monkeypatch, capsys):
    for flags in (("--format", "dac"), ("-o", "x.dac"), ("-o", "x.DAC")):
        feed(monkeypatch, (here / "in.wav").read_bytes())
        assert encode("-", *flags) == 1
        assert "`.dacz` is expected" in capsys.readouterr().err
    assert listing(here) == ["in.wav"]


def test_a_stream_that_breaks_off_leaves_no_file(encode, here, monkeypatch, capsys):
    for data in (b"", b"RIFF", b"no audio at all" * 99):
        feed(monkeypatch, data)
        assert encode("-", "-o", "x.dacz") == 1
        assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")
    feed(monkeypatch, np.full(5000, np.nan, "<f4").tobytes())
    flags = ("--rate", 8000, "--channels", 1, "--sample-format", "f32")
    assert encode("-", "-o", "x.dacz", *flags) == 1
    assert listing(here) == ["in.wav"]


def test_an_incomplete_description(encode, here, monkeypatch, capsys):
    feed(monkeypatch, bytes(999))
    assert encode("-", "-o", "x.dacz", "--rate", 8000) == 1
    assert "give what is missing" in capsys.readouterr().err


def test_without_a_model_the_bundled_one_is_used(here, capsys):
    assert main(["encode", "in.wav"]) == 0
    assert read_encoded("in.dacz").model.name == "tiny"
    err = capsys.readouterr().err
    assert all(line.startswith(("warning: ", "in.wav -> ")) for line in err.splitlines())


def test_a_warning_is_one_line(encode, here, capsys):
    data = (here / "in.wav").read_bytes()
    (here / "cut.wav").write_bytes(data[: len(data) // 2])
    assert encode("cut.wav") == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert len(warned) == 1
    assert "cut.wav" in warned[0]
