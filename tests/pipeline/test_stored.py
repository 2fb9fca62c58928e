"""Recordings as pieces: in memory, in a file, in a pipe."""

from __future__ import annotations

import io
import os
import threading

import networks as nw
import numpy as np
import pytest

from dac_rocm.container import PackedHeader, PackedWriter, write_encoded
from dac_rocm.encoded import EncodedAudio
from dac_rocm.errors import ContainerError, SourceError
from dac_rocm.pipeline import decode_audio, decode_blocks
from dac_rocm.pipeline.stored import PIECE, InMemory, Packed, opened, opened_stream

DATA = np.arange(1000 * 4, dtype=np.uint16).reshape(1, 4, 1000) % 32


def encoded(**changes):
    fields = {
        "data": DATA,
        "sample_rate": 16000,
        "channels": 1,
        "length": 32_000,
        "model_rate": 16000,
        "hop_length": 32,
        "codebook_size": 32,
        "model": nw.shared("even").stamp,
    }
    return EncodedAudio(**{**fields, **changes})


def joined(pieces):
    return np.concatenate(list(pieces), -1)


@pytest.fixture
def path(tmp_path):
    write_encoded(tmp_path / "x.dacz", encoded())
    return tmp_path / "x.dacz"


class Pipe(io.RawIOBase):
    """Bytes that cannot be sought, a few at a time."""

    def __init__(self, data):
        self.data = data

    def readable(self):
        return True

    def readinto(self, buffer):
        n = min(len(buffer), 777, len(self.data))
        buffer[:n], self.data = self.data[:n], self.data[n:]
        return n


def pipe(data):
    return io.BufferedReader(Pipe(data), 1024)


def test_in_memory():
    stored = InMemory(encoded())
    assert stored.end() == (1000, 32_000)
    assert [p.shape[-1] for p in stored.pieces(0, None)] == [PIECE] * 3 + [1000 - 3 * PIECE]
    assert np.array_equal(joined(stored.pieces(0, None)), DATA)
    assert np.array_equal(joined(stored.pieces(300, 700)), DATA[..., 300:700])
    chunked = InMemory(encoded(chunk_frames=250))
    assert [p.shape[-1] for p in chunked.pieces(0, None)] == [250] * 4


def test_a_file(path):
    with opened(path) as stored:
        assert stored.end() == (1000, 32_000)
        assert stored.about.frames == 0
        assert stored.about.model == nw.shared("even").stamp
        assert np.array_equal(joined(stored.pieces(0, None)), DATA)
        assert np.array_equal(joined(stored.pieces(123, 999)), DATA[..., 123:999])
        assert all(np.array_equal(p, DATA[..., 5:6]) for p in stored.pieces(5, 6))


def test_a_pipe(path):
    with opened_stream(pipe(path.read_bytes())) as stored:
        assert stored.end() is None
        assert np.array_equal(joined(stored.pieces(0, None)), DATA)
        assert stored.end() == (1000, 32_000)


def test_a_pipe_of_descripts(tmp_path):
    from dac_rocm.encoded import Loudness

    fields = {"model_rate": None, "hop_length": None, "codebook_size": None}
    write_encoded(tmp_path / "x.dac", encoded(level=Loudness(-20.0), **fields))
    with opened_stream(pipe((tmp_path / "x.dac").read_bytes())) as stored:
        assert stored.end() == (1000, 32_000)
        assert np.array_equal(joined(stored.pieces(0, None)), DATA)
    with opened(tmp_path / "x.dac") as stored:
        assert stored.about.level == Loudness(-20.0)


def test_what_cannot_be_opened(tmp_path):
    (tmp_path / "x").write_bytes(b"12345678" * 9)
    for call, error in (
        (lambda: opened(tmp_path / "no"), SourceError),
        (lambda: opened(tmp_path / "x"), ContainerError),
        (lambda: opened_stream(pipe(b"")), ContainerError),
        (lambda: opened_stream(pipe(b"RIFF" + bytes(99))), ContainerError),
    ):
        with pytest.raises(error), call():
            pass


def test_a_pipe_gives_the_audio_of_the_file(path):
    model = nw.shared("even")
    whole, _ = decode_audio(model, encoded())
    with opened_stream(pipe(path.read_bytes())) as stored:
        found = np.concatenate(list(decode_blocks(model, stored)), 1)
    assert found.shape == whole.shape
    assert np.abs(found - whole).max() <= 2e-5


def test_audio_starts_before_the_codes_end(tmp_path):
    """Write half of a file into a pipe: audio must come out before the rest is sent."""
    model = nw.shared("even")
    write_encoded(tmp_path / "x.dacz", encoded(data=np.tile(DATA, 10), length=320_000))
    data = (tmp_path / "x.dacz").read_bytes()
    read_end, write_end = os.pipe()
    heard = threading.Event()

    def feed():
        with os.fdopen(write_end, "wb", buffering=0) as file:
            file.write(data[: len(data) // 2])
            heard.wait(30)
            file.write(data[len(data) // 2 :])

    thread = threading.Thread(target=feed)
    thread.start()
    given = 0
    with os.fdopen(read_end, "rb") as file, opened_stream(file) as stored:
        for block in decode_blocks(model, stored):
            given += block.shape[1]
            if given > 100_000 and not heard.is_set():
                assert stored.end() is None
                heard.set()
    thread.join()
    assert heard.is_set()
    assert given == 320_000


def test_salvage_of_a_pipe(path):
    data = bytearray(path.read_bytes())
    data[-60] ^= 1  # in the last block
    lost = []
    with opened_stream(pipe(bytes(data)), lost) as stored:
        assert joined(stored.pieces(0, None)).shape == DATA.shape
        assert stored.end() == (1000, 32_000)
    assert len(lost) == 1


def test_a_length_that_the_frames_do_not_hold(tmp_path):
    header = PackedHeader(
        kind="codes",
        model_rate=16000,
        sample_rate=16000,
        hop_length=32,
        channels=1,
        rows=1,
        width=4,
        codebook_size=32,
    )
    with (tmp_path / "x").open("wb") as file:
        writer = PackedWriter(file, header)
        writer.write(DATA)
        with pytest.raises(ContainerError, match="a length of 40000 samples found"):
            writer.close(40_000)


def test_packed_says_what_it_knows(path):
    with path.open("rb") as file:
        assert Packed(file).end() == (1000, 32_000)
    with path.open("rb") as file:
        assert Packed(file, []).end() is None  # salvage: not before all is seen
