"""Decoding: level, part, length, sample format, and files that appear whole."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import networks as nw
import numpy as np
import pytest
import soundfile
import torch
from kits import ROOTS
from tolerances import CUT, FLOAT32_LAW, PCM16

import dac_rocm
from dac_rocm.audio.loudness import loudness
from dac_rocm.container import read_encoded, write_encoded
from dac_rocm.encoded import EncodedAudio, Gain, Loudness
from dac_rocm.errors import (
    AudioError,
    ChecksumError,
    ContainerError,
    OutputError,
    ShapeError,
    SourceError,
    TruncatedFileError,
)
from dac_rocm.pipeline import decode_audio, decode_blocks, decode_file, encode_audio, encode_file
from dac_rocm.pipeline.stored import InMemory

DAC_FILES = Path(__file__).parents[1] / "data" / "descript_files"
EVEN = next(root / "descript" / "even" for root in ROOTS if (root / "descript").is_dir())


def read(path):
    audio, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return audio.T, rate


def recording(shape="even", rate=None, n=9000, channels=1, **options):
    """Noise, encoded in memory."""
    model = nw.shared(shape)
    audio = nw.noise(channels, n).numpy()
    return encode_audio(model, audio, rate or model.sample_rate, **options)


@pytest.fixture
def stored(tmp_path):
    """Write a recording, and return its path."""

    def write(name="x.dacz", **options):
        write_encoded(tmp_path / name, recording(**options), overwrite=True)
        return tmp_path / name

    return write


@pytest.mark.parametrize("db", [-20.0, 0.0, 31.5])
@pytest.mark.parametrize("shape", ["even", "oobleck"])
def test_the_gain_is_undone_exactly(shape, db):
    model = nw.shared(shape)
    encoded = recording(shape, channels=model.config.audio_channels, gain_db=db)
    audio, _ = decode_audio(model, encoded)
    raw, _ = decode_audio(model, replace(encoded, level=Gain(0.0)))
    np.testing.assert_allclose(audio, raw * np.float32(10 ** (-db / 20)), rtol=1e-6)
    wanted = model.decode(
        torch.from_numpy(encoded.data.astype(np.int64 if shape == "even" else "f4"))
    )
    wanted = wanted.reshape(audio.shape[0], -1)[:, : audio.shape[1]].numpy()
    assert np.abs(raw[:, : wanted.shape[1]] - wanted).max() <= FLOAT32_LAW


@pytest.mark.parametrize("loudness_db", [-30.0, -16.0])
def test_descripts_level_is_the_loudness_of_the_whole(loudness_db):
    """One gain for all channels, so that the balance of the reconstruction stays."""
    model = nw.shared("even")
    encoded = replace(recording(channels=2, n=16000), level=Loudness(loudness_db))
    audio, rate = decode_audio(model, encoded)
    assert loudness(audio, rate) == pytest.approx(loudness_db, abs=0.05)
    raw, _ = decode_audio(model, replace(encoded, level=Gain(0.0)))
    ratio = audio / raw
    assert np.nanmax(ratio) / np.nanmin(ratio) == pytest.approx(1, abs=1e-4)


def test_live_undoes_descripts_gain_instead():
    """What a stream can know: -16 LUFS was made of `db` before encoding."""
    model = nw.shared("even")
    encoded = replace(recording(), level=Loudness(-30.0))
    live = np.concatenate(list(decode_blocks(model, InMemory(encoded), live=True)), 1)
    raw, _ = decode_audio(model, replace(encoded, level=Gain(0.0)))
    np.testing.assert_allclose(live, raw * np.float32(10 ** (-14 / 20)), rtol=1e-5)


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44056, 44100, 48000])
@pytest.mark.parametrize("shape", ["even", "oobleck"])
def test_a_part_is_the_cut_of_the_whole(shape, rate, tmp_path):
    """Also through either resampler, at the start, in the middle and at the end."""
    model = nw.shared(shape)
    seconds = 60_000 / model.sample_rate  # beyond the margin of the resamplers
    n = int(seconds * rate)
    encoded = recording(shape, rate, n, model.config.audio_channels)
    write_encoded(tmp_path / "x.dacz", encoded)
    whole, _ = decode_audio(model, encoded)
    assert whole.shape[1] == n
    for start, stop in (
        (None, 0.05),
        (0.0, 0.3),
        (seconds / 2, seconds / 2 + 0.01),
        (0.7 * seconds, None),
        (seconds - 0.02, seconds),
        (seconds / 3, 99.0),
    ):
        decode_file(
            model,
            tmp_path / "x.dacz",
            tmp_path / "part.wav",
            start=start,
            stop=stop,
            subtype="float32",
            overwrite=True,
        )
        part, _ = read(tmp_path / "part.wav")
        first = round((start or 0) * rate)
        last = min(n, n if stop is None else round(stop * rate))
        assert part.shape[1] == last - first
        assert np.abs(part - whole[:, first:last]).max() <= CUT


@pytest.mark.parametrize("name", ["mono_whole.dac", "mono_chunked_nq2.dac", "stereo_whole.dac"])
def test_a_part_of_descripts_file(name, tmp_path):
    """The level is that of the whole; chunks are decoded as the contract says."""
    model = dac_rocm.load(EVEN / "weights.pth")
    path, options = DAC_FILES / name, {"subtype": "float32", "overwrite": True}
    decode_file(model, path, tmp_path / "whole.wav", **options)
    decode_file(model, path, tmp_path / "part.wav", start=0.2, stop=0.45, **options)
    whole, rate = read(tmp_path / "whole.wav")
    part, _ = read(tmp_path / "part.wav")
    assert whole.shape[1] == read_encoded(path).length
    assert np.abs(part - whole[:, round(0.2 * rate) : round(0.45 * rate)]).max() <= CUT


def test_parts_that_do_not_exist(stored, tmp_path):
    for options in ({"start": 9.0}, {"stop": 0.0}, {"start": 0.3, "stop": 0.2}, {"start": -1.0}):
        with pytest.raises(ShapeError, match=r"a part from .* found; a part within 0 to"):
            decode_file(nw.shared("even"), stored(), tmp_path / "x.wav", **options)
    with pytest.raises(ShapeError, match="a whole file is expected"):
        decode_file(nw.shared("even"), stored(), tmp_path / "x.wav", start=0.1, salvage=True)
    assert not (tmp_path / "x.wav").exists()


@pytest.mark.parametrize("shape", ["odd", "mova"])
def test_the_tile_changes_nothing(shape, stored, tmp_path):
    model = nw.shared(shape)
    path = stored(shape=shape, channels=2)
    found = []
    for tile in (None, 1, 17, 10_000):
        target = tmp_path / f"{tile}.wav"
        decode_file(model, path, target, subtype="float32", tile=tile)
        found.append(read(target)[0])
    decode_file(model, path, tmp_path / "m.wav", subtype="float32", max_memory=1 << 20)
    found.append(read(tmp_path / "m.wav")[0])
    found.append(decode_audio(model, read_encoded(path))[0])
    for other in found[1:]:
        assert np.abs(other - found[0]).max() <= FLOAT32_LAW


@pytest.mark.parametrize(
    ("source", "wanted", "written"),
    [
        ("PCM_16", "pcm16", "PCM_16"),
        ("PCM_U8", "pcm16", "PCM_16"),
        ("PCM_24", "pcm24", "PCM_24"),
        ("PCM_32", "pcm24", "PCM_24"),
        ("FLOAT", "float32", "FLOAT"),
        ("DOUBLE", "float32", "FLOAT"),
        ("VORBIS", "pcm16", "PCM_16"),
        (None, "pcm16", "PCM_16"),
    ],
)
def test_the_sample_format_is_that_of_the_source(source, wanted, written, tmp_path):
    encoded = replace(recording(n=900), source_subtype=source)
    write_encoded(tmp_path / "x.dacz", encoded)
    summary = decode_file(nw.shared("even"), tmp_path / "x.dacz", tmp_path / "x.wav")
    assert summary.subtype == wanted
    assert soundfile.info(tmp_path / "x.wav").subtype == written
    audio, _ = decode_audio(nw.shared("even"), encoded)
    step = {"pcm16": PCM16, "pcm24": PCM16 / 256, "float32": 0}[wanted]
    found, rate = read(tmp_path / "x.wav")
    assert np.abs(found - audio.clip(-1, 1 - step)).max() <= step / 2 + FLOAT32_LAW
    assert (summary.seconds, rate) == (900 / 16000, 16000)
    assert summary.peak == pytest.approx(np.abs(audio).max(), rel=1e-3)


def test_clipping_is_counted(stored, tmp_path):
    """Integers clip and say so; float32 keeps what is beyond full scale: user demand 40."""
    path = stored(gain_db=-20.0)
    model = nw.shared("even")
    audio, _ = decode_audio(model, read_encoded(path))
    beyond = int((np.abs(audio) > 1).sum())
    assert beyond > 100
    clipped = decode_file(model, path, tmp_path / "a.wav", subtype="pcm16")
    assert abs(clipped.clipped - beyond) <= 1
    assert np.abs(read(tmp_path / "a.wav")[0]).max() <= 1
    kept = decode_file(model, path, tmp_path / "b.wav", subtype="float32")
    assert kept.clipped == 0
    assert kept.peak == pytest.approx(np.abs(audio).max(), rel=1e-4)
    assert np.abs(read(tmp_path / "b.wav")[0]).max() == pytest.approx(kept.peak)


def test_flac(stored, tmp_path):
    path, model = stored(), nw.shared("even")
    summary = decode_file(model, path, tmp_path / "x.flac", subtype="pcm24")
    assert soundfile.info(tmp_path / "x.flac").subtype == "PCM_24"
    assert summary.subtype == "pcm24"
    for target, subtype in (("y.flac", "float32"), ("y.mp3", "pcm16"), ("y.wav", "pcm12")):
        with pytest.raises(AudioError, match="found"):
            decode_file(model, path, tmp_path / target, subtype=subtype)
    assert not list(tmp_path.glob("y.*"))


def listing(folder):
    return sorted(p.name for p in Path(folder).iterdir())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_a_number_is_never_written(value, stored, tmp_path):
    model = nw.build("even")
    path = stored()
    with torch.no_grad():
        model.decoder.model[0].weight.fill_(value)
    with pytest.raises(AudioError, match=r"NaN or infinite samples.*float32"):
        decode_file(model, path, tmp_path / "x.wav")
    with pytest.raises(AudioError, match="NaN or infinite samples"):
        decode_audio(model, recording())
    assert listing(tmp_path) == ["x.dacz"]


def test_another_model_is_refused(stored, tmp_path):
    path, other = stored(), nw.build("even", 1)
    with pytest.raises(ContainerError, match=r"'even-0'.*'even-1'.*--any-model"):
        decode_file(other, path, tmp_path / "x.wav")
    assert listing(tmp_path) == ["x.dacz"]
    decode_file(other, path, tmp_path / "x.wav", any_model=True)
    audio, _ = decode_audio(other, read_encoded(path), any_model=True)
    assert np.abs(audio - decode_audio(nw.shared("even"), read_encoded(path))[0]).max() > 0.01


def test_a_model_of_another_shape_is_refused_even_so(stored, tmp_path):
    for other, match in (("odd", "rate 16000"), ("mova", "decodes latents")):
        with pytest.raises(ContainerError, match=match):
            decode_file(nw.shared(other), stored(), tmp_path / "x.wav", any_model=True)


def damaged(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_salvage(stored, tmp_path):
    """One flipped byte: refused by name, and with salvage all other blocks as they were."""
    model = nw.shared("even")
    path = stored(n=96_000)
    whole, _ = decode_audio(model, read_encoded(path))
    from dac_rocm.container import PackedReader

    with path.open("rb") as file:
        reader = PackedReader(file)
        start, size = file.tell(), reader.header.block_size(reader.header.block_frames)
        frames = reader.header.block_frames
    damaged(path, start + size + 5)  # in the second block
    with pytest.raises(ChecksumError, match="1"):
        decode_file(model, path, tmp_path / "x.wav")
    assert listing(tmp_path) == ["x.dacz"]
    summary = decode_file(model, path, tmp_path / "x.wav", salvage=True, subtype="float32")
    assert [(b.block, b.start_frame, b.stop_frame) for b in summary.lost] == [
        (1, frames, 2 * frames)
    ]
    audio, _ = read(tmp_path / "x.wav")
    assert audio.shape == whole.shape
    reach = 20  # frames
    before, after = (frames - reach) * 32, (2 * frames + reach) * 32
    assert np.abs(audio[:, :before] - whole[:, :before]).max() <= CUT
    assert np.abs(audio[:, after:] - whole[:, after:]).max() <= CUT
    assert np.abs(audio - whole).max() > 0.01


def test_what_salvage_lost_is_silence(stored, tmp_path):
    """So it is documented: not whatever the network makes of code 0."""
    model, path = nw.shared("even"), stored(n=96_000)
    from dac_rocm.container import PackedReader

    with path.open("rb") as file:
        reader = PackedReader(file)
        start, size = file.tell(), reader.header.block_size(reader.header.block_frames)
        frames = reader.header.block_frames
    damaged(path, start + size + 5)
    decode_file(model, path, tmp_path / "x.wav", salvage=True, subtype="float32")
    audio, _ = read(tmp_path / "x.wav")
    lost = audio[:, (frames + 20) * 32 : (2 * frames - 20) * 32]
    assert np.abs(lost).max() == 0


def test_a_file_that_was_cut_short(stored, tmp_path):
    model, path = nw.shared("even"), stored(n=96_000)
    whole, _ = decode_audio(model, read_encoded(path))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    with pytest.raises(TruncatedFileError):
        decode_file(model, path, tmp_path / "x.wav")
    summary = decode_file(model, path, tmp_path / "x.wav", salvage=True, subtype="float32")
    assert summary.lost
    audio, _ = read(tmp_path / "x.wav")
    assert 0.3 * whole.shape[1] < audio.shape[1] < 0.65 * whole.shape[1]
    n = audio.shape[1] - 20 * 32
    assert np.abs(audio[:, :n] - whole[:, :n]).max() <= CUT


def test_nothing_is_overwritten(stored, tmp_path):
    path = stored()
    (tmp_path / "x.wav").write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists already"):
        decode_file(nw.shared("even"), path, tmp_path / "x.wav")
    assert (tmp_path / "x.wav").read_bytes() == b"mine"
    decode_file(nw.shared("even"), path, tmp_path / "x.wav", overwrite=True)
    assert soundfile.info(tmp_path / "x.wav").frames == 9000


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_no_permission_to_write(number, stored, tmp_path, monkeypatch):
    path, whole = stored(), Path.open

    def refusing(self, mode="r", *args, **kwargs):
        if "x" in mode or "w" in mode:
            raise OSError(number, "injected")
        return whole(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refusing)
    with pytest.raises(OutputError, match="cannot be written: injected"):
        decode_file(nw.shared("even"), path, tmp_path / "x.wav")
    assert listing(tmp_path) == ["x.dacz"]


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_no_partial_file_where_the_network_fails(suffix, stored, tmp_path, monkeypatch):
    from dac_rocm.streaming import StreamDecoder

    path, push, calls = stored(n=96_000), StreamDecoder.push, []

    def failing(self, data):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return push(self, data)

    monkeypatch.setattr(StreamDecoder, "push", failing)
    with pytest.raises(KeyboardInterrupt):
        decode_file(nw.shared("even"), path, tmp_path / f"x.{suffix}", subtype="pcm16")
    assert listing(tmp_path) == ["x.dacz"]


def test_sources_that_are_refused(tmp_path):
    model = nw.shared("even")
    (tmp_path / "text.dacz").write_text("no codes here")
    (tmp_path / "empty.dacz").write_bytes(b"")
    for name, error in (
        ("no.dacz", SourceError),
        ("", SourceError),
        ("text.dacz", ContainerError),
        ("empty.dacz", ContainerError),
    ):
        with pytest.raises(error):
            decode_file(model, tmp_path / name, tmp_path / "x.wav")
    assert not (tmp_path / "x.wav").exists()


def test_encoded_in_one_place_decoded_in_another(stored, tmp_path):
    """Memory, `.dacz` and a model that has only the decoder."""
    nw.build("even").save_pretrained(tmp_path / "model")
    decoder = dac_rocm.load(tmp_path / "model", parts="decoder")
    encoded = recording(rate=22050, channels=2)
    write_encoded(tmp_path / "y.dacz", encoded)
    decode_file(decoder, tmp_path / "y.dacz", tmp_path / "y.wav", subtype="float32")
    audio, rate = decode_audio(nw.shared("even"), encoded)
    assert rate == 22050
    assert np.abs(read(tmp_path / "y.wav")[0] - audio).max() <= FLOAT32_LAW


def test_dac_dacz_and_memory_agree(tmp_path):
    """The same recording by each way: the same audio, where the gain was the same."""
    model = nw.shared("even")
    soundfile.write(tmp_path / "in.wav", nw.noise(1, 16000).numpy().T, 16000, subtype="FLOAT")
    for form in ("dacz", "dac"):
        encode_file(model, tmp_path / "in.wav", tmp_path / f"x.{form}")
        decode_file(model, tmp_path / f"x.{form}", tmp_path / f"{form}.wav", subtype="float32")
    memory, _ = decode_audio(model, encode_file(model, tmp_path / "in.wav"))
    dacz, dac = read(tmp_path / "dacz.wav")[0], read(tmp_path / "dac.wav")[0]
    assert np.abs(dacz - memory).max() <= FLOAT32_LAW
    level = np.sqrt((dac**2).mean() / (dacz**2).mean())
    assert np.corrcoef(dac[0], dacz[0])[0, 1] > 0.999
    wanted = loudness(nw.noise(1, 16000).numpy(), 16000)
    assert loudness(dac, 16000) == pytest.approx(wanted, abs=0.1)
    assert np.isfinite(level)


def test_recordings_without_frames():
    encoded = recording()
    empty = EncodedAudio(
        data=encoded.data[..., :0],
        sample_rate=16000,
        channels=1,
        length=0,
        model_rate=16000,
        hop_length=32,
        codebook_size=32,
        model=encoded.model,
    )
    assert decode_audio(nw.shared("even"), empty)[0].shape == (1, 0)
