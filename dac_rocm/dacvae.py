"""DACVAE: the continuous codec, from audio to a Gaussian over latents and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dac_rocm import checks
from dac_rocm.codec import Codec
from dac_rocm.config import CodecConfig, GaussianConfig
from dac_rocm.errors import ConfigError
from dac_rocm.nn.gaussian import Gaussian, GaussianBottleneck


class DACVAE(Codec):
    """The continuous codec: audio to a Gaussian over latents, and back. Arguments: see `Codec`."""

    quantizer: GaussianBottleneck

    def __init__(self, config: CodecConfig, **options: Any) -> None:
        super().__init__(config, **options)
        if not isinstance(config.bottleneck, GaussianConfig):
            raise ConfigError("codebooks found; DACVAE needs a Gaussian bottleneck. Use DAC.")
        asked = config.bottleneck
        present = replace(
            asked,
            in_proj=asked.in_proj and self.encoder is not None,
            out_proj=asked.out_proj and self.decoder is not None,
        )
        self.quantizer = GaussianBottleneck(
            config.encoder.out_channels, config.decoder.in_channels, present
        )
        self.latent_channels = asked.latent_channels

    @torch.no_grad()
    def encode(self, audio: Tensor, *, sample_rate: int | None = None) -> Gaussian:
        """Encode audio.

        Args:
            audio: [B, A, T] around ±1 at the model's rate, T ≥ 1.
            sample_rate: Rate of `audio` in Hz, to be checked against the model's.

        Returns:
            Gaussian over latents [B, D, F]; its `mode()` is what one usually wants.

        Raises:
            ShapeError: Wrong shape, type or rate.
            AudioError: NaN or infinite samples.
        """
        return self.from_z(self.encode_z(audio, sample_rate=sample_rate))

    @torch.no_grad()
    def from_z(self, z: Tensor) -> Gaussian:  # type: ignore[override]
        """Return the Gaussian over latents [B, D, F] of z [B, D', F], F ≥ 0."""
        checks.check_width("z", z, self.config.encoder.out_channels)
        if not z.shape[-1]:
            empty = z.new_zeros(z.shape[0], self.latent_channels, 0)
            return Gaussian(empty, empty)
        checks.check_finite("z", z)
        result: Gaussian = self.quantizer(z.to(self.device, self.dtype))
        return result

    @torch.no_grad()
    def decode(self, latents: Tensor, *, length: int | None = None) -> Tensor:
        """Decode latents.

        Args:
            latents: [B, D, F].
            length: Samples wanted; default: what the network gives.

        Returns:
            Audio [B, A, T]; exactly `length` samples where it is given (cut, or zeros added).

        Raises:
            ShapeError: Wrong shape or type, or `length` beyond F · hop.
        """
        return self.decode_z(self.to_z(latents), length=length)

    @torch.no_grad()
    def to_z(self, data: Tensor) -> Tensor:
        """Map latents [B, D, F] to what the decoder takes [B, D', F].

        Raises:
            ShapeError: Wrong shape or type.
        """
        self.steps("decoder")  # refused by name where there is none
        checks.check_width("latents", data, self.latent_channels)
        if not data.shape[-1]:
            return self._empty_z(data.shape[0])
        return self.quantizer.decode(data.to(self.device, self.dtype))

    @torch.no_grad()
    def encode_many(self, audio: Sequence[Tensor]) -> list[Gaussian]:
        """Encode clips [A, T_i] of different lengths in one batch, each as if alone.

        Returns:
            A Gaussian over latents [D, F_i] each.

        Raises:
            ShapeError: Wrong shape or type.
            AudioError: NaN or infinite samples.
        """
        each = [self.from_z(z[None]) for z in self._encode_z_many(audio)]
        return [Gaussian(g.mean[0], g.std[0]) for g in each]

    @torch.no_grad()
    def decode_many(
        self, latents: Sequence[Tensor], *, lengths: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Decode latents [D, F_i] of different lengths in one batch, each as if alone.

        Args:
            latents: One per item.
            lengths: Samples wanted of each; default: what the network gives.

        Returns:
            Audio [A, T_i].

        Raises:
            ShapeError: Wrong shape or type.
        """
        checks.check_items("latents", latents)
        return self._decode_z_many([self.to_z(x[None])[0] for x in latents], lengths)
