"""Signals of any length, convolved in pieces of few lengths.

oneDNN builds a kernel for each length that it meets, and keeps it: as much time as a second of
audio takes, and half a megabyte or more. In a folder of recordings nearly every length is new.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

SHORTEST = 256
"""Outputs of a piece; dividing shorter signals would read the weights too often."""
LEAST = 32
"""Outputs of the last piece of several."""

Convolve = Callable[[Tensor], Tensor]
"""[B, T, C] -> [B, T', C'], without padding, in memory of its own."""


def by_pieces(convolve: Convolve, channels: int, span: int, stride: int) -> Convolve:
    """Make a convolution work piece by piece.

    Args:
        convolve: What it does with a piece.
        channels: C'.
        span: Inputs that one output sees.
        stride: Inputs from one output to the next.
    """

    def divided(x: Tensor) -> Tensor:
        outputs = (x.shape[1] - span) // stride + 1
        found = pieces(outputs)
        if len(found) == 1:
            return convolve(x)
        y = x.new_empty(x.shape[0], outputs, channels)
        for start, n in found:
            seen = x.narrow(1, start * stride, (n - 1) * stride + span)
            y.narrow(1, start, n).copy_(convolve(seen))
        return y

    return divided


def pieces(outputs: int) -> list[tuple[int, int]]:
    """Divide a length into starts and lengths, which are powers of two.

    All are equal but the last one, which reaches back into the one before it, by at most 1/8 of
    the whole where that is long. What is shorter than `SHORTEST` stays as it is.
    """
    size = max(SHORTEST, 1 << max(0, outputs.bit_length() - 3))
    if outputs < size or outputs & (outputs - 1) == 0:
        return [(0, outputs)]
    found = [(start, size) for start in range(0, outputs - size + 1, size)]
    rest = outputs % size
    if rest:
        last = max(LEAST, 1 << (rest - 1).bit_length())
        found.append((outputs - last, last))
    return found
