"""Files that want to run code, to eat memory, or to hang: each ends in a named error."""

import io
import json
import os
import pickle
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dac_rocm.container import PackedReader, read_encoded, read_info
from dac_rocm.container.dac import read_dac
from dac_rocm.container.packed_reader import read_packed
from dac_rocm.errors import (
    ChecksumError,
    ContainerError,
    TruncatedFileError,
    UnsafeFileError,
    UnsupportedVersionError,
)

DATA = Path(__file__).parents[1] / "data" / "descript_files"
MEMORY = 64 << 20
FIELDS = {
    "kind": "codes",
    "model_rate": 16000,
    "sample_rate": 8000,
    "hop_length": 320,
    "channels": 1,
    "rows": 1,
    "block_frames": 2,
    "codebooks": 2,
    "codebook_size": 5,
    "gain_db": 0.0,
}


def dacz(fields=FIELDS, payloads=(b"\x01\x00",), frames=2, length=320, version=1):
    text = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    front = b"\x89DACZ\r\n" + struct.pack("<BI", version, len(text)) + text
    front += struct.pack("<I", zlib.crc32(front))
    for index, payload in enumerate(payloads):
        crc = zlib.crc32(struct.pack("<I", index) + payload)
        front += payload + struct.pack("<I", crc)
    end = b"DACZEND\n" + struct.pack("<QQ", frames, length)
    return front + end + struct.pack("<I", zlib.crc32(end))


def error_of(reader):
    try:
        reader()
    except ContainerError as error:
        return error
    return None


def read_all_ways(data):
    """Read at once, block by block with salvage, and at random; return the errors."""
    readers = (
        lambda: read_packed(io.BytesIO(data)),
        lambda: list(PackedReader(io.BytesIO(data)).blocks(lost=[])),
        lambda: PackedReader(io.BytesIO(data)).read(0, 1),
    )
    return [error for error in map(error_of, readers) if error]


def peak(function, *arguments):
    tracemalloc.start()
    try:
        function(*arguments)
    finally:
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return used


def test_the_builder_makes_good_files():
    assert read_packed(io.BytesIO(dacz())).codes.tolist() == [[[0, 2], [0, 0]]]
    assert not read_all_ways(dacz())


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"kind": "video", "width": 1, "dtype": "float32"}, "kind 'video'"),
        ({"kind": ["codes"]}, "codebooks|width|kind"),
        ({"kind": "latents", "width": 2, "dtype": "float64"}, "dtype 'float64'"),
        ({"kind": "latents", "width": 2, "dtype": ["float16"]}, "dtype list"),
        ({"kind": "latents"}, "without width, dtype"),
        ({"model_rate": 0}, "model_rate 0"),
        ({"model_rate": 16000.0}, "model_rate 16000.0"),
        ({"sample_rate": True}, "sample_rate bool"),
        ({"hop_length": 1 << 40}, "hop_length 1099511627776"),
        ({"hop_length": 10**400}, "hop_length int"),
        ({"channels": 65}, "channels 65"),
        ({"rows": 3}, "rows 3"),
        ({"rows": -1}, "rows -1"),
        ({"codebooks": 1 << 20}, "codebooks 1048576"),
        ({"codebook_size": 65537}, "codebook_size 65537"),
        ({"codebook_size": None}, "codebook_size None"),
        ({"block_frames": 1 << 30}, "block_frames 1073741824"),
        ({"block_frames": 65536, "codebooks": 4096}, "a block of 1048576 bytes"),
        ({"gain_db": float("nan")}, "gain_db nan"),
        ({"gain_db": float("inf")}, "gain_db inf"),
        ({"gain_db": 1e300}, "gain_db 1e"),
        ({"gain_db": "loud"}, "gain_db 'loud'"),
        ({"gain_db": False}, "gain_db bool"),
        ({"model": 7}, "model 7"),
        ({"model": "\x1b[2J"}, "model"),
        ({"fingerprints": [1]}, "fingerprints list"),
        ({"fingerprints": {"a": 7}}, "16 hex digits"),
        ({"source_subtype": {}}, "source_subtype dict"),
    ],
)
def test_hostile_headers(changes, match):
    fields = {**FIELDS, **changes}
    with pytest.raises(ContainerError, match=match):
        read_packed(io.BytesIO(dacz(fields)))


@pytest.mark.parametrize("name", FIELDS)
def test_missing_fields(name):
    with pytest.raises(ContainerError, match="without"):
        read_packed(io.BytesIO(dacz({key: FIELDS[key] for key in FIELDS if key != name})))


@pytest.mark.parametrize(
    "text", [b"", b"[1]", b"\xff", b"{", b"[" * 16_000, b'{"a":' * 3000, b"9" * 10_000]
)
def test_hostile_json(text):
    with pytest.raises(ContainerError, match="JSON"):
        read_packed(io.BytesIO(dacz(text)))


@pytest.mark.parametrize(
    ("data", "error", "match"),
    [
        (dacz(version=2), UnsupportedVersionError, "version 2"),
        (dacz()[:8] + b"\xff\xff\xff\xff", ContainerError, "4294967295 bytes"),
        (b"\x89DACZ\n\r" + dacz()[7:], ContainerError, "magic"),
        (dacz(frames=1 << 40), TruncatedFileError, "1099511627776 frames"),
        (dacz(frames=(1 << 64) - 1), TruncatedFileError, "18446744073709551615 frames"),
        (dacz(frames=0), TruncatedFileError, "0 frames"),
        (dacz(frames=0, length=0), TruncatedFileError, "0 frames"),
        (dacz(length=1 << 60), ContainerError, "0 to 320 is expected"),
        (dacz(payloads=[b"\xff\xff"]), ContainerError, "codes 7 to 7 found; 0 to 4"),
        (dacz(payloads=[b"\x00\x00"] * 2), TruncatedFileError, "declared"),
        (dacz() + b"\x00", TruncatedFileError, "without an end record"),
    ],
)
def test_hostile_bodies(data, error, match):
    with pytest.raises(error, match=match):
        read_packed(io.BytesIO(data))
    read_all_ways(data)


def test_latents_that_are_not_finite():
    fields = {**FIELDS, "kind": "latents", "width": 1, "dtype": "float32"}
    data = dacz(fields, [struct.pack("<ff", 1.0, float("inf"))])
    with pytest.raises(ContainerError, match="not finite"):
        read_packed(io.BytesIO(data))


def test_damaged_end_record():
    data = bytearray(dacz())
    data[-6] ^= 1
    with pytest.raises(ChecksumError, match="end record"):
        read_packed(io.BytesIO(data))


@pytest.mark.parametrize(
    "data",
    [
        dacz(frames=1 << 40),
        dacz({**FIELDS, "block_frames": 65536, "codebook_size": 2, "codebooks": 128}),
        dacz({**FIELDS, "codebooks": 1 << 40}),
        dacz(b"[" * 16_000),
        dacz(
            {**FIELDS, "block_frames": 65536, "codebook_size": 2, "codebooks": 128},
            [bytes(1 << 20)],
            65536,
        ),
    ],
)
def test_memory_of_hostile_dacz(data):
    assert peak(read_all_ways, data) < MEMORY


NPY = (DATA / "mono_whole_numpy1.dac").read_bytes()[:128]
TUPLE_BOMB = b")" + b"q\x00h\x00\x86" * 2000 + b"."
PICKLES = {
    "deep": b"]" + b"\x85" * 4000 + b".",
    "wide": TUPLE_BOMB,
    "key": b"}" + b")" + b"\x85" * 3000 + b"K\x01s.",
    "lists": b"]" * 200_000 + b".",
    "memo": b"Nr\xff\xff\xff\xff.",
    "bytes": b"B\xff\xff\xff\xff",
    "bytes8": b"\x8e" + b"\xff" * 7 + b"\x7f",
    "bytearray": b"\x96" + b"\xff" * 7 + b"\x7f",
    "long": b"\x8b\xff\xff\xff\x7f",
    "frame": b"\x95" + b"\xff" * 8,
    "digits": b"I" + b"9" * 100_000 + b"\n.",
    "text": b"\x8d" + b"\xff" * 7 + b"\x7f",
    "storages": b"ctorch.storage\n_load_from_bytes\nC\x04abcd\x85R.",
    "dicts": b"ccollections\nOrderedDict\n)R" * 5000 + b".",
    "build": b"cnumpy\ndtype\nN\x85R(K\x03]tbb.",
    "persistent": b"K\x01Q.",
    "tag": b"X\x01\x00\x00\x00aP1\n.",
    "self": b"]q\x00h\x00a.",
    "empty": b"",
    "zero": bytes(1000),
}


@pytest.mark.parametrize("name", PICKLES)
def test_hostile_pickles(name):
    def attack():
        with pytest.raises(ContainerError, match="found"):
            read_dac(io.BytesIO(NPY + b"\x80\x03" + PICKLES[name]))

    assert peak(attack) < MEMORY


class Attack:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


class Setter(Attack):
    def __reduce__(self):
        return exec, (f"open({self.path!r}, 'w').close()",)


@pytest.mark.parametrize("attack", [Attack, Setter])
@pytest.mark.parametrize("place", ["content", "codes", "input_db", "key"])
def test_nothing_is_run(tmp_path, attack, place):
    marker, path = tmp_path / "marker", tmp_path / "a.dac"
    payload = attack(marker)
    content = {
        "content": payload,
        "codes": {"codes": payload, "metadata": {}},
        "input_db": {"codes": np.zeros((1, 1, 1), np.uint16), "metadata": {"input_db": payload}},
        "key": {"codes": 1, payload: 1},
    }[place]
    with path.open("wb") as file:
        np.save(file, np.array(content, dtype=object), allow_pickle=True)
    for reader in (read_encoded, read_info):
        with pytest.raises(UnsafeFileError, match="Nothing of it was run"):
            reader(path)
    assert not marker.exists()
    np.load(path, allow_pickle=True)  # the attack is real
    assert marker.exists()


def test_nothing_is_run_inside_a_torch_storage(tmp_path):
    inner = pickle.dumps(Attack(tmp_path / "marker"), 2)
    outer = b"\x80\x03ctorch.storage\n_load_from_bytes\n" + pickle.dumps((inner,), 3)[2:-1] + b"R."
    with pytest.raises(UnsafeFileError, match="system"):
        read_dac(io.BytesIO(NPY + outer))
    assert list(tmp_path.iterdir()) == []


def assert_sane(data):
    """A named error, or a recording of consistent shape and range."""
    try:
        encoded = read_dac(io.BytesIO(data))
    except ContainerError:
        return
    assert encoded.codes.dtype == np.uint16
    assert encoded.codes.shape[0] == encoded.channels
    assert 1 <= encoded.length <= encoded.frames << 20
    assert 1 <= encoded.sample_rate <= 768_000
    assert abs(encoded.level.db) <= 200
    assert encoded.frames % (encoded.chunk_frames or 1) == 0


SMALL = [DATA / "mono_chunked_nq2.dac", DATA / "old_mono.dac"]


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_a_dac_cut_at_every_byte(path):
    whole = path.read_bytes()
    for size in range(len(whole)):
        with pytest.raises(ContainerError):
            read_dac(io.BytesIO(whole[:size]))


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
@pytest.mark.parametrize("bit", [0x01, 0xFF])
def test_a_dac_with_every_byte_flipped(path, bit):
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= bit
        assert_sane(bytes(damaged))


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_random_bytes(data):
    assert_sane(NPY + data)
    assert_sane(NPY + b"\x80\x03" + data)
    with pytest.raises(ContainerError):
        read_packed(io.BytesIO(data))
    read_all_ways(dacz(data))
