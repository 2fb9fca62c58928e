"""Audio from pipes: the same samples as libsndfile reads from the file."""

import io
import os
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dac_rocm.audio.files import read_audio
from dac_rocm.audio.stream import open_stream
from dac_rocm.errors import AudioError

ODD = Path(__file__).parents[1] / "data/audio_odd"
NOISE = np.random.default_rng(0).uniform(-0.9, 0.9, (1001, 3)).astype(np.float32)


class Pipe(io.RawIOBase):
    """Gives at most 7 bytes at once, as a slow pipe may, and cannot be sought."""

    def __init__(self, data):
        self._file = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self._file.read(min(7, len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def wav(subtype="PCM_16", audio=NOISE, form="WAV"):
    file = io.BytesIO()
    soundfile.write(file, audio, 16000, format=form, subtype=subtype)
    return file.getvalue()


def patched(data, size):
    """Return a WAV whose data chunk states another size."""
    at = data.index(b"data") + 4
    return data[:at] + struct.pack("<I", size) + data[at + 4 :]


def samples(reader, block=65536):
    return np.concatenate(list(reader.blocks(block)), axis=1)


@pytest.mark.parametrize("form", ["WAV", "WAVEX"])
@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_equals_libsndfile(subtype, form, tmp_path):
    data = wav(subtype, form=form)
    (tmp_path / "a.wav").write_bytes(data)
    reader = open_stream(io.BufferedReader(Pipe(data)))
    assert (reader.sample_rate, reader.channels, reader.length) == (16000, 3, 1001)
    assert reader.subtype == subtype
    assert np.array_equal(samples(reader, 64), read_audio(tmp_path / "a.wav")[0])


@pytest.mark.parametrize(
    "name",
    ["list_chunk_odd.wav", "data_then_trailer.wav", "fmt_18_bytes.wav", "data_size_ffffffff.wav"],
)
def test_odd_headers(name):
    with (ODD / name).open("rb") as file:
        assert np.array_equal(samples(open_stream(file)), read_audio(ODD / name)[0])


@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0x80000000, 0xFFFFFFFF])
def test_sizes_that_pipes_leave(size):
    reader = open_stream(io.BytesIO(patched(wav(), size)))
    assert reader.length is None
    assert samples(reader).shape == (3, 1001)


def test_a_real_pipe():
    read, write = os.pipe()
    data = wav(audio=np.tile(NOISE, (200, 1)))

    def feed():
        with os.fdopen(write, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(read, "rb") as file, open_stream(file) as reader:
        assert samples(reader).shape == (3, 200_200)
        assert not file.closed
    thread.join()


@pytest.mark.parametrize(
    "sample_format, dtype, scale",
    [("s16", "<i2", 2**15), ("s32", "<i4", 2**31), ("f32", "<f4", 1)],
)
def test_raw(sample_format, dtype, scale):
    data = (NOISE.astype(np.float64) * scale).astype(dtype)
    reader = open_stream(
        io.BytesIO(data.tobytes()), sample_rate=8000, channels=3, sample_format=sample_format
    )
    assert reader.length is None and reader.sample_rate == 8000
    assert np.array_equal(samples(reader), (data.T / scale).astype(np.float32))


def test_raw_24_bit():
    data = b"\xff\xff\x7f" + b"\x00\x00\x80" + b"\x01\x00\x00" + b"\xff\xff\xff"
    reader = open_stream(io.BytesIO(data), sample_rate=8000, channels=2, sample_format="s24")
    expected = np.array([[2**23 - 1, 1], [-(2**23), -1]]) / 2**23
    assert np.array_equal(samples(reader), expected)


def test_a_cut_sample_is_said():
    reader = open_stream(io.BytesIO(bytes(15)), sample_rate=8000, channels=2, sample_format="s24")
    with pytest.warns(UserWarning, match=r"3 of 6 bytes of the last sample in <stdin>"):
        assert samples(reader).shape == (2, 2)


def test_a_cut_stream_is_said():
    reader = open_stream(io.BytesIO(wav()[:-600]))
    with pytest.warns(UserWarning, match="901 of 1001 samples in <stdin>"):
        assert samples(reader).shape == (3, 901)


@pytest.mark.parametrize(
    "data, found",
    [
        (b"", "starts with b''"),
        (b"fLaC" + bytes(50), "starts with b'fLaC"),
        (wav()[:20], "ends early"),
        (wav()[:12] + b"data" + bytes(4), "ends early"),
        (wav()[:12] + b"LIST\xff\xff\xff\x7f", "ends early"),
        (wav("ULAW"), "format 0x7 with 8 bits"),
        (wav()[:22] + bytes(2) + wav()[24:], "0 channels"),
    ],
)
def test_broken_streams(data, found):
    with pytest.raises(AudioError, match=found):
        open_stream(io.BytesIO(data))


def test_no_samples():
    reader = open_stream(io.BytesIO(patched(wav(), 0)[:44]))
    with pytest.raises(AudioError, match="no samples in <stdin>"):
        list(reader.blocks())


def test_beyond_float32():
    reader = open_stream(io.BytesIO(wav("DOUBLE", np.array([0.0, 1e300]))))
    with pytest.raises(AudioError, match="sample 1 "):
        list(reader.blocks())


@pytest.mark.parametrize(
    "options",
    [
        {"sample_rate": 8000},
        {"channels": 1, "sample_format": "s16"},
        {"sample_rate": 8000, "channels": 1, "sample_format": "u8"},
    ],
)
def test_an_incomplete_description(options):
    with pytest.raises(AudioError, match="expected all three"):
        open_stream(io.BytesIO(bytes(8)), **options)
