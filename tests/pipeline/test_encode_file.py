"""Encoding: the gain rule, the samples that reach the engine, and files that appear whole."""

from __future__ import annotations

import errno
from pathlib import Path

import networks as nw
import numpy as np
import pytest
import soundfile
import torch
from tolerances import LOUDNESS_DB

from dac_rocm.audio.loudness import loudness
from dac_rocm.container import read_encoded
from dac_rocm.encoded import Gain, Loudness
from dac_rocm.errors import (
    AudioError,
    ContainerError,
    DacError,
    OutputError,
    ShapeError,
    SourceError,
    UnknownContainerError,
)
from dac_rocm.pipeline import encode_audio, encode_file
from dac_rocm.streaming import StreamEncoder

RATE = 16000  # of the model `even`


@pytest.fixture
def wav(tmp_path):
    """Write noise as a float wav, and return its path."""

    def write(n=9000, channels=1, rate=RATE, scale=1.0, name="in.wav", subtype="FLOAT"):
        audio = scale * nw.noise(channels, n).numpy()
        soundfile.write(tmp_path / name, audio.T, rate, subtype=subtype)
        return tmp_path / name

    return write


@pytest.fixture
def seen(monkeypatch):
    """All samples that reach the engine, per call of the pipeline."""
    found = []

    def watch(method):
        def watched(self, audio):
            found.append(audio.clone())
            return method(self, audio)

        return watched

    for name in ("push", "flush"):
        monkeypatch.setattr(StreamEncoder, name, watch(getattr(StreamEncoder, name)))
    return found


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.01, 3.0])
def test_codebook_models_get_one_loudness(scale, seen):
    audio = scale * nw.noise(2, 20000).numpy()
    encoded = encode_audio(nw.shared("even"), audio, RATE)
    wanted = -16 - loudness(audio, RATE)
    assert abs(encoded.level.db - wanted) < LOUDNESS_DB
    reached = torch.cat(seen, -1)[:, 0].numpy()
    assert abs(loudness(reached, RATE) + 16) < LOUDNESS_DB
    np.testing.assert_allclose(reached, audio * 10 ** (encoded.level.db / 20), rtol=1e-5)


def test_the_gain_has_a_cap():
    """Near-silence is not raised into its noise; user demand 11."""
    quiet = 1e-5 * nw.noise(1, 20000).numpy()
    assert loudness(1e-3 * nw.noise(1, 20000).numpy(), RATE) > -70
    assert encode_audio(nw.shared("even"), 1e-3 * quiet / 1e-5, RATE).level.db == pytest.approx(40)
    assert encode_audio(nw.shared("even"), quiet, RATE).level.db in (0.0, 40.0)
    tone = np.sin(np.arange(160) * 0.3, dtype=np.float32)  # 10 ms
    encoded = encode_audio(nw.shared("even"), tone, RATE)
    assert np.isfinite(encoded.level.db)
    assert encoded.level.db <= 40


def test_silence_gets_no_gain(seen):
    encoded = encode_audio(nw.shared("even"), np.zeros((1, RATE), np.float32), RATE)
    assert encoded.level == Gain(0.0)
    assert torch.cat(seen, -1).eq(0).all()


@pytest.mark.parametrize("shape", nw.LATENTS)
def test_continuous_models_get_the_audio_as_it_is(shape, seen):
    model = nw.shared(shape)
    audio = 0.01 * nw.noise(model.config.audio_channels, 3000).numpy()
    encoded = encode_audio(model, audio, model.sample_rate)
    assert encoded.level == Gain(0.0)
    assert np.array_equal(torch.cat(seen, -1).reshape(audio.shape[0], -1)[:, :3000], audio)


def test_a_gain_of_ones_own(seen):
    model, audio = nw.shared("even"), nw.noise(1, 9000).numpy()
    assert encode_audio(model, audio, RATE, loudness=False).level == Gain(0.0)
    assert np.array_equal(torch.cat(seen, -1)[0].numpy(), audio)
    seen.clear()
    assert encode_audio(model, audio, RATE, gain_db=-6.5).level == Gain(-6.5)
    np.testing.assert_allclose(torch.cat(seen, -1)[0], audio * 10 ** (-6.5 / 20), rtol=1e-6)


def test_balance_of_the_channels_is_kept(seen):
    """Left 0 dB, right -20 dB, and a silent side that is not boosted; user demand 12."""
    left = nw.noise(20000).numpy()
    for right in (0.1 * left[::-1], np.zeros_like(left)):
        seen.clear()
        encode_audio(nw.shared("even"), np.stack([left, right]), RATE)
        reached = torch.cat(seen, -1)[:, 0].numpy()
        factor = reached[0] / left
        np.testing.assert_allclose(reached[1], right * factor[0], rtol=1e-5, atol=1e-9)
    assert (reached[1] == 0).all()


@pytest.mark.parametrize("rate", [RATE, 44100, 44056])
def test_the_chunk_changes_no_sample_that_reaches_the_engine(rate, wav, seen):
    """Bit-equal, whatever the tile, also through either resampler."""
    path = wav(n=rate * 3 // 2 + 7, channels=2, rate=rate)
    found, codes = [], []
    for tile in (None, 32 * 50, 32 * 77, 32 * 5000):
        seen.clear()
        codes.append(encode_file(nw.shared("even"), path, tile=tile).data)
        found.append(torch.cat(seen, -1))
    assert found[0].shape[-1] == (rate * 3 // 2 + 7) * RATE // rate
    for other in found[1:]:
        assert torch.equal(found[0], other)
    z = nw.shared("even").encode_z(found[0])
    sure = nw.sure(nw.gaps(nw.shared("even"), z), 1e-4).numpy()
    for other in codes[1:]:
        assert other.shape == codes[0].shape
        assert (other == codes[0])[sure].all()


def test_codes_are_those_of_the_tensors(wav, seen):
    model = nw.shared("even")
    encoded = encode_file(model, wav(channels=2))
    x = torch.cat(seen, -1)
    codes = model.encode(x).numpy()
    sure = nw.sure(nw.gaps(model, model.encode_z(x)), 1e-4).numpy()
    assert (encoded.data == codes)[sure].all()
    assert encoded.data.dtype == np.uint16
    assert encoded.frames == -(-9000 // 32)


def test_file_array_and_container_agree(wav, tmp_path):
    model = nw.shared("odd")
    path = wav(channels=2, rate=22050)
    whole = encode_file(model, path)
    audio, rate = soundfile.read(path, dtype="float32")
    from_array = encode_audio(model, audio.T, rate)
    summary = encode_file(model, path, tmp_path / "x.dacz")
    stored = read_encoded(tmp_path / "x.dacz")
    for other in (from_array, stored):
        assert np.array_equal(other.data, whole.data)
        assert (other.length, other.sample_rate, other.channels) == (9000, 22050, 2)
        assert other.level == whole.level
        assert other.model == model.stamp
        assert (other.model_rate, other.hop_length, other.codebook_size) == (24000, 40, 32)
        assert other.source_subtype == "FLOAT"
    assert summary.frames == whole.frames
    assert summary.gain_db == whole.level.db
    assert summary.seconds == pytest.approx(9000 / 22050)
    assert summary.file_bytes == (tmp_path / "x.dacz").stat().st_size
    assert summary.kbps == pytest.approx(8e-3 * summary.file_bytes / summary.seconds)
    assert (summary.source, summary.target) == (str(path), str(tmp_path / "x.dacz"))


def test_the_file_has_the_stated_size(wav, tmp_path):
    """At most the ideal + 512 bytes + 1 %; user demand 30."""
    model = nw.shared("even")
    summary = encode_file(model, wav(n=160_000), tmp_path / "x.dacz")
    ideal = 5000 * 4 * 5 // 8  # frames · codebooks · bits
    assert ideal <= summary.file_bytes <= 1.01 * ideal + 512


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_latents(dtype, wav, tmp_path):
    model = nw.shared("mova")
    path = wav(channels=2, rate=48000)
    encode_file(model, path, tmp_path / "x.dacz", latents_dtype=dtype)
    stored = read_encoded(tmp_path / "x.dacz")
    whole = encode_file(model, path)
    assert stored.data.dtype == dtype
    assert whole.data.dtype == np.float32
    assert np.array_equal(stored.data, whole.data.astype(dtype))
    assert stored.data.shape[1] == 5


def test_descripts_container(wav, tmp_path):
    model = nw.shared("even")
    path = wav(channels=2)
    summary = encode_file(model, path, tmp_path / "x.dac")
    stored = read_encoded(tmp_path / "x.dac")
    audio, _ = soundfile.read(path, dtype="float32")
    assert summary.gain_db is None
    assert isinstance(stored.level, Loudness)
    assert abs(stored.level.db - loudness(audio.T, RATE)) < LOUDNESS_DB
    same = encode_file(model, path).data  # no peak above 1 here: the same gain
    assert (stored.data == same).mean() > 0.999
    with pytest.raises(ContainerError, match=r"latents found; `\.dac` holds codes"):
        encode_file(nw.shared("mova"), path, tmp_path / "y.dac")
    for options in ({"gain_db": 3.0}, {"loudness": False}):
        with pytest.raises(ShapeError, match=r"`\.dac` has its own rule of level"):
            encode_file(model, path, tmp_path / "y.dac", **options)
    assert not (tmp_path / "y.dac").exists()


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("form", ["dacz", "dac"])
def test_less_than_a_sample_of_the_model(n, form, wav, tmp_path):
    """At 48 kHz, one or two samples are none at 16 kHz."""
    path = wav(n=n, rate=48000)
    encode_file(nw.shared("even"), path, tmp_path / f"x.{form}")
    stored = read_encoded(tmp_path / f"x.{form}")
    assert stored.length == n
    assert stored.frames >= 1


def test_the_path_is_the_one_given(wav, tmp_path):
    """User demand 33: no suffix is changed or added."""
    for name in ("out.v1", "mit Leerzeichen und ünïcödé 音.dacz", "-dash"):
        encode_file(nw.shared("even"), wav(), tmp_path / name, format="dacz")
        assert read_encoded(tmp_path / name).length == 9000


def listing(folder):
    return sorted(p.name for p in Path(folder).iterdir())


@pytest.mark.parametrize("form", ["dacz", "dac"])
def test_nothing_is_overwritten(form, wav, tmp_path):
    path, target = wav(), tmp_path / f"x.{form}"
    target.write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"exists already.*--force"):
        encode_file(nw.shared("even"), path, target)
    assert target.read_bytes() == b"mine"
    encode_file(nw.shared("even"), path, target, overwrite=True)
    assert read_encoded(target).length == 9000
    assert listing(tmp_path) == ["in.wav", f"x.{form}"]


class Interrupted(BaseException):
    """Ctrl-C, or whatever else ends a run."""


@pytest.mark.parametrize("error", [Interrupted, RuntimeError, MemoryError])
@pytest.mark.parametrize("form", ["dacz", "dac"])
def test_no_partial_file_where_the_network_fails(form, error, wav, tmp_path, monkeypatch):
    path = wav()
    push, calls = StreamEncoder.push, []

    def failing(self, audio):
        calls.append(1)
        if len(calls) > 3:
            raise error("boom")
        return push(self, audio)

    monkeypatch.setattr(StreamEncoder, "push", failing)
    with pytest.raises(error):
        encode_file(nw.shared("even"), path, tmp_path / f"x.{form}", tile=1024)
    assert listing(tmp_path) == ["in.wav"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize("form", ["dacz", "dac"])
def test_no_permission_to_write(form, number, wav, tmp_path, monkeypatch):
    """Root ignores modes, so the error is injected."""
    path, whole = wav(), Path.open

    def refusing(self, mode="r", *args, **kwargs):
        if "x" in mode or "w" in mode:
            raise OSError(number, "injected")
        return whole(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refusing)
    with pytest.raises(OutputError, match="cannot be written: injected; a folder with room"):
        encode_file(nw.shared("even"), path, tmp_path / f"x.{form}")
    assert listing(tmp_path) == ["in.wav"]


def test_a_disk_that_fills_up(wav, tmp_path, monkeypatch):
    import os

    def full(_fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = wav()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        encode_file(nw.shared("even"), path, tmp_path / "x.dacz")
    assert listing(tmp_path) == ["in.wav"]


@pytest.mark.parametrize("half", ["encoder", "quantizer"])
def test_what_is_not_a_number_is_never_coded(half, wav, tmp_path):
    """A network that overflows gives an error, not codes of nothing; user demand 45."""
    path = wav()
    for shape in ("even", "mova"):
        model = nw.build(shape)
        if half == "encoder":
            broken = model.encoder.block[0]
        elif shape == "even":
            broken = model.quantizer.quantizers[0].in_proj
        else:
            broken = model.quantizer.in_proj
        with torch.no_grad():
            broken.weight.fill_(float("inf"))
        model.to(torch.float32)
        with pytest.raises(AudioError, match="NaN or infinite"):
            encode_file(model, path, tmp_path / "x.dacz")
        with pytest.raises(AudioError, match="NaN or infinite"):
            encode_audio(model, nw.noise(1, 3000).numpy(), RATE)
    assert listing(tmp_path) == ["in.wav"]


def test_float16_that_overflows(wav):
    model = nw.build("even")
    with torch.no_grad():
        model.encoder.block[0].weight.mul_(1e6)
    model.to(torch.float16)
    with pytest.raises(AudioError, match="float32"):
        encode_file(model, wav())


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda m, p: encode_file(m, p / "nowhere.wav"), SourceError, "no readable file"),
        (lambda m, p: encode_file(m, str(p)), SourceError, "a folder or a device"),
        (lambda m, p: encode_file(m, p / "in.wav", p / "x.mp3"), UnknownContainerError, "'mp3'"),
        (lambda m, p: encode_file(m, p / "in.wav", p / "x"), UnknownContainerError, "dacz"),
        (lambda m, p: encode_file(m, p / "in.wav", p / "no" / "x.dacz"), OutputError, "No such"),
        (lambda m, p: encode_file(m, p / "in.wav", n_codebooks=5), ShapeError, "n_codebooks=5"),
        (lambda m, p: encode_file(m, p / "in.wav", n_codebooks=True), ShapeError, "True"),
        (lambda m, p: encode_file(m, p / "in.wav", gain_db=float("nan")), DacError, "(?i)nan"),
        (lambda m, p: encode_audio(m, np.zeros((9, 99), np.float32), 8000), AudioError, "9 chan"),
        (
            lambda m, p: encode_audio(m, np.zeros((1, 0), np.float32), 8000),
            AudioError,
            "no samples",
        ),
        (lambda m, p: encode_audio(m, np.zeros((1, 2, 9)), 8000), ShapeError, "a float array"),
        (lambda m, p: encode_audio(m, np.full(99, np.nan), 8000), AudioError, "NaN or infinity"),
        (lambda m, p: encode_audio(m, np.zeros(99), 0), AudioError, "0 Hz"),
        (lambda m, p: encode_audio(m, np.zeros(99, complex), 8000), ShapeError, "complex"),
    ],
)
def test_what_is_refused(call, error, match, wav, tmp_path):
    wav()
    with pytest.raises(error, match=match):
        call(nw.shared("even"), tmp_path)
    assert listing(tmp_path) == ["in.wav"]


def test_tensors_on_any_type_and_gradients(wav):
    """Tensors that require gradients, and other float types, are audio too."""
    model, audio = nw.shared("even"), nw.noise(1, 900)
    wanted = encode_audio(model, audio, RATE).data
    assert np.array_equal(
        encode_audio(model, audio.clone().requires_grad_(True), RATE).data, wanted
    )
    assert np.array_equal(encode_audio(model, audio.double().numpy(), RATE).data, wanted)
    assert encode_audio(model, audio.bfloat16(), RATE).data.shape == wanted.shape
    with pytest.raises(ShapeError, match=r"8000 Hz found; this model takes 16000 Hz.*encode_audio"):
        model.encode(audio[None], sample_rate=8000)
    assert model.encode(audio[None], sample_rate=RATE).shape == wanted.shape
