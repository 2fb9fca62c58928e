"""The continuous bottleneck: a diagonal Gaussian per frame.

Source: Kingma and Welling 2013 (arXiv:1312.6114); parametrisations as the published members of
the family compute them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dac_rocm.config import GaussianConfig
from dac_rocm.nn.layers import Conv1d
from dac_rocm.ops.platform import float32_precision

LOGVAR_RANGE = (-30.0, 20.0)
"""Clamp of the log-variance in MOVA and HunyuanVideo-Foley."""
MIN_STD = 1e-4
"""Added to softplus(spread) in Meta DACVAE and Oobleck."""


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A diagonal Gaussian over latents.

    Args:
        mean: [B, D, F].
        std: [B, D, F], positive.
    """

    mean: Tensor
    std: Tensor

    def mode(self) -> Tensor:
        """Return the most likely latents [B, D, F]: the mean."""
        return self.mean

    def sample(self, *, generator: torch.Generator | None = None) -> Tensor:
        """Draw latents [B, D, F].

        Args:
            generator: Of any device; noise is drawn there and moved. Default: torch's own.
        """
        device = self.mean.device if generator is None else generator.device
        noise = torch.randn(
            self.mean.shape, generator=generator, device=device, dtype=self.mean.dtype
        )
        return self.mean + self.std * noise.to(self.mean.device)

    def kl(self) -> Tensor:
        """Return the divergence from the standard normal in nats, summed over [D, F]: [B]."""
        variance = self.std.square()
        each = 0.5 * (self.mean.square() + variance - 1.0 - variance.log())
        return each.sum((1, 2))


class GaussianBottleneck(nn.Module):
    """From z to a Gaussian, and from latents to what the decoder takes.

    Args:
        encoder_width: Channels of the encoder output.
        decoder_width: Channels of the decoder input.
        config: Latent channels and parametrisation.
    """

    def __init__(self, encoder_width: int, decoder_width: int, config: GaussianConfig) -> None:
        super().__init__()
        latent = config.latent_channels
        self.spread = config.spread
        self.in_proj = Conv1d(encoder_width, 2 * latent, 1) if config.in_proj else nn.Identity()
        self.out_proj = Conv1d(latent, decoder_width, 1) if config.out_proj else nn.Identity()

    @float32_precision()
    def forward(self, z: Tensor) -> Gaussian:
        """Map encoder output [B, D', F] to a Gaussian over [B, D, F]."""
        mean, spread = self.in_proj(z).chunk(2, dim=1)
        if self.spread == "logvar":
            return Gaussian(mean, (0.5 * spread.clamp(*LOGVAR_RANGE)).exp())
        return Gaussian(mean, F.softplus(spread) + MIN_STD)

    @float32_precision()
    def decode(self, latents: Tensor) -> Tensor:
        """Map latents [B, D, F] to decoder input [B, D'', F]."""
        z: Tensor = self.out_proj(latents)
        return z
