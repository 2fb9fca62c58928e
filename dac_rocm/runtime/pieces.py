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

Convolve = Callable[[Tensor, Tensor | None], Tensor]
"""[B, T, C] and what is added to the result, or None -> [B, T', C']."""


def by_pieces(convolve: Convolve, span: int, stride: int) -> Convolve:
    """Make a convolution work piece by piece.

    Args:
        convolve: [B, T, C] -> [B, T', C'], without padding.
        span: Inputs that one output sees.
        stride: Inputs from one output to the next.
    """

    def divided(x: Tensor, onto: Tensor | None) -> Tensor:
        outputs = (x.shape[1] - span) // stride + 1
        found = pieces(outputs)
        if len(found) == 1:
            return convolve(x, onto)
        y = None
        for start, n in found:
            seen = x.narrow(1, start * stride, (n - 1) * stride + span)
            part = convolve(seen, None if onto is None else onto.narrow(1, start, n))
            if y is None:
                y = part.new_empty(part.shape[0], outputs, part.shape[2])
            y.narrow(1, start, n).copy_(part)
        assert y is not None
        return y

    return divided


def pieces(outputs: int) -> list[tuple[int, int]]:
    """Divide a length into starts and lengths, which are powers of two.

    Each piece is as long as fits. The last one reaches back into the one before it, by at most 1/8
    of the whole, so that it has such a length too. What is shorter than `SHORTEST` stays as it is.
    """
    found, start = [], 0
    while outputs - start >= max(SHORTEST, outputs / 8):
        n = 1 << (outputs - start).bit_length() - 1
        found.append((start, n))
        start += n
    rest = outputs - start
    if rest:
        last = max(LEAST, 1 << (rest - 1).bit_length()) if found else rest
        found.append((outputs - last, last))
    return found
