"""Signals of any length, convolved in pieces of few lengths.

oneDNN builds a kernel for each length that it meets, and keeps it: as much time as a second of
audio takes, and as much memory. In a folder of recordings nearly every length is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

SHORTEST = 256
"""Outputs of a piece; dividing shorter signals would read the weights too often."""

Convolve = Callable[[Tensor, Tensor | None], Tensor]
"""[B, T, C] and what is added to the result, or None -> [B, T', C']."""


def by_pieces(convolve: Callable[[Tensor], Tensor], span: int, stride: int) -> Convolve:
    """Make a convolution work piece by piece.

    Args:
        convolve: [B, T, C] -> [B, T', C'], without padding.
        span: Inputs that one output sees.
        stride: Inputs from one output to the next.
    """

    def divided(x: Tensor, onto: Tensor | None) -> Tensor:
        outputs = (x.shape[1] - span) // stride + 1
        parts = [
            convolve(x.narrow(1, start * stride, (n - 1) * stride + span))
            for start, n in pieces(outputs)
        ]
        y = parts[0] if len(parts) == 1 else _overlaid(parts, outputs)
        return y if onto is None else y.add_(onto)

    return divided


def pieces(outputs: int) -> list[tuple[int, int]]:
    """Divide a length into starts and lengths, which are powers of two.

    The last piece reaches back into the one before it, by at most 1/8 of the whole where that is
    long, so that it has such a length too. What is shorter than `SHORTEST` stays as it is.
    """
    size = max(SHORTEST, 1 << max(0, outputs.bit_length() - 3))
    if outputs < size:
        return [(0, outputs)]
    found = [(start, size) for start in range(0, outputs - size + 1, size)]
    rest = outputs % size
    if rest:
        last = 1 << (rest - 1).bit_length()
        found.append((outputs - last, last))
    return found


def _overlaid(parts: Sequence[Tensor], length: int) -> Tensor:
    """Join parts along time; the last one ends at `length`."""
    y = parts[0].new_empty(parts[0].shape[0], length, parts[0].shape[2])
    start = 0
    for part in parts:
        start = min(start, length - part.shape[1])
        y.narrow(1, start, part.shape[1]).copy_(part)
        start += part.shape[1]
    return y
