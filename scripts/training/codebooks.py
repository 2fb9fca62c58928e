"""Codebooks that learn by moving averages: k-means start, update, restart of dead entries.

Source: van den Oord et al. 2017 (arXiv:1711.00937), appendix A; Zeghidour et al. 2021
(arXiv:2107.03312), section 3.3.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dac_rocm.nn.rvq import ResidualVectorQuantize, VectorQuantize

DECAY = 0.998
"""A batch has some 200 latents for 1,024 entries: an entry is the mean of about a hundred."""
DEAD = 0.03
"""An entry used less than this share of the average is restarted."""
LIFT = 3.0
"""Constant last coordinate of latents and entries, in units of their spread.

The package compares angles. With a large common coordinate, the smallest angle is the smallest
distance in the others, so the length of a latent is coded too.
"""


class Averages:
    """Moving averages of one quantizer: use and sum of the latents of each entry.

    Args:
        rvq: Its codebooks are written in place.
    """

    def __init__(self, rvq: ResidualVectorQuantize) -> None:
        self.rvq = rvq
        self.use = [torch.ones(q.codebook.weight.shape[0]) for q in rvq.quantizers]
        self.total = [q.codebook.weight.detach().clone() for q in rvq.quantizers]

    def state(self) -> dict[str, list[Tensor]]:
        """Return what `load` takes."""
        return {"use": self.use, "total": self.total}

    def load(self, state: dict[str, list[Tensor]]) -> None:
        """Take up the state of a checkpoint."""
        self.use, self.total = state["use"], state["total"]

    def adopt(self) -> None:
        """Start anew from the present entries."""
        for i, q in enumerate(self.rvq.quantizers):
            self.use[i] = torch.ones_like(self.use[i])
            self.total[i] = q.codebook.weight.detach().clone()

    @torch.no_grad()
    def update(
        self, seen: list[tuple[Tensor, Tensor]], generator: torch.Generator, *, restart: bool
    ) -> None:
        """Move the entries towards the latents that chose them.

        Args:
            seen: Per codebook: latents [n, d] and entries [n], of `straight_through`.
            generator: Draws the latents that dead entries restart from.
            restart: Restart dead entries.
        """
        for i, (asked, index) in enumerate(seen):
            book = self.rvq.quantizers[i].codebook.weight
            if len(index) == 0:
                continue
            count = torch.bincount(index, minlength=len(book)).to(book.dtype)
            scale = len(book) / len(index)
            self.use[i].mul_(DECAY).add_(count * scale, alpha=1 - DECAY)
            sums = torch.zeros_like(book).index_add_(0, index, asked)
            self.total[i].mul_(DECAY).add_(sums * scale, alpha=1 - DECAY)
            alive = self.use[i] > 1e-3
            book[alive] = self.total[i][alive] / self.use[i][alive, None]
            if restart:
                self._restart(i, asked, generator)

    def _restart(self, i: int, asked: Tensor, generator: torch.Generator) -> None:
        dead = (self.use[i] < DEAD).nonzero()[:, 0]
        if len(dead) == 0:
            return
        chosen = asked[torch.randint(len(asked), (len(dead),), generator=generator)]
        self.rvq.quantizers[i].codebook.weight[dead] = chosen
        self.use[i][dead], self.total[i][dead] = 0.3, 0.3 * chosen

    def perplexity(self) -> list[float]:
        """Return exp(entropy) of the recent use of each codebook."""
        shares = [u / u.sum() for u in self.use]
        return [float(torch.special.entr(p).sum().exp()) for p in shares]


def nearest(x: Tensor, entries: Tensor) -> Tensor:
    """Return the entry of the smallest angle to each row of x [n, d], as the package finds it."""
    unit = F.normalize(entries).T
    return torch.cat([(rows @ unit).argmax(1) for rows in x.split(1024)])


def k_means(x: Tensor, k: int, rounds: int, generator: torch.Generator) -> Tensor:
    """Return k centres of x [n, d] after some rounds of Lloyd's algorithm.

    The nearest centre is the one of the smallest angle; the last coordinate of x is constant.
    """
    centres = x[torch.randint(len(x), (k,), generator=generator)].clone()
    for _ in range(rounds):
        index = nearest(x, centres)
        count = torch.bincount(index, minlength=k)
        sums = torch.zeros_like(centres).index_add_(0, index, x)
        used = count > 1
        centres[used] = sums[used] / count[used, None]
        lost = int((~used).sum())
        centres[~used] = x[torch.randint(len(x), (lost,), generator=generator)]
    return centres


@torch.no_grad()
def start_codebooks(
    rvq: ResidualVectorQuantize, z: Tensor, seed: int, *, rounds: int = 12
) -> list[float]:
    """Set projections and entries, one codebook after the other, from latents.

    Args:
        rvq: Quantizer.
        z: Latents [n, D].
        seed: Of k-means.
        rounds: Of k-means.

    Returns:
        Share of the variance of z that is left after each codebook.
    """
    generator = torch.Generator().manual_seed(seed)
    residual, variance = z, z.var(0).sum()
    left = []
    for q in rvq.quantizers:
        _start_one(q, residual, generator, rounds)
        asked = residual @ q.in_proj.weight[:, :, 0].T + q.in_proj.bias
        index = nearest(asked, q.codebook.weight)
        part = q.codebook(index) @ q.out_proj.weight[:, :, 0].T + q.out_proj.bias
        residual = residual - part
        left.append(float(residual.square().mean(0).sum() / variance))
    return left


def _start_one(
    q: VectorQuantize, residual: Tensor, generator: torch.Generator, rounds: int
) -> None:
    """Project on the directions of the largest variance; lift by a constant coordinate."""
    dim = q.codebook.weight.shape[1] - 1
    mean = residual.mean(0)
    _, vectors = torch.linalg.eigh(torch.cov(residual.T))
    axes = vectors[:, -dim:]
    projected = (residual - mean) @ axes
    lift = LIFT * projected.square().sum(1).mean().sqrt()
    for weight in (q.in_proj.weight, q.out_proj.weight):
        weight.zero_()
    q.in_proj.weight[:dim, :, 0], q.out_proj.weight[:, :dim, 0] = axes.T, axes
    q.in_proj.bias[:dim], q.in_proj.bias[dim] = -(mean @ axes), lift
    q.out_proj.bias.copy_(mean)
    lifted = F.pad(projected, (0, 1), value=float(lift))
    q.codebook.weight.copy_(k_means(lifted, len(q.codebook.weight), rounds, generator))
