import dataclasses
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dac_rocm.container import PackedHeader, PackedReader, PackedWriter, header_of
from dac_rocm.container.packed_reader import read_packed
from dac_rocm.container.packed_writer import write_packed
from dac_rocm.encoded import EncodedAudio, Gain, Loudness, ModelStamp
from dac_rocm.errors import ChecksumError, ContainerError, ShapeError, TruncatedFileError

PRINTS = {"decoder": "00000000000000ff", "codebooks": "0123456789abcdef"}

# codes [[[1, 2, 3], [4, 5, 6]]] of a codebook of 8, in blocks of two frames
LITERAL = (
    b"\x89DACZ\r\n\x01"  # magic, version
    b"\x13\x01\x00\x00"  # bytes of JSON
    b'{"kind":"codes","model":"tiny","fingerprints":{"codebooks":"0123456789abcdef","decoder":'
    b'"00000000000000ff"},"model_rate":16000,"sample_rate":8000,"hop_length":320,"channels":1,'
    b'"rows":1,"block_frames":2,"codebooks":2,"codebook_size":8,"gain_db":-1.5,"source_subtype'
    b'":"PCM_16"}'
    b"\x38\x61\x18\x0b"  # header CRC
    b"\x31\x50"
    b"\xe5\xf7\xf4\x1c"  # 001 100 010 101 and zeros; CRC
    b"\x78"
    b"\xa3\x27\x9c\xa5"  # 011 110 and zeros; CRC
    b"DACZEND\n"
    b"\x03\x00\x00\x00\x00\x00\x00\x00"  # frames
    b"\xd6\x01\x00\x00\x00\x00\x00\x00"  # samples
    b"\xea\xb6\x64\xf4"  # CRC
)


def header(**changes):
    values = {
        "kind": "codes",
        "model_rate": 16000,
        "sample_rate": 8000,
        "hop_length": 320,
        "channels": 1,
        "rows": 1,
        "width": 2,
        "codebook_size": 8,
        "block_frames": 2,
        "gain_db": -1.5,
        "model": ModelStamp(name="tiny", fingerprints=PRINTS),
        "source_subtype": "PCM_16",
    }
    return PackedHeader(**{**values, **changes})


CODES = np.array([[[1, 2, 3], [4, 5, 6]]], np.uint16)


def written(data, head, length=0):
    file = io.BytesIO()
    writer = PackedWriter(file, head)
    writer.write(data)
    writer.close(length)
    return file.getvalue()


class Pipe(io.RawIOBase):
    """Gives at most `piece` bytes a read, and cannot be sought."""

    def __init__(self, data, piece=7):
        self.inner, self.piece = io.BytesIO(data), piece

    def read(self, size=-1):
        return self.inner.read(min(size, self.piece))

    def seekable(self):
        return False


def test_the_exact_file():
    assert written(CODES, header(), 470) == LITERAL


def test_the_exact_file_is_read():
    encoded = read_packed(io.BytesIO(LITERAL))
    np.testing.assert_array_equal(encoded.codes, CODES)
    assert encoded.codes.dtype == np.uint16
    assert (encoded.length, encoded.sample_rate, encoded.channels) == (470, 8000, 1)
    assert (encoded.model_rate, encoded.hop_length, encoded.codebook_size) == (16000, 320, 8)
    assert encoded.level == Gain(-1.5)
    assert encoded.model == ModelStamp(name="tiny", fingerprints=PRINTS)
    assert encoded.source_subtype == "PCM_16"


@st.composite
def recordings(draw):
    rows, width, frames = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(0, 60))
    seed = draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    if draw(st.booleans()):
        size = draw(st.integers(1, 65536))
        data = random.integers(0, size, (rows, width, frames)).astype(np.uint16)
        kind = {"kind": "codes", "codebook_size": size}
    else:
        dtype = draw(st.sampled_from(["float16", "float32"]))
        data = random.normal(size=(rows, width, frames)).astype(dtype)
        kind = {"kind": "latents", "codebook_size": None, "dtype": dtype}
    head = header(
        rows=rows, channels=rows, width=width, block_frames=draw(st.integers(0, 20)), **kind
    )
    return data, head


@given(recordings(), st.integers(1, 70))
@settings(max_examples=150, deadline=None)
def test_round_trip_in_any_pieces(recording, piece):
    data, head = recording
    file = io.BytesIO()
    writer = PackedWriter(file, head)
    for start in range(0, data.shape[-1], piece):
        writer.write(data[:, :, start : start + piece])
    writer.close(head.samples(data.shape[-1]))
    assert file.getvalue() == written(data, head, head.samples(data.shape[-1]))
    for source in (io.BytesIO(file.getvalue()), Pipe(file.getvalue())):
        reader = PackedReader(source)
        blocks = list(reader.blocks())
        assert reader.header == head
        assert (reader.frames, reader.length) == (data.shape[-1], head.samples(data.shape[-1]))
        for block in blocks[:-1]:
            assert block.shape[-1] == head.block_frames
        if blocks:
            joined = np.concatenate(blocks, axis=-1)
            assert joined.dtype == data.dtype
            np.testing.assert_array_equal(joined, data)


@given(recordings(), st.data())
@settings(max_examples=60, deadline=None)
def test_random_access_equals_a_slice(recording, draw):
    data, head = recording
    reader = PackedReader(io.BytesIO(written(data, head)))
    start = draw.draw(st.integers(0, data.shape[-1]))
    stop = draw.draw(st.integers(start, data.shape[-1]))
    np.testing.assert_array_equal(reader.read(start, stop), data[:, :, start:stop])


def test_random_access_reads_only_its_blocks():
    damaged = bytearray(LITERAL)
    damaged[-28 - 5] ^= 1  # the payload of the last block
    reader = PackedReader(io.BytesIO(damaged))
    np.testing.assert_array_equal(reader.read(0, 2), CODES[:, :, :2])
    with pytest.raises(ChecksumError, match=r"block 1 found \(0.04 s to 0.06 s\)"):
        reader.read(0, 3)


@pytest.mark.parametrize("frames", [(-1, 2), (2, 1), (0, 4)])
def test_random_access_stays_in_the_file(frames):
    with pytest.raises(ShapeError, match="0 to 3 are expected"):
        PackedReader(io.BytesIO(LITERAL)).read(*frames)


def test_blocks_arrive_while_the_stream_does():
    data = np.arange(40, dtype=np.uint16).reshape(1, 2, 20) % 8
    whole = written(data, header())
    pipe = Pipe(whole)
    reader = PackedReader(pipe)
    with pytest.raises(ContainerError, match="after its last block"):
        _ = reader.frames
    first = next(reader.blocks())
    np.testing.assert_array_equal(first, data[:, :, :2])
    assert pipe.inner.tell() < len(whole) - 28


@pytest.mark.parametrize("make", [io.BytesIO, Pipe])
def test_a_flipped_byte_loses_one_block(make):
    data = np.arange(20, dtype=np.uint16).reshape(1, 2, 10) % 8
    whole = written(data, header(), 1600)
    start = len(whole) - 28 - 5 * 6
    for position in range(start, len(whole) - 28):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        block = (position - start) // 6
        with pytest.raises(ChecksumError, match=f"block {block} "):
            list(PackedReader(make(bytes(damaged))).blocks())
        reader, lost = PackedReader(make(bytes(damaged))), []
        found = np.concatenate(list(reader.blocks(lost=lost)), axis=-1)
        expected = data.copy()
        expected[:, :, 2 * block : 2 * block + 2] = 0
        np.testing.assert_array_equal(found, expected)
        assert lost == [(block, 2 * block, 2 * block + 2)]
        assert reader.length == 1600


@pytest.mark.parametrize("make", [io.BytesIO, Pipe])
def test_salvage_of_a_file_cut_anywhere(make):
    data = np.arange(18, dtype=np.uint16).reshape(1, 2, 9) % 8
    whole = written(data, header(), 1440)
    start = len(whole) - 28 - 4 * 6 - 5
    for size in range(start, len(whole)):
        with pytest.raises(TruncatedFileError):
            list(PackedReader(make(whole[:size])).blocks())
        reader, lost = PackedReader(make(whole[:size])), []
        blocks = list(reader.blocks(lost=lost))
        frames = min((size - start) // 6 * 2, 8) + (size >= start + 29)
        assert reader.frames == frames == sum(block.shape[-1] for block in blocks)
        assert reader.length == frames * 160
        assert lost == [(-(-frames // 2), frames, None)]
        if blocks:
            np.testing.assert_array_equal(np.concatenate(blocks, -1), data[:, :, :frames])


def test_blocks_cannot_change_places():
    whole = bytearray(written(np.tile(CODES[:, :, :1], (1, 1, 4)), header()))
    blocks = len(whole) - 28 - 12
    whole[blocks : blocks + 12] = whole[blocks + 6 : blocks + 12] + whole[blocks : blocks + 6]
    with pytest.raises(ChecksumError, match="block 0"):
        read_packed(io.BytesIO(whole))


def test_truncation_at_every_byte_is_an_error():
    whole = LITERAL
    for size in range(len(whole)):
        with pytest.raises((TruncatedFileError, ChecksumError)):
            read_packed(io.BytesIO(whole[:size]))
        with pytest.raises((TruncatedFileError, ChecksumError)):
            _ = PackedReader(io.BytesIO(whole[:size])).frames


@pytest.mark.parametrize("bit", [0x01, 0x80, 0xFF])
def test_a_flip_of_every_byte_is_an_error(bit):
    whole = LITERAL
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= bit
        with pytest.raises(ContainerError):
            read_packed(io.BytesIO(damaged))


@given(recordings())
@settings(max_examples=60, deadline=None)
def test_size(recording):
    data, head = recording
    head = dataclasses.replace(head, block_frames=0)
    data = np.tile(data, (1, 1, 40))
    ideal = data.shape[-1] * head.frame_bits / 8
    assert len(written(data, head)) <= ideal * 1.01 + 512


def test_size_of_long_recordings():
    for rows, width, size, frames in [
        (1, 1, 2, 400_000),
        (1, 1, 1024, 90_000),
        (2, 9, 1024, 9_000),
    ]:
        head = header(rows=rows, channels=rows, width=width, codebook_size=size, block_frames=0)
        data = np.zeros((rows, width, frames), np.uint16)
        assert len(written(data, head)) <= frames * head.frame_bits / 8 * 1.01 + 512


@pytest.mark.parametrize(
    ("size", "bits"), [(1, 1), (2, 1), (3, 2), (1024, 10), (1025, 11), (65536, 16)]
)
def test_bits_of_a_code(size, bits):
    assert header(codebook_size=size).code_bits == bits


def encoded(**changes):
    values = {"sample_rate": 8000, "channels": 1, "length": 470, "model_rate": 16000}
    more = {"hop_length": 320, "codebook_size": 8, "data": CODES}
    return EncodedAudio(**{**values, **more, **changes})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"level": Loudness(-20.0)}, "encode it again"),
        ({"chunk_frames": 3}, "encode it again"),
        ({"length_at_model_rate": True}, "encode it again"),
        ({"model_rate": None}, "without model_rate found"),
        ({"hop_length": None}, "without hop_length found"),
        ({"codebook_size": None}, "without codebook_size found"),
        ({"data": CODES.astype(np.float64)}, "float16"),
        ({"channels": 2, "data": np.zeros((3, 1, 1), np.uint8)}, "rows 3"),
        ({"length": 500}, "0 to 480"),
        ({"length": -1}, "0 to 480"),
        ({"data": CODES + np.uint16(7)}, "codes 8 to 13 found; 0 to 7"),
        ({"data": np.full((1, 2, 3), np.nan, np.float32)}, "not finite"),
        ({"level": Gain(float("nan"))}, "gain_db"),
        ({"level": Gain(1e4)}, "gain_db"),
        ({"model": ModelStamp(name="a\x1b[2J")}, "model"),
        ({"model": ModelStamp(fingerprints={"encoder": "xyz"})}, "16 hex digits"),
        ({"model": ModelStamp(fingerprints={str(i): "0" * 16 for i in range(17)})}, "groups"),
        ({"source_subtype": "x" * 300}, "source_subtype"),
        ({"sample_rate": 0}, "sample_rate 0 found"),
    ],
)
def test_what_cannot_be_written(changes, match):
    with pytest.raises(ContainerError, match=match):
        write_packed(io.BytesIO(), encoded(**changes))


@pytest.mark.parametrize(
    "data", [CODES[0], np.zeros((2, 2, 1), np.uint16), CODES.astype(np.float32), CODES > 3]
)
def test_the_writer_refuses_other_shapes_and_kinds(data):
    with pytest.raises(ShapeError, match="as the header says"):
        PackedWriter(io.BytesIO(), header()).write(data)


def test_latents_that_do_not_fit_float16():
    head = header(kind="latents", codebook_size=None, dtype="float16")
    with pytest.raises(ContainerError, match="store float32"):
        PackedWriter(io.BytesIO(), head).write(np.full((1, 2, 1), 1e6, np.float32))


def test_stereo_models_have_one_row():
    assert header_of(encoded(channels=2)).rows == 1


def test_unknown_header_keys_are_ignored():
    end = LITERAL.index(b"}", LITERAL.index(b"PCM")) + 1
    text = LITERAL[12 : end - 1] + b',"later":[1,2]}'
    front = LITERAL[:8] + struct.pack("<I", len(text)) + text
    front += struct.pack("<I", zlib.crc32(front))
    np.testing.assert_array_equal(read_packed(io.BytesIO(front + LITERAL[end + 4 :])).codes, CODES)


def test_blocks_of_the_widest_latents_hold_one_frame():
    widest = {"rows": 64, "channels": 64, "width": 4096, "dtype": "float32"}
    assert header(kind="latents", block_frames=0, **widest).block_frames == 1
