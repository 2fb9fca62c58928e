"""The header of a WAV file, read from a pipe or written to a pipe or a file.

Files are read by libsndfile, not here. This file must not touch samples.
"""

import struct
from typing import BinaryIO, NamedTuple

from dac_rocm.audio.pcm import FORMATS
from dac_rocm.errors import AudioError

UNKNOWN = 0xFFFFFFFF
"""A size that is not known while it is written."""

UNKNOWN_FROM = 0x7FFF0000
"""Bytes. A size from here on was written to a pipe: 0x7FFFF000, 0x80000000, 0xFFFFFFFF."""

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
"""What follows the format tag in the sub-format of an extensible header."""

_TAGS = {
    (_PCM, 8): "u8",
    (_PCM, 16): "s16",
    (_PCM, 24): "s24",
    (_PCM, 32): "s32",
    (_FLOAT, 32): "f32",
    (_FLOAT, 64): "f64",
}
_SKIP = 65536


class WavHeader(NamedTuple):
    """What a header says; `length` in samples per channel, None where it was not known."""

    sample_rate: int
    channels: int
    sample_format: str
    length: int | None


def read_header(file: BinaryIO, name: str) -> WavHeader:
    """Read up to the first sample of a WAV stream that cannot be sought.

    Raises:
        AudioError: Another format, an encoding that is neither PCM nor float, or a broken header.
    """
    start = file.read(12)
    if start[:4] != b"RIFF" or start[8:] != b"WAVE":
        raise _unreadable(name, f"a stream that starts with {start!r}")
    fmt = None
    while True:
        kind, size = struct.unpack("<4sI", _exactly(file, 8, name))
        if kind == b"data" and fmt is not None:
            return _parse(fmt, size, name)
        if kind == b"fmt " and 16 <= size <= _SKIP:
            fmt = _exactly(file, size + size % 2, name)
        else:
            _skip(file, size + size % 2, name)


def _parse(fmt: bytes, data_size: int, name: str) -> WavHeader:
    tag, channels, sample_rate, _, _, bits = struct.unpack_from("<HHIIHH", fmt)
    if tag == _EXTENSIBLE and len(fmt) >= 26:
        (tag,) = struct.unpack_from("<H", fmt, 24)
    if (tag, bits) not in _TAGS:
        raise _unreadable(name, f"WAV of format {tag:#x} with {bits} bits a sample")
    if channels == 0:
        raise _unreadable(name, "WAV of 0 channels")
    sample_format = _TAGS[tag, bits]
    known = 0 < data_size < UNKNOWN_FROM
    length = data_size // (channels * FORMATS[sample_format].size) if known else None
    return WavHeader(sample_rate, channels, sample_format, length)


def _exactly(file: BinaryIO, size: int, name: str) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise _unreadable(name, "a WAV header that ends early")
    return data


def _skip(file: BinaryIO, size: int, name: str) -> None:
    while size > 0:
        size -= len(_exactly(file, min(size, _SKIP), name))


def _unreadable(name: str, found: str) -> AudioError:
    return AudioError(
        f"found {found} in {name}; expected WAV with integer or float samples; convert it, give it "
        "as a file, or state rate, channels and sample format of raw samples"
    )


def make_header(header: WavHeader) -> bytes:
    """Return all bytes before the samples, the same number for every length but None.

    Room is kept for 64-bit sizes: beyond 4 GiB the header becomes that of an RF64 file.

    Source: EBU Tech 3306 version 1.1; Microsoft, Multiple channel audio data and WAVE files.
    """
    kind = FORMATS[header.sample_format]
    chunks = _chunk(b"fmt ", _fmt(header))
    if kind.bits == 0:
        length = UNKNOWN if header.length is None else min(header.length, UNKNOWN)
        chunks += _chunk(b"fact", struct.pack("<I", length))
    if header.length is None:
        sizes = struct.pack("<I", UNKNOWN)
        return b"RIFF" + sizes + b"WAVE" + chunks + b"data" + sizes
    data = header.length * kind.size * header.channels
    riff = 4 + 36 + len(chunks) + 8 + data + data % 2
    if riff < UNKNOWN:
        start = b"RIFF" + struct.pack("<I", riff) + b"WAVE" + _chunk(b"JUNK", bytes(28))
    else:
        ds64 = struct.pack("<QQQI", riff, data, header.length, 0)
        start = b"RF64" + struct.pack("<I", UNKNOWN) + b"WAVE" + _chunk(b"ds64", ds64)
    return start + chunks + b"data" + struct.pack("<I", data if riff < UNKNOWN else UNKNOWN)


def _chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body


def _fmt(header: WavHeader) -> bytes:
    """Return the body of the `fmt ` chunk, extensible above 2 channels."""
    kind = FORMATS[header.sample_format]
    tag = _PCM if kind.bits else _FLOAT
    align = kind.size * header.channels
    rates = header.sample_rate, header.sample_rate * align, align, 8 * kind.size
    if header.channels <= 2:
        return struct.pack("<HHIIHH", tag, header.channels, *rates)
    plain = struct.pack("<HHIIHH", _EXTENSIBLE, header.channels, *rates)
    any_speakers = 0
    return plain + struct.pack("<HHIH", 22, 8 * kind.size, any_speakers, tag) + _GUID_TAIL
