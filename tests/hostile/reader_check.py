"""What must hold for any bytes that the readers of `.dac` and `.dacz` are given.

`scripts/fuzz` drives it with atheris, `test_fuzz_seeds` replays what was kept.
"""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np

from dac_rocm.container.dac import check_dac, read_dac
from dac_rocm.container.packed_bytes import CRC, END, MAGIC, MAX_HEADER_SIZE, PREFIX, read_header
from dac_rocm.container.packed_reader import LostBlock, PackedReader, read_packed
from dac_rocm.errors import ContainerError


def check(data: bytes) -> None:
    """Read in every way: a named error, or a value of consistent shape and range."""
    if not data.startswith(MAGIC):
        check_descript(data)
        return
    check_packed(data)
    check_packed(mended(data))


def check_descript(data: bytes) -> None:
    """`info` and the reader must agree."""
    try:
        about = check_dac(io.BytesIO(data))
    except ContainerError:
        return
    encoded = read_dac(io.BytesIO(data))
    assert encoded.data.shape == about.codes.shape
    assert encoded.data.dtype == np.uint16
    assert encoded.length == about.length > 0
    assert abs(encoded.level.db) <= 200


def check_packed(data: bytes) -> None:
    """At once, in order, at random and salvaged: all agree on a whole file."""
    try:
        whole = read_packed(io.BytesIO(data))
    except ContainerError:
        whole = None
    lost: list[LostBlock] = []
    try:
        reader = PackedReader(io.BytesIO(data))
        saved = list(reader.blocks(lost=lost))
    except ContainerError:
        assert whole is None
        return
    assert sum(block.shape[-1] for block in saved) == reader.frames
    assert (whole is not None) == (not lost)
    if whole is None:
        return
    check_value(reader, whole.data)
    part = PackedReader(io.BytesIO(data)).read(reader.frames // 2, reader.frames)
    np.testing.assert_array_equal(part, whole.data[..., reader.frames // 2 :])
    np.testing.assert_array_equal(np.concatenate([whole.data[..., :0], *saved], -1), whole.data)


def check_value(reader: PackedReader, data: np.ndarray) -> None:
    """Shape and range are what the header says."""
    header = reader.header
    assert data.shape == (header.rows, header.width, reader.frames)
    if header.is_codes:
        assert not data.size or data.max() < header.codebook_size
    else:
        assert np.isfinite(data).all()


def mended(data: bytes) -> bytes:
    """Make all checksums fit, which no fuzzer guesses, so that what lies behind them is reached."""
    if len(data) < PREFIX.size:
        return data
    size = PREFIX.unpack_from(data)[2]
    start = PREFIX.size + size + CRC.size
    if size > MAX_HEADER_SIZE or len(data) < start + END.size:
        return data
    front = _sealed(data[: start - CRC.size])
    try:
        header = read_header(io.BytesIO(front))
    except ContainerError:
        return front + data[start:]
    body, step, blocks = data[start : -END.size], header.block_size(header.block_frames), b""
    for index, first in enumerate(range(0, len(body), step)):
        block = body[first : min(first + step, len(body)) - CRC.size]
        blocks += block + CRC.pack(zlib.crc32(block, zlib.crc32(struct.pack("<I", index))))
    return front + blocks + _sealed(data[-END.size : -CRC.size])


def _sealed(data: bytes) -> bytes:
    return data + CRC.pack(zlib.crc32(data))
