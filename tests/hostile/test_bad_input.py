"""The list of issue 2: each bad input is an error of the tree that says found, expected, do."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import networks as nw
import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dac_rocm
from dac_rocm.errors import AudioError, BackendError, DacError, ShapeError, SourceError

ODD = Path(__file__).parents[1] / "data" / "audio_odd"
MODEL, VAE, STEREO = nw.shared("even"), nw.shared("mova"), nw.shared("oobleck")
CLIP = nw.noise(1, 1, 400)
CODES = torch.zeros(1, 4, 9, dtype=torch.long)
LATENTS = torch.zeros(1, 5, 9)
BIG = 1 << 40


def with_value(value, where=7):
    x = CLIP.clone()
    x[..., where] = value
    return x


CASES = {
    "nan audio": (lambda: MODEL.encode(with_value(float("nan"))), AudioError),
    "inf audio": (lambda: VAE.encode(with_value(float("inf"), -1)), AudioError),
    "zero samples": (lambda: MODEL.encode(CLIP[..., :0]), ShapeError),
    "zero items": (lambda: MODEL.encode(CLIP[:0]), ShapeError),
    "rank 1": (lambda: MODEL.encode(CLIP[0, 0]), ShapeError),
    "rank 2": (lambda: VAE.encode(CLIP[0]), ShapeError),
    "rank 4": (lambda: MODEL.encode(CLIP[None]), ShapeError),
    "two channels into mono": (lambda: MODEL.encode(CLIP.expand(1, 2, 400)), ShapeError),
    "one channel into stereo": (lambda: STEREO.encode(CLIP), ShapeError),
    "integer audio": (lambda: MODEL.encode(CLIP.long()), ShapeError),
    "a list": (lambda: MODEL.encode([0.0, 1.0]), ShapeError),
    "another rate": (lambda: MODEL.encode(CLIP, sample_rate=44100), ShapeError),
    "a rate of a vae": (lambda: VAE.encode(CLIP, sample_rate=44100), ShapeError),
    "codes too high": (lambda: MODEL.decode(CODES + 32), ShapeError),
    "codes far too high": (lambda: MODEL.decode(CODES + BIG), ShapeError),
    "codes below 0": (lambda: MODEL.decode(CODES - 1), ShapeError),
    "float codes": (lambda: MODEL.decode(CODES.float()), ShapeError),
    "bool codes": (lambda: MODEL.decode(CODES.bool()), ShapeError),
    "too many codebooks": (lambda: MODEL.decode(CODES.repeat(1, 2, 1)), ShapeError),
    "no codebooks": (lambda: MODEL.decode(CODES[:, :0]), ShapeError),
    "codes of rank 2": (lambda: MODEL.decode(CODES[0]), ShapeError),
    "integer latents": (lambda: VAE.decode(LATENTS.long()), ShapeError),
    "codes into a vae": (lambda: VAE.decode(CODES), ShapeError),
    "latents of another width": (lambda: VAE.decode(LATENTS[:, :4]), ShapeError),
    "z of another width": (lambda: MODEL.decode_z(LATENTS), ShapeError),
    "integer z": (lambda: MODEL.quantize(torch.zeros(1, 10, 3).long()), ShapeError),
    "n_codebooks 0": (lambda: MODEL.encode(CLIP, n_codebooks=0), ShapeError),
    "n_codebooks -1": (lambda: MODEL.encode(CLIP, n_codebooks=-1), ShapeError),
    "n_codebooks 5 of 4": (lambda: MODEL.encode(CLIP, n_codebooks=5), ShapeError),
    "n_codebooks True": (lambda: MODEL.encode(CLIP, n_codebooks=True), ShapeError),
    "n_codebooks 2.5": (lambda: MODEL.encode(CLIP, n_codebooks=2.5), ShapeError),
    "n_codebooks of z": (lambda: MODEL.quantize(torch.zeros(1, 10, 3), n_codebooks=9), ShapeError),
    "length too long": (lambda: MODEL.decode(CODES, length=9 * 32 + 1), ShapeError),
    "length below 0": (lambda: VAE.decode(LATENTS, length=-1), ShapeError),
    "missing file": (lambda: dac_rocm.encode_file(MODEL, "nowhere.wav"), SourceError),
    "missing model": (lambda: dac_rocm.load("./no-such-folder"), SourceError),
    "missing codes": (lambda: dac_rocm.decode_file(MODEL, "no.dacz", "x.wav"), SourceError),
    "unknown backend": (lambda: nw.build("even").set_snake("warp"), BackendError),
    "nan z": (lambda: MODEL.quantize(torch.full((1, 10, 3), float("nan"))), DacError),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, kind = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert isinstance(caught.value, DacError)
    assert re.search("found|asked for|cannot be read", text), text
    assert re.search("expected|takes|has none|please", text), text
    assert 30 < len(text) < 700
    assert "\n" not in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", CASES)
def test_the_model_still_works_after_it(name, tmp_path, monkeypatch):
    """A device assert would leave nothing usable: checks come before kernels."""
    monkeypatch.chdir(tmp_path)
    before = MODEL.encode(CLIP)
    with pytest.raises(DacError):
        CASES[name][0]()
    assert torch.equal(MODEL.encode(CLIP), before)


@pytest.mark.parametrize("path", sorted(ODD.iterdir()), ids=lambda p: p.name)
def test_odd_files_give_codes_or_an_error_of_the_tree(path, tmp_path):
    """Never another exception, never a file without its audio."""
    target = tmp_path / "x.dacz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            summary = dac_rocm.encode_file(MODEL, path, target)
        except DacError as error:
            assert str(path) in str(error) or "Hz" in str(error)
            assert not target.exists()
            return
        dac_rocm.decode_file(MODEL, target, tmp_path / "x.wav")
    info = soundfile.info(tmp_path / "x.wav")
    assert info.frames == round(summary.seconds * info.samplerate)
    assert {p.name for p in tmp_path.iterdir()} == {"x.dacz", "x.wav"}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.binary(max_size=300), wrap=st.booleans())
def test_noise_as_an_audio_file(data, wrap, tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / "x.wav"
    head = b"RIFF\xff\xff\xff\x00WAVEfmt \x10\x00\x00\x00" if wrap else b""
    path.write_bytes(head + data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            encoded = dac_rocm.encode_file(MODEL, path)
        except DacError:
            return
    assert encoded.length > 0


def test_a_wav_cut_at_every_place(tmp_path):
    """Truncated audio: a warning and what is there, or an error; nothing else."""
    path = tmp_path / "x.wav"
    soundfile.write(path, nw.noise(1, 300).numpy().T, 16000)
    data = path.read_bytes()
    for n in range(0, len(data), 13):
        path.write_bytes(data[:n])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                encoded = dac_rocm.encode_file(MODEL, path)
            except DacError:
                continue
        assert 0 < encoded.length < 300
        assert caught, "cut short without a word"


def test_loud_audio_is_taken_as_it_is():
    """Float audio far beyond full scale is coded, not refused, and stays finite."""
    audio = 1e4 * nw.noise(1, 5000).numpy()
    encoded = dac_rocm.encode_audio(MODEL, audio, 16000)
    decoded, _ = dac_rocm.decode_audio(MODEL, encoded)
    assert np.isfinite(decoded).all()
    assert encoded.level.db < -60
