"""The two networks that are trained, from the parts that the package runs.

A variational autoencoder comes first; its latents carry a known amount of information per frame,
which is what a residual quantizer needs to start from.
"""

from __future__ import annotations

import math
import types
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dac_rocm.config import CodecConfig, GaussianConfig, Half, Level, RVQConfig
from dac_rocm.nn.blocks import Decoder, Encoder
from dac_rocm.nn.gaussian import GaussianBottleneck
from dac_rocm.nn.layers import Snake1d
from dac_rocm.nn.rvq import ResidualVectorQuantize

RATE = 16_000
STRIDES = (5, 4, 4, 4)
"""A large stride first: half the arithmetic of Descript's order at the same hop."""
WIDTHS = (16, 32, 64, 128, 192)
DILATIONS = (1, 3)
BRANCH_SCALE = 0.0
"""Of the last convolution of a residual branch, before training: 0.03 was noise at -13 dB."""
TRACE = 0.0
"""Of the random weights that stay beside a transform."""
SHAPING = 0.3
"""Bands are weighed by their energy to minus this power: 0 is plain SNR, 1 the same everywhere."""
TRUNK_ALPHA = 0.0005
"""Snake frequency at which x + sin²(αx)/α is nearly x."""
Z_CHANNELS = 192
CODEBOOKS, ENTRIES, ENTRY_DIM = 16, 1024, 14
"""160 bits per frame of 320 samples: 8 kbit/s."""


def halves(widths: tuple[int, ...], strides: tuple[int, ...], z: int) -> tuple[Half, Half]:
    """Encoder and decoder that mirror each other; `widths` from the audio on."""
    down = tuple(
        Level(width=w, stride=s, kernel=2 * s, padding=(s + 1) // 2)
        for w, s in zip(widths[1:], strides, strict=True)
    )
    up = tuple(
        Level(width=w, stride=s, kernel=2 * s, padding=(s + 1) // 2, output_padding=s % 2)
        for w, s in zip(widths[-2::-1], strides[::-1], strict=True)
    )
    return (
        Half(
            in_channels=1,
            width=widths[0],
            levels=down,
            out_channels=z,
            last_kernel=3,
            dilations=DILATIONS,
        ),
        Half(
            in_channels=z,
            width=widths[-1],
            levels=up,
            out_channels=1,
            last_kernel=7,
            dilations=DILATIONS,
        ),
    )


def make_config(
    kind: str,
    *,
    widths: tuple[int, ...] = WIDTHS,
    strides: tuple[int, ...] = STRIDES,
    z: int = Z_CHANNELS,
    codebooks: int = CODEBOOKS,
    entries: int = ENTRIES,
) -> CodecConfig:
    """Return the shape of `rvq` (tiny) or `vae` (tiny-vae)."""
    encoder, decoder = halves(widths, strides, z)
    bottleneck: RVQConfig | GaussianConfig = RVQConfig(
        codebook_size=entries, codebook_dims=(ENTRY_DIM,) * codebooks
    )
    if kind == "vae":
        bottleneck = GaussianConfig(latent_channels=z, spread="logvar", in_proj=True, out_proj=True)
    return CodecConfig(sample_rate=RATE, encoder=encoder, decoder=decoder, bottleneck=bottleneck)


class Codec(nn.Module):
    """Encoder, quantizer, decoder under the canonical names."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        width = config.encoder.out_channels, config.decoder.in_channels
        if isinstance(config.bottleneck, RVQConfig):
            self.quantizer: Any = ResidualVectorQuantize(width[0], config.bottleneck)
        else:
            self.quantizer = GaussianBottleneck(*width, config.bottleneck)
        self.decoder = Decoder(config)
        for module in self.modules():
            if isinstance(module, Snake1d):
                module.forward = types.MethodType(_fixed_snake, module)
                module.alpha.requires_grad_(False)

    def forward(self, x: Tensor, n_codebooks: int | None = None) -> Tensor:
        """Code and decode [B, 1, T] as the package does: no noise, no straight-through."""
        z = self.encoder(x)
        if isinstance(self.config.bottleneck, RVQConfig):
            for quantizer in self.quantizer.quantizers:
                quantizer.normalise()
            return self.decoder(self.quantizer(z, n_codebooks).z)
        return self.decoder(self.quantizer.decode(self.quantizer(z).mode()))


def _fixed_snake(self: Snake1d, x: Tensor) -> Tensor:
    y: Tensor = _Snake.apply(x, self.alpha)
    return y


class _Snake(torch.autograd.Function):
    """x + sin²(αx)/α in few passes over memory; α is not trained."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor) -> Tensor:
        ctx.save_for_backward(x, alpha)
        return torch.addcmul(x, (x * alpha).sin_().square_(), 1 / (alpha + 1e-9))

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        x, alpha = ctx.saved_tensors
        return (x * (2 * alpha)).sin_().add_(1).mul_(slope), None


def start_weights(net: Codec, seed: int) -> None:
    """Draw weights that keep the level of the signal; residual branches start near nothing."""
    torch.manual_seed(seed)
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
            taps = module.kernel_size[0] / (
                module.stride[0] if isinstance(module, nn.ConvTranspose1d) else 1
            )
            branch_end = name.endswith("block.3") and module.kernel_size[0] == 1
            scale = BRANCH_SCALE if branch_end else 1.0
            nn.init.normal_(module.weight, std=scale / math.sqrt(module.in_channels * taps))
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def mdct(bands: int) -> Tensor:
    """Return the MDCT with a sine window [bands, 2 bands]; its adjoint inverts it.

    Source: Princen, Johnson and Bradley 1987 (doi:10.1109/ICASSP.1987.1169405).
    """
    n = torch.arange(2 * bands, dtype=torch.float64)
    k = torch.arange(bands, dtype=torch.float64)[:, None]
    wave = torch.cos(math.pi / bands * (n + 0.5 + bands / 2) * (k + 0.5))
    return (math.sqrt(2 / bands) * torch.sin(math.pi * (n + 0.5) / (2 * bands)) * wave).float()


@torch.no_grad()
def start_as_transform(net: Codec, x: Tensor) -> float:
    """Make the trunk a tree of MDCTs with the best linear code of its bands, before training.

    Trunk rows keep a trace of their random weights, the other channels all of them, so that both
    learn. A network started at random needed an hour for what this gives at once.

    Args:
        net: Network with `start_weights`.
        x: Training audio [B, 1, T] for the statistics.

    Returns:
        Share of the energy of x that the linear code loses.
    """
    encoder, decoder = net.encoder.block, net.decoder.model
    levels = net.config.encoder.levels
    _trunk_snakes(net)
    _identity(encoder[0], 1), _identity(decoder[len(levels) + 2], 1)
    active, bands, energy = 1, x, float(x.square().mean())
    for i, level in enumerate(levels, 1):
        basis = torch.zeros(active * level.stride, active, level.kernel)
        for c in range(active):
            basis[c * level.stride : (c + 1) * level.stride, c] = mdct(level.stride)
        bands = F.conv1d(bands, basis, stride=level.stride, padding=level.padding)
        kept = bands.square().mean((0, 2)).argsort(descending=True)[: level.width].sort().values
        bands, basis = bands[:, kept], basis[kept]
        down, up = encoder[i].block[-1], decoder[len(levels) + 1 - i].block[1]
        down.weight[: len(kept)] *= TRACE
        up.weight[:, :active] *= TRACE
        down.weight[: len(kept), :active] += basis
        up.weight[: len(kept), :active] += basis
        active = len(kept)
    return _best_linear_code(net, bands, energy)


def _best_linear_code(net: Codec, bands: Tensor, energy: float) -> float:
    """Set the innermost convolutions to the principal axes of the bands [B, C, F]."""
    first, last = net.decoder.model[0], net.encoder.block[-1]
    points = bands.transpose(1, 2).reshape(-1, bands.shape[1])
    weight = (points.square().mean(0) + 1e-8) ** (-SHAPING / 2)
    shaped = points * weight
    _, vectors = torch.linalg.eigh(shaped.T @ shaped / len(shaped))
    axes = vectors[:, -last.out_channels :].flip(1)
    into, out = (axes * weight[:, None]).T, axes / weight[:, None]
    last.weight *= TRACE
    first.weight[: len(axes)] *= TRACE
    last.weight[:, : len(axes), last.kernel_size[0] // 2] += into
    first.weight[: len(axes), :, first.kernel_size[0] // 2] += out
    lost = (points - points @ into.T @ out.T).square().sum(1).mean()
    return float(lost) / (energy * net.config.hop_length)


def _trunk_snakes(net: Codec) -> None:
    """Make every snake outside the residual branches nearly linear."""
    for name, module in net.named_modules():
        if isinstance(module, Snake1d) and name.count("block") + name.count("model") < 3:
            module.alpha.fill_(TRUNK_ALPHA)


def _identity(conv: nn.Conv1d, channels: int) -> None:
    conv.weight[:channels] *= TRACE
    conv.weight[0, 0, conv.kernel_size[0] // 2] += 1.0


@torch.no_grad()
def start_gaussian(net: Codec, z: Tensor, noise: float = 0.1) -> None:
    """Set the Gaussian's projections from z [n, D] of a network without a bottleneck.

    The latents are the principal components at unit variance; the noise is `noise` times the
    total deviation of z in each, at most half.
    """
    into, out = net.quantizer.in_proj, net.quantizer.out_proj
    n, mean = out.in_channels, z.mean(0)
    values, axes = torch.linalg.eigh(torch.cov(z.T))
    values, axes = values.flip(0)[:n].clamp(min=1e-8), axes.flip(1)[:, :n]
    deviation = values.sqrt()
    into.weight.zero_(), into.bias.zero_()
    into.weight[:n, :, 0] = axes.T / deviation[:, None]
    into.bias[:n] = -(mean @ axes) / deviation
    into.bias[n:] = 2 * (noise * deviation.square().mean().sqrt() / deviation).clamp(max=0.5).log()
    out.weight[:, :, 0], out.bias[:] = axes * deviation, mean


def straight_through(
    rvq: ResidualVectorQuantize, z: Tensor, used: Tensor
) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    """Quantize for training.

    Args:
        rvq: Quantizer.
        z: [B, D, F].
        used: Codebooks that each item uses, [B].

    Returns:
        z with straight-through gradients, commitment loss (scalar), and per codebook what it was
        asked for [n, d] with the chosen entries [n], of the items that use it.
    """
    residual, total, commit, seen = z, torch.zeros_like(z), z.new_zeros(()), []
    for i, q in enumerate(rvq.quantizers):
        mask = (used > i)[:, None, None].to(z.dtype)
        asked = q.in_proj(residual)
        with torch.no_grad():
            unit = F.normalize(q.codebook.weight)
            index = (F.normalize(asked, dim=1).transpose(1, 2) @ unit.T).argmax(-1)
        entries = q.codebook.weight.detach()[index].transpose(1, 2)
        spread = asked.detach().var(dim=(0, 2), keepdim=True).mean()
        commit = commit + ((asked - entries).square() * mask).mean() / (spread + 1e-8)
        part = q.out_proj(asked + (entries - asked).detach())
        residual, total = residual - part, total + part * mask
        kept = used > i
        seen.append(
            (
                asked.detach().transpose(1, 2)[kept].reshape(-1, asked.shape[1]),
                index[kept].reshape(-1),
            )
        )
    return total, commit / len(seen), seen
