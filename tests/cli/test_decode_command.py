"""`dac-rocm decode`, in this process: targets, parts, models, streams, reports."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import networks as nw
import numpy as np
import pytest
import soundfile
from kits import ROOTS
from tolerances import FLOAT32_LAW

from dac_rocm.cli.main import main
from dac_rocm.container import PackedReader, read_encoded, write_encoded
from dac_rocm.pipeline import decode_audio, encode_audio

RATE = 16000
DAC = Path(__file__).parents[1] / "data" / "descript_files" / "mono_whole.dac"
EVEN = next(root / "descript" / "even" for root in ROOTS if (root / "descript").is_dir())


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    nw.shared("even").save_pretrained(folder / "even")
    nw.build("even", 1).save_pretrained(folder / "other")
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with a recording of two seconds."""
    monkeypatch.chdir(tmp_path)
    encoded = encode_audio(nw.shared("even"), nw.noise(1, 2 * RATE).numpy(), RATE)
    write_encoded("x.dacz", encoded)
    return tmp_path


@pytest.fixture
def decode(models, here):
    def run(*flags, model="even"):
        return main(["decode", *map(str, flags), "--model", str(models / model)])

    return run


def feed(monkeypatch, data):
    reader = io.BufferedReader(io.BytesIO(data))
    reader.seekable = lambda: False
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=reader))


def listing(folder):
    return sorted(p.name for p in folder.iterdir())


def wanted():
    return decode_audio(nw.shared("even"), read_encoded("x.dacz"))[0]


def read(source):
    audio, rate = soundfile.read(source, dtype="float32", always_2d=True)
    assert rate == RATE
    return audio.T


def test_default_target(decode, here, capsys):
    assert decode("x.dacz") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("x.dacz -> x.wav: 2.00 s, float32, ")
    assert np.abs(read("x.wav") - wanted()).max() <= FLOAT32_LAW


def test_part_subtype_and_json(decode, here, capsys):
    flags = ("--start", 0.5, "--stop", 0.75, "--subtype", "pcm24", "--json", "-o", "p.wav")
    assert decode("x.dacz", *flags) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["seconds"] == 0.25
    assert report["subtype"] == "pcm24"
    assert report["lost"] == []
    assert np.abs(read("p.wav") - wanted()[:, 8000:12000].clip(-1, 1)).max() < 1e-5


def test_clipping_is_said(decode, here, capsys):
    encoded = encode_audio(nw.shared("even"), nw.noise(1, RATE).numpy(), RATE, gain_db=-20.0)
    write_encoded("loud.dacz", encoded)
    assert decode("loud.dacz", "--subtype", "pcm16") == 0
    err = capsys.readouterr().err
    assert "samples beyond full scale were clipped (peak " in err
    assert "--subtype float32 keeps them" in err


def test_nothing_is_overwritten(decode, here, capsys):
    (here / "x.wav").write_bytes(b"mine")
    assert decode("x.dacz") == 1
    assert capsys.readouterr().err.startswith("error: x.wav exists already")
    assert (here / "x.wav").read_bytes() == b"mine"
    assert decode("x.dacz", "--force") == 0


def test_another_model(decode, here, capsys):
    assert decode("x.dacz", model="other") == 1
    err = capsys.readouterr().err
    assert "'even-0'" in err
    assert "'even-1'" in err
    assert listing(here) == ["x.dacz"]
    assert decode("x.dacz", "--any-model", model="other") == 0


def test_a_model_that_has_no_known_name(here, capsys):
    assert main(["decode", "x.dacz"]) == 1
    err = capsys.readouterr().err
    assert "'even-0'" in err
    assert "--model" in err
    assert listing(here) == ["x.dacz"]


def test_to_stdout_and_back(decode, here, monkeypatch, capsysbinary):
    assert decode("x.dacz", "-o", "-", "--subtype", "float32") == 0
    whole, _ = capsysbinary.readouterr()
    feed(monkeypatch, (here / "x.dacz").read_bytes())
    assert decode("-", "-o", "-", "--subtype", "float32") == 0
    piped, _ = capsysbinary.readouterr()
    feed(monkeypatch, (here / "x.dacz").read_bytes())
    assert decode("-", "--raw", "--subtype", "float32") == 0
    raw, _ = capsysbinary.readouterr()
    assert np.abs(np.frombuffer(raw, "<f4") - wanted()[0]).max() <= FLOAT32_LAW
    for data in (whole, piped):
        assert data[:4] == b"RIFF"
        assert data.endswith(raw[-4000:]) or abs(len(data) - len(raw)) < 100


def test_a_part_to_stdout(decode, here, capsysbinary):
    flags = ("-o", "-", "--raw", "--subtype", "float32")
    assert decode("x.dacz", *flags, "--start", 0.5, "--stop", 0.75) == 0
    raw, _ = capsysbinary.readouterr()
    assert np.abs(np.frombuffer(raw, "<f4") - wanted()[0, 8000:12000]).max() <= FLOAT32_LAW
    for bad in (("--stop", 0), ("--start", 9), ("--start", "nan"), ("--start", "inf")):
        assert decode("x.dacz", *flags, *bad) == 1
        assert b"error: a part from" in capsysbinary.readouterr().err


def test_a_part_of_a_pipe(decode, here, monkeypatch, capsys):
    feed(monkeypatch, (here / "x.dacz").read_bytes())
    assert decode("-", "-o", "x.wav", "--start", 0.5) == 1
    assert "error: a part of a stream" in capsys.readouterr().err
    assert listing(here) == ["x.dacz"]


def test_descripts_level_on_a_stream(here, capsysbinary):
    """The loudness of the whole is not known yet: the gain is undone instead, and that is said."""
    flags = ["--model", str(EVEN / "weights.pth"), "--subtype", "float32"]
    assert main(["decode", str(DAC), "-o", "-", "--raw", *flags]) == 0
    raw, err = capsysbinary.readouterr()
    assert b"the gain before encoding is undone" in err
    assert main(["decode", str(DAC), "-o", "y.wav", *flags]) == 0
    whole = read("y.wav")[0]
    live = np.frombuffer(raw, "<f4")
    assert live.shape == whole.shape
    ratio = live / whole
    assert np.nanstd(ratio[np.abs(whole) > 0.01]) < 1e-3 * abs(np.nanmean(ratio))


def damage(path):
    """Flip a bit in the first block; return its number of frames."""
    with path.open("rb") as file:
        reader = PackedReader(file)
        start, frames = file.tell(), reader.header.block_frames
    data = bytearray(path.read_bytes())
    data[start + 3] ^= 1
    path.write_bytes(data)
    return frames


@pytest.mark.parametrize("out", ["x.wav", "-"])
def test_salvage(out, decode, here, capsysbinary):
    frames = damage(here / "x.dacz")
    assert decode("x.dacz", "-o", out) == 1
    assert b"error: " in capsysbinary.readouterr().err
    assert not (here / "x.wav").exists()
    assert decode("x.dacz", "-o", out, "--salvage") == 1
    err = capsysbinary.readouterr().err.decode()
    assert f"lost: block 0, frames 0 to {min(frames, 1000)}" in err
    if out != "-":
        assert soundfile.info("x.wav").frames == 2 * RATE


def test_salvage_of_a_file_that_was_cut(decode, here, capsys):
    data = (here / "x.dacz").read_bytes()
    (here / "x.dacz").write_bytes(data[:-100])
    assert decode("x.dacz") == 1
    assert decode("x.dacz", "--salvage") == 1
    assert "lost: block" in capsys.readouterr().err
    assert (here / "x.wav").exists()


def test_verbose(decode, here, capsys):
    assert decode("x.dacz", "-v", "--device", "cpu") == 0
    err = capsys.readouterr().err
    assert "cpu: was asked for" in err
    assert "chunk of " in err


def test_chunks_change_nothing(decode, here):
    for i, seconds in enumerate((0.01, 0.3, 100)):
        assert decode("x.dacz", "-o", f"{i}.wav", "--chunk-seconds", seconds) == 0
        assert np.abs(read(f"{i}.wav") - wanted()).max() <= FLOAT32_LAW
