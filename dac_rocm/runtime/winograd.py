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
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from dac_rocm.geometry import few_digits

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


class Products(ABC):
    """The products of minimal filtering: at each point, inputs times filters.

    Args:
        filters: [n, C', C].
        bias: What is added to the product at the first point, [C'] or None.
    """

    piece: ClassVar[int]
    """Points times channels of one piece at most, for each thread."""

    @abstractmethod
    def __init__(self, filters: Tensor, bias: Tensor | None) -> None: ...

    @abstractmethod
    def __call__(self, points: Tensor) -> Tensor:
        """Multiply [n, k, d, C], whose last stride is 1, to [n, k, d, C'], contiguous."""


class BatchedProducts(Products):
    """By torch's batched product: best for few channels, and everywhere to be had."""

    piece = 1 << 19

    def __init__(self, filters: Tensor, bias: Tensor | None) -> None:
        self.filters, self.bias = filters.transpose(1, 2).contiguous(), bias

    def __call__(self, points: Tensor) -> Tensor:
        """See `Products`."""
        n, into, out = self.filters.shape
        found = torch.bmm(points.reshape(n, -1, into), self.filters)
        if self.bias is not None:
            found[0].add_(self.bias)
        return found.view(*points.shape[:-1], out)


class Winograd:
    """Convolve [B, T, C] without padding, stride 1.

    Args:
        weight: [C', C, 7]; its type is the one to compute in.
        bias: [C'] or None.
        dilation: Distance between taps.
        products: Makes the products.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        dilation: int,
        products: type[Products],
    ) -> None:
        self.dilation, self.shape = dilation, weight.shape
        a, g, b = (torch.tensor(rows, dtype=torch.float64) for rows in transforms())
        self.into, self.back = b.to(weight.dtype), a.to(weight.dtype)
        filters = weight.new_empty(PRODUCTS, *weight.shape[:2])
        parts = torch.split(filters, ROWS, 1), torch.split(weight, ROWS)
        for some, rows in zip(*parts, strict=True):
            some.copy_(torch.einsum("nr,oir->noi", g, rows.double()))
        # The first point is 1: what is added to its product arrives once in each output.
        self._products = products(filters, None if bias is None else bias / self.back[0, 0])

    def __call__(self, x: Tensor) -> Tensor:
        """Convolve [B, T, C], T ≥ 6 dilation + 1."""
        y = x.new_empty(x.shape[0], x.shape[1] - self._reach, self.shape[0])
        for item, out in zip(x, y, strict=True):
            self._item(item, out)
        return y

    @property
    def _reach(self) -> int:
        return (TAPS - 1) * self.dilation

    def _item(self, x: Tensor, y: Tensor) -> None:
        """Convolve [T, C] into [T', C'], piece by piece; the last ends where the signal does."""
        block = OUTPUTS * self.dilation
        most = self._products.piece * torch.get_num_threads()
        most = max(1, most // (PRODUCTS * self.dilation * max(self.shape[:2])))
        total = -(-len(y) // block)
        pieces = -(-total // most)
        piece = -few_digits(-total // pieces) * block
        for begin in range(0, len(y), piece):
            blocks = -(-min(piece, len(y) - begin) // block)
            n = -few_digits(-blocks) * block
            if n > len(y):
                self._padded(x, y, n)
                return
            start = min(begin, len(y) - n)
            self._blocks(x.narrow(0, start, n + self._reach), y.narrow(0, start, n))

    def _padded(self, x: Tensor, y: Tensor, n: int) -> None:
        """Convolve a signal that is shorter than a piece."""
        padded, out = x.new_zeros(n + self._reach, x.shape[1]), y.new_empty(n, y.shape[1])
        padded.narrow(0, 0, len(x)).copy_(x)
        self._blocks(padded, out)
        y.copy_(out.narrow(0, 0, len(y)))

    def _blocks(self, x: Tensor, y: Tensor) -> None:
        """Convolve into [T', C'] with T' a multiple of outputs times dilation.

        Positions that lie side by side share their transform, as channels do: d C of them.
        """
        d, n, m, (out, width) = self.dilation, PRODUCTS, OUTPUTS, self.shape[:2]
        k, step = len(y) // (m * d), x.stride(0)
        x = x if step == width else x.contiguous()
        seen = x.as_strided((k, n, d * width), (m * d * width, d * width, 1))
        points = torch.bmm(self.into.expand(k, n, n), seen)
        found = self._products(points.view(k, n, d, width).transpose(0, 1))
        found = found.view(n, k, d * out).transpose(0, 1)
        torch.bmm(self.back.expand(k, m, n), found, out=y.view(k, m, d * out))


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
