"""Unsigned integers of a fixed width, packed without gaps, most significant bit first.

This file must know nothing of codecs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def packed_size(count: int, width: int) -> int:
    """Bytes that `count` values of `width` bits take; the last byte is filled with zero bits."""
    return (count * width + 7) // 8


def pack(values: NDArray[Any], width: int) -> bytes:
    """Pack unsigned integers, each in `width` bits.

    Args:
        values: Integers in 0 .. 2**width - 1, of any shape, taken in C order.
        width: Bits of one value, 1..16.

    Returns:
        `packed_size(values.size, width)` bytes.
    """
    import numpy as np

    flat = values.reshape(-1)
    bits = np.empty((flat.size, width), dtype=np.uint8)
    for position in range(width):
        bits[:, position] = (flat >> (width - 1 - position)) & 1
    return np.packbits(bits).tobytes()


def unpack(data: bytes, width: int, count: int) -> NDArray[np.uint16]:
    """Undo `pack`.

    Args:
        data: At least `packed_size(count, width)` bytes.
        width: Bits of one value, 1..16.
        count: How many values to take.

    Returns:
        The values, shape [count].
    """
    import numpy as np

    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count * width).reshape(count, width)
    values = np.zeros(count, dtype=np.uint16)
    for position in range(width):
        values <<= 1
        values |= bits[:, position]
    return values
