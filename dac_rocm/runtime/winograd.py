"""Convolution with fewer multiplications: minimal filtering F(m, r) along time.

m outputs of a filter of r taps need m + r - 1 products instead of m r. Inputs and outputs are
transformed by small constant matrices, piece by piece, so that a piece stays in the cache; the
products are one batch of matrix products. A dilated filter of dilation d is the same filter on
every d-th position.

Source: S. Winograd, Arithmetic Complexity of Computations, 1980; A. Lavin and S. Gray, Fast
Algorithms for Convolutional Neural Networks, 2015. Rounding grows with m; the choice of points
keeps it low.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import torch
from torch import Tensor

TAPS = 7
"""Taps of the filters that are worth it; for 2 and 3 taps the transforms cost what they save."""
OUTPUTS = 5
"""m: 11 products for what takes 35."""
POINTS = tuple(
    Fraction(sign * p, q) for p, q in ((1, 1), (4, 3), (1, 4), (4, 7), (5, 2)) for sign in (1, -1)
)
"""Where polynomials are evaluated, beside infinity: among 500 sets of pairs ±p of small fractions
that with the least rounding, 3e-6 of the signal at 384 channels (a direct sum: 3e-7 to 6e-7)."""
PRODUCTS = OUTPUTS + TAPS - 1
"""n: the points and infinity."""
ROWS = 64
"""Output channels of a filter that are transformed at once, in float64."""
PIECE = 1 << 20
"""Transformed numbers of one piece: 4 MiB."""


class Winograd:
    """Convolve [B, T, C] without padding, stride 1.

    Args:
        weight: [C', C, 7]; its type is the one to compute in.
        bias: [C'] or None.
        dilation: Distance between taps.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dilation: int) -> None:
        self.dilation, self.bias = dilation, bias
        a, g, b = (torch.tensor(rows, dtype=torch.float64) for rows in transforms())
        self.into, self.back = b.to(weight.dtype), a.to(weight.dtype)
        self.filters = weight.new_empty(PRODUCTS, weight.shape[1], weight.shape[0])
        parts = torch.split(self.filters, ROWS, 2), torch.split(weight, ROWS)
        for some, rows in zip(*parts, strict=True):
            some.copy_(torch.einsum("nr,oir->nio", g, rows.double()))

    def __call__(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """Convolve [B, T, C], T ≥ 6 dilation + 1, and add `onto` where it is given."""
        y = x.new_empty(x.shape[0], x.shape[1] - self._reach, self.filters.shape[2])
        for item, out in zip(x, y, strict=True):
            self._item(item, out)
        if self.bias is not None:
            y.add_(self.bias)
        return y if onto is None else y.add_(onto)

    @property
    def _reach(self) -> int:
        return (TAPS - 1) * self.dilation

    def _item(self, x: Tensor, y: Tensor) -> None:
        """Convolve [T, C] into [T', C']: whole blocks, piece by piece, then the rest."""
        block, reach = OUTPUTS * self.dilation, self._reach
        piece = max(1, PIECE // (PRODUCTS * self.dilation * max(self.filters.shape[1:]))) * block
        whole = y.shape[0] // block * block
        for start in range(0, whole, piece):
            n = min(piece, whole - start)
            self._blocks(x.narrow(0, start, n + reach), y.narrow(0, start, n))
        rest = y.shape[0] - whole
        if rest:
            padded, out = x.new_zeros(block + reach, x.shape[1]), y.new_empty(block, y.shape[1])
            padded.narrow(0, 0, rest + reach).copy_(x.narrow(0, whole, rest + reach))
            self._blocks(padded, out)
            y.narrow(0, whole, rest).copy_(out.narrow(0, 0, rest))

    def _blocks(self, x: Tensor, y: Tensor) -> None:
        """Convolve into [T', C'] with T' a multiple of outputs times dilation."""
        d, n, m, width = self.dilation, PRODUCTS, OUTPUTS, x.shape[1]
        k, step = y.shape[0] // (m * d), x.stride(0)
        windows = x.new_empty(d, k, n, width)
        for phase, out in enumerate(windows):
            start = x.storage_offset() + phase * step
            seen = x.as_strided((k, n, width), (m * d * step, d * step, 1), start)
            torch.bmm(self.into.expand(k, n, n), seen, out=out)
        by_point = windows.view(d * k, n, width).transpose(0, 1)
        products = torch.bmm(by_point, self.filters).transpose(0, 1)
        back = self.back.expand(d * k, m, n)
        if d == 1:
            torch.bmm(back, products, out=y.view(k, m, -1))
        else:
            phases = torch.bmm(back, products).view(d, k, m, -1)
            y.view(k, m, d, -1).copy_(phases.permute(1, 2, 0, 3))


Rows = list[list[float]]


@lru_cache
def transforms() -> tuple[Rows, Rows, Rows]:
    """Return the matrices A [m, n], G [n, r] and B [n, n] of F(m, r), n = m + r - 1.

    With inputs x [n] and filter w [r], A (G w ⊙ B x) are the m outputs. Rows of B and G are scaled
    by powers of two to norms near 1; A undoes it.
    """
    a = [[p**k for p in POINTS] + [Fraction(k == OUTPUTS - 1)] for k in range(OUTPUTS)]
    g = [[p**k for k in range(TAPS)] for p in POINTS]
    g.append([Fraction(k == TAPS - 1) for k in range(TAPS)])
    b = [*(_lagrange(POINTS, i) for i in range(len(POINTS))), _with_roots(POINTS)]
    s, t = [_power_of_two(row) for row in b], [_power_of_two(row) for row in g]
    return (
        [[float(v * u * w) for v, u, w in zip(row, s, t, strict=True)] for row in a],
        [[float(v / u) for v in row] for row, u in zip(g, t, strict=True)],
        [[float(v / u) for v in row] for row, u in zip(b, s, strict=True)],
    )


def _with_roots(roots: tuple[Fraction, ...]) -> list[Fraction]:
    """Return the coefficients of Π (x - root), lowest first."""
    poly = [Fraction(1)]
    for root in roots:
        poly = [
            u - root * v for u, v in zip([Fraction(0), *poly], [*poly, Fraction(0)], strict=True)
        ]
    return poly


def _lagrange(points: tuple[Fraction, ...], i: int) -> list[Fraction]:
    """Return the polynomial that is 1 at point `i` and 0 at the others, and a last 0."""
    others = points[:i] + points[i + 1 :]
    value = Fraction(1)
    for other in others:
        value *= points[i] - other
    return [c / value for c in _with_roots(others)] + [Fraction(0)]


def _power_of_two(row: list[Fraction]) -> Fraction:
    """Return the power of two next to the norm of a row."""
    return Fraction(2) ** round(math.log2(sum(v * v for v in row)) / 2)
