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
Z_CHANNELS = 64
LATENTS = 64
CODEBOOKS, ENTRIES, ENTRY_DIM = 16, 1024, 8
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
            final_tanh=True,
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
                module.forward = types.MethodType(_plain_snake, module)

    def forward(self, x: Tensor, n_codebooks: int | None = None) -> Tensor:
        """Code and decode [B, 1, T] as the package does: no noise, no straight-through."""
        z = self.encoder(x)
        if isinstance(self.config.bottleneck, RVQConfig):
            return self.decoder(self.quantizer(z, n_codebooks).z)
        return self.decoder(self.quantizer.decode(self.quantizer(z).mode()))


def _plain_snake(self: Snake1d, x: Tensor) -> Tensor:
    alpha, beta = self.coefficients()
    return x + torch.sin(alpha * x).square() / (beta + 1e-9)


def start_weights(net: Codec, seed: int) -> None:
    """Draw weights that keep the level of the signal; residual branches start at half.

    The last convolution starts small: a saturated tanh learns nothing.
    """
    torch.manual_seed(seed)
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
            taps = module.kernel_size[0] / (
                module.stride[0] if isinstance(module, nn.ConvTranspose1d) else 1
            )
            scale = 0.5 if name.endswith("block.3") and module.kernel_size[0] == 1 else 1.0
            nn.init.normal_(module.weight, std=scale / math.sqrt(module.in_channels * taps))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    with torch.no_grad():
        net.decoder.model[len(net.config.decoder.levels) + 2].weight *= 0.05
    if isinstance(net.quantizer, GaussianBottleneck):
        half = net.quantizer.in_proj.out_channels // 2
        with torch.no_grad():
            net.quantizer.in_proj.weight[half:] *= 0.1
            net.quantizer.in_proj.bias[half:] = -4.0


@torch.no_grad()
def rvq_from_vae(vae: Codec, rvq: Codec) -> None:
    """Copy both halves; the encoder's last convolution takes in the Gaussian's two projections.

    The new z is what the old decoder took: out_proj(mean).
    """
    rvq.encoder.load_state_dict(vae.encoder.state_dict())
    rvq.decoder.load_state_dict(vae.decoder.state_dict())
    latent = vae.quantizer.out_proj.in_channels
    into, out = vae.quantizer.in_proj, vae.quantizer.out_proj
    mix = out.weight[:, :, 0] @ into.weight[:latent, :, 0]
    last = rvq.encoder.block[-1]
    bias = mix @ last.bias + out.weight[:, :, 0] @ into.bias[:latent] + out.bias
    last.weight.copy_(torch.einsum("oc,cik->oik", mix, last.weight))
    last.bias.copy_(bias)


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
