"""One block of a `.dacz` file as bytes and as an array. The layout is in `docs/dacz.md`.

This file must not open, seek or read anything.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

from dac_rocm.container.bits import pack, unpack
from dac_rocm.container.packed_bytes import CRC
from dac_rocm.container.packed_header import PackedHeader
from dac_rocm.errors import ChecksumError, ContainerError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pack_block(header: PackedHeader, index: int, data: NDArray[Any]) -> bytes:
    """Write one block: frame by frame, row by row, codebook by codebook, then the CRC.

    Args:
        header: What the file says about its blocks.
        index: Number of the block, which its CRC covers, so that no block can take another's place.
        data: [rows, N, f] uint16 codes or [rows, D, f] latents of the header's dtype.

    Returns:
        `header.block_size(f)` bytes.
    """
    frames = data.transpose(2, 0, 1)
    if header.is_codes:
        payload = pack(frames, header.code_bits)
    else:
        payload = frames.astype(frames.dtype.newbyteorder("<")).tobytes()
    return payload + CRC.pack(_block_crc(index, payload))


def unpack_block(header: PackedHeader, index: int, block: bytes, count: int) -> NDArray[Any]:
    """Read one block of `count` frames.

    Returns:
        [rows, N, count] uint16 codes or [rows, D, count] latents.

    Raises:
        ChecksumError: The block is damaged.
        ContainerError: Codes beyond the codebook, or latents that are not finite.
    """
    import numpy as np

    payload = block[: -CRC.size]
    if block[-CRC.size :] != CRC.pack(_block_crc(index, payload)):
        start = index * header.block_frames
        times = f"{header.seconds(start):.2f} s to {header.seconds(start + count):.2f} s"
        raise ChecksumError(
            f"damaged block {index} found ({times}); bytes that match their checksum are "
            "expected. Fetch the file again, or decode the rest with `--salvage`."
        )
    if header.is_codes:
        values = unpack(payload, header.code_bits, count * header.rows * header.width)
    else:
        values = np.frombuffer(payload, np.dtype(header.dtype).newbyteorder("<"))
        values = values.astype(np.dtype(header.dtype))
    check_values(header, values)
    return values.reshape(count, header.rows, header.width).transpose(1, 2, 0)


def whole_frames(header: PackedHeader, index: int, held: bytes) -> int:
    """Find the longest block at the start of `held` whose checksum fits: its frames, or 0."""
    best, done, crc = 0, 0, _block_crc(index, b"")
    for count in range(1, header.block_frames + 1):
        size = header.block_size(count) - CRC.size
        if size + CRC.size > len(held):
            break
        crc, done = zlib.crc32(held[done:size], crc), size
        if held[size : size + CRC.size] == CRC.pack(crc):
            best = count
    return best


def zeros(header: PackedHeader, frames: int) -> NDArray[Any]:
    """Stand in for frames that are lost."""
    import numpy as np

    return np.zeros((header.rows, header.width, frames), header.dtype or "uint16")


def join(header: PackedHeader, blocks: list[NDArray[Any]]) -> NDArray[Any]:
    """Put blocks, of which there may be none, one after the other."""
    import numpy as np

    return np.concatenate([zeros(header, 0), *blocks], axis=-1)


def check_shape(header: PackedHeader, data: NDArray[Any]) -> None:
    """Refuse data of another shape or kind than the header says.

    Raises:
        ShapeError: It is.
    """
    if data.ndim != 3 or data.shape[:2] != (header.rows, header.width):
        raise ShapeError(
            f"data of shape {data.shape} found; [{header.rows}, {header.width}, frames] is "
            "expected, as the header says. Write to a file of its own."
        )
    if (data.dtype.kind in "ui") != header.is_codes or data.dtype.kind not in "uif":
        raise ShapeError(
            f"data of type {data.dtype} found; {header.kind} are expected, as the header says. "
            "Write to a file of its own."
        )


def check_values(header: PackedHeader, values: NDArray[Any]) -> None:
    """Refuse codes beyond the codebook and latents that are not finite.

    Raises:
        ContainerError: There are some.
    """
    import numpy as np

    size = header.codebook_size
    if size is None and not np.isfinite(values).all():
        raise ContainerError(
            "latents that are not finite found; finite numbers that fit the dtype are expected. "
            "Check the model and its dtype, or store float32."
        )
    if size is not None and values.size and not 0 <= values.min() <= values.max() < size:
        raise ContainerError(
            f"codes {values.min()} to {values.max()} found; 0 to {size - 1} is expected. "
            "Check which model they belong to."
        )


def _block_crc(index: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack("<I", index)))
