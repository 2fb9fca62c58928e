"""The front and the end of a `.dacz` file as bytes. The layout is in `docs/dacz.md`.

This file must not touch codes or latents, and must not import numpy.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from dac_rocm.container.packed_header import RANGES, PackedHeader
from dac_rocm.encoded import ModelStamp
from dac_rocm.errors import (
    ChecksumError,
    ContainerError,
    TruncatedFileError,
    UnsupportedVersionError,
)

MAGIC = b"\x89DACZ\r\n"  # not ASCII, and broken by any change of line ends, as in PNG
END_MAGIC = b"DACZEND\n"
VERSION = 1
PREFIX = struct.Struct("<7sBI")  # magic, version, bytes of JSON
CRC = struct.Struct("<I")
END = struct.Struct("<8sQQI")  # magic, frames, samples, CRC of the 24 bytes before

MAX_HEADER_SIZE = 16_384  # a real one has about 400 bytes


class EndRecord(NamedTuple):
    """What is only known at the end: frames, and samples per channel at `sample_rate`."""

    frames: int
    length: int


def pack_header(header: PackedHeader) -> bytes:
    """The bytes of a file before its first block."""
    shape: dict[str, Any] = {"width": header.width, "dtype": header.dtype}
    if header.is_codes:
        shape = {"codebooks": header.width, "codebook_size": header.codebook_size}
    fields = {
        "kind": header.kind,
        "model": header.model.name,
        "fingerprints": dict(sorted(header.model.fingerprints.items())),
        **{name: getattr(header, name) for name in RANGES},
        **shape,
        "gain_db": header.gain_db,
        "source_subtype": header.source_subtype,
    }
    text = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()
    front = PREFIX.pack(MAGIC, VERSION, len(text)) + text
    return front + CRC.pack(zlib.crc32(front))


def read_header(file: BinaryIO) -> PackedHeader:
    """Read the front of a `.dacz` file, and leave `file` at its first block.

    Raises:
        ContainerError: Not a header, or one with missing, wrong or excessive values.
        UnsupportedVersionError: Another version than 1.
        TruncatedFileError: The file ends within it.
        ChecksumError: Its bytes are not those that were written.
    """
    prefix = _read_all(file, PREFIX.size)
    magic, version, size = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise ContainerError("another magic number found; a `.dacz` file is expected. Check it.")
    if version != VERSION:
        raise UnsupportedVersionError(
            f"`.dacz` version {version} found; {VERSION} is expected. Update dac_rocm."
        )
    if size > MAX_HEADER_SIZE:
        raise ContainerError(
            f"a header of {size} bytes found; at most {MAX_HEADER_SIZE} are expected. "
            "The file is damaged or hostile: fetch it again."
        )
    text = _read_all(file, size)
    if _read_all(file, CRC.size) != CRC.pack(zlib.crc32(prefix + text)):
        raise ChecksumError(
            "a damaged header found; bytes that match their checksum are expected. Fetch the file "
            "again: without its header nothing of it can be read."
        )
    return _header_from(_parse(text))


def pack_end(end: EndRecord) -> bytes:
    """The last bytes of a file."""
    record = END.pack(END_MAGIC, end.frames, end.length, 0)[: -CRC.size]
    return record + CRC.pack(zlib.crc32(record))


def unpack_end(data: bytes) -> EndRecord:
    """Read the last bytes of a file.

    Raises:
        TruncatedFileError: They are not an end record.
        ChecksumError: They are a damaged one.
    """
    if len(data) != END.size or not data.startswith(END_MAGIC):
        raise TruncatedFileError(
            "a file without an end record found; 28 bytes that close it are expected. It was cut "
            "short: fetch it again, or decode what is there with `--salvage`."
        )
    _, frames, length, crc = END.unpack(data)
    if crc != zlib.crc32(data[: -CRC.size]):
        raise ChecksumError(
            "a damaged end record found; bytes that match their checksum are expected. Fetch the "
            "file again, or decode what is there with `--salvage`."
        )
    return EndRecord(frames, length)


def read_up_to(file: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer only where the stream ends; pipes may give them in pieces."""
    pieces = []
    while size > 0 and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _read_all(file: BinaryIO, size: int) -> bytes:
    data = read_up_to(file, size)
    if len(data) < size:
        raise TruncatedFileError(
            f"{len(data)} bytes found in the header where {size} are expected: the file ends too "
            "early. Fetch it again."
        )
    return data


def _parse(text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise ContainerError(
            "a header that is no JSON found; one JSON object is expected. The writer is at fault."
        ) from error
    if not isinstance(fields, dict):
        raise ContainerError(
            f"a header of type {type(fields).__name__} found; one JSON object is expected. "
            "The writer is at fault."
        )
    return fields


def _header_from(fields: Mapping[str, Any]) -> PackedHeader:
    is_codes = fields.get("kind") == "codes"
    shape = ("codebooks", "codebook_size") if is_codes else ("width", "dtype")
    needed = ("kind", *RANGES, *shape, "gain_db")
    if missing := [name for name in needed if name not in fields]:
        raise ContainerError(
            f"a header without {', '.join(missing)} found; all of them are expected. "
            "The writer is at fault: encode the recording again."
        )
    model = ModelStamp(name=fields.get("model", ""), fingerprints=fields.get("fingerprints", {}))
    return PackedHeader(
        kind=fields["kind"],
        model=model,
        width=fields[shape[0]],
        gain_db=fields["gain_db"],
        source_subtype=fields.get("source_subtype"),
        **{shape[1]: fields[shape[1]]},
        **{name: fields[name] for name in RANGES},
    )
