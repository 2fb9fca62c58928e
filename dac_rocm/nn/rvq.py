"""Residual vector quantizer: nearest entries in narrow, L2-normalised spaces.

Source: Kumar et al. 2023 (arXiv:2306.06546), section 3.2: factorized and normalised codes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dac_rocm.config import RVQConfig
from dac_rocm.nn.layers import Conv1d, Embedding
from dac_rocm.ops.platform import float32_precision


class Quantized(NamedTuple):
    """What quantizing gives.

    Args:
        z: Quantized z [B, D, F].
        codes: Codebook indices [B, N, F], int64.
        latents: What each codebook was asked for [B, sum of codebook widths, F].
    """

    z: Tensor
    codes: Tensor
    latents: Tensor


class VectorQuantize(nn.Module):
    """One codebook.

    Args:
        width: Channels D of z.
        codebook_size: Entries K.
        codebook_dim: Width d of an entry.
    """

    unit_codebook: Tensor
    """Entries of length 1, [K, d], float32 or wider: what the search compares with."""

    def __init__(self, width: int, codebook_size: int, codebook_dim: int) -> None:
        super().__init__()
        self.in_proj = Conv1d(width, codebook_dim, 1)
        self.out_proj = Conv1d(codebook_dim, width, 1)
        self.codebook = Embedding(codebook_size, codebook_dim)
        self.normalise()

    def normalise(self) -> None:
        """Take the search entries from the codebook again; needed after weights were loaded."""
        entries = _at_least_float32(self.codebook.weight.detach())
        # on the meta device there are no values, and torch would import its compiler for the shape
        self.unit_codebook = entries if entries.is_meta else F.normalize(entries)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> VectorQuantize:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.normalise()
        return self

    def nearest(self, latents: Tensor) -> Tensor:
        """Find the entry of the smallest angle, in float32 or wider.

        Args:
            latents: [B, d, F].

        Returns:
            Indices [B, F], int64.
        """
        if latents.device.type == "mps":  # garbled indices there: facebookresearch/audiocraft#31
            return self._nearest(latents.cpu(), self.unit_codebook.cpu()).to(latents.device)
        return self._nearest(latents, self.unit_codebook)

    @staticmethod
    def _nearest(latents: Tensor, entries: Tensor) -> Tensor:
        wide = F.normalize(_at_least_float32(latents), dim=1).transpose(1, 2)
        return (wide @ entries.T).argmax(-1)

    def decode(self, codes: Tensor) -> Tensor:
        """Map indices [B, F] to their part of z [B, D, F]."""
        entries = self.codebook(codes).transpose(1, 2)
        part: Tensor = self.out_proj(entries)
        return part


class ResidualVectorQuantize(nn.Module):
    """N codebooks, each quantizing what the ones before left over.

    Args:
        width: Channels D of z.
        config: Number, size and widths of the codebooks.
    """

    def __init__(self, width: int, config: RVQConfig) -> None:
        super().__init__()
        self.widths = config.codebook_dims
        self.quantizers = nn.ModuleList(
            VectorQuantize(width, config.codebook_size, dim) for dim in config.codebook_dims
        )

    def _used(self, n_codebooks: int | None) -> list[Any]:
        return list(self.quantizers)[:n_codebooks]

    @float32_precision()
    def forward(self, z: Tensor, n_codebooks: int | None = None) -> Quantized:
        """Quantize z [B, D, F] with the first `n_codebooks` (default: all)."""
        residual, total = z, torch.zeros_like(z)
        codes, latents = [], []
        for quantizer in self._used(n_codebooks):
            asked = quantizer.in_proj(residual)
            index = quantizer.nearest(asked)
            part = quantizer.decode(index)
            residual, total = residual - part, total + part
            codes.append(index)
            latents.append(asked)
        return Quantized(total, torch.stack(codes, 1), torch.cat(latents, 1))

    @float32_precision()
    def from_codes(self, codes: Tensor) -> Tensor:
        """Map codes [B, n, F] of the first n codebooks to z [B, D, F]."""
        parts = [q.decode(codes[:, i]) for i, q in enumerate(self._used(codes.shape[1]))]
        total = torch.zeros_like(parts[0])
        for part in parts:
            total = total + part
        return total

    @float32_precision()
    def from_latents(self, latents: Tensor) -> Quantized:
        """Quantize latents [B, sum of the first widths, F] again: codes and z from them."""
        n = list(accumulate(self.widths)).index(latents.shape[1]) + 1
        pieces = torch.split(latents, list(self.widths[:n]), dim=1)
        codes = [q.nearest(p) for q, p in zip(self._used(n), pieces, strict=True)]
        stacked = torch.stack(codes, 1)
        return Quantized(self.from_codes(stacked), stacked, latents)


def _at_least_float32(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()
