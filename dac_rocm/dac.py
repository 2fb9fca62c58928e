"""DAC: the discrete codec, from audio to codes and back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from dac_rocm import checks
from dac_rocm.codec import Codec
from dac_rocm.config import CodecConfig, RVQConfig
from dac_rocm.errors import ConfigError
from dac_rocm.nn.rvq import Quantized, ResidualVectorQuantize


class DAC(Codec):
    """The discrete codec: audio to codes and back. Arguments: see `Codec`."""

    quantizer: ResidualVectorQuantize

    def __init__(self, config: CodecConfig, **options: Any) -> None:
        super().__init__(config, **options)
        if not isinstance(config.bottleneck, RVQConfig):
            raise ConfigError("a Gaussian bottleneck found; DAC needs codebooks. Use DACVAE.")
        self.quantizer = ResidualVectorQuantize(config.encoder.out_channels, config.bottleneck)
        self.rvq = config.bottleneck

    @torch.no_grad()
    def encode(
        self,
        audio: Tensor,
        *,
        n_codebooks: int | None = None,
        sample_rate: int | None = None,
        deterministic: bool = False,
    ) -> Tensor:
        """Encode audio.

        Args:
            audio: [B, A, T] around ±1 at the model's rate, T ≥ 1.
            n_codebooks: Codebooks to use, 1..N; default: all.
            sample_rate: Rate of `audio` in Hz, to be checked against the model's.
            deterministic: Give each item the codes that it has in any other batch: one by one, in
                float32, with kernels that repeat their bits. Slower.

        Returns:
            Codes [B, N, F], int64, F = ceil(T / hop).

        Raises:
            ShapeError: Wrong shape, type, rate or number of codebooks.
            AudioError: NaN or infinite samples.
        """
        checks.check_n_codebooks(n_codebooks, self.rvq)
        if deterministic:
            checks.check_audio(audio, self.config.audio_channels)
            self._check_rate(sample_rate)
            return torch.stack(
                self.encode_many(list(audio), n_codebooks=n_codebooks, deterministic=True)
            )
        return self.from_z(self.encode_z(audio, sample_rate=sample_rate), n_codebooks=n_codebooks)

    @torch.no_grad()
    def quantize(self, z: Tensor, *, n_codebooks: int | None = None) -> Quantized:
        """Quantize encoder output z [B, D, F]: named z, codes and latents.

        Raises:
            ShapeError: Wrong shape, type or number of codebooks.
        """
        checks.check_width("z", z, self.config.encoder.out_channels)
        n = checks.check_n_codebooks(n_codebooks, self.rvq)
        result: Quantized = self.quantizer(z.to(self.device, self.dtype), n)
        checks.check_finite("z", z)
        checks.check_finite("latents", result.latents)
        return result

    @torch.no_grad()
    def from_z(self, z: Tensor, *, n_codebooks: int | None = None) -> Tensor:  # type: ignore[override]
        """Return the codes [B, N, F] of z [B, D, F], F ≥ 0; see `quantize`."""
        n = checks.check_n_codebooks(n_codebooks, self.rvq)
        if not z.shape[-1]:
            return z.new_zeros(z.shape[0], n, 0, dtype=torch.long)
        return self.quantize(z, n_codebooks=n).codes

    def to_z(self, data: Tensor) -> Tensor:
        """Return z [B, D, F] of codes [B, n, F]; see `from_codes`."""
        return self.from_codes(data)

    @torch.no_grad()
    def from_codes(self, codes: Tensor) -> Tensor:
        """Map codes [B, n, F] of the first n codebooks to z [B, D, F].

        Raises:
            ShapeError: Wrong shape, type or range.
        """
        checks.check_codes(codes, self.rvq)
        if not codes.shape[-1]:
            return self._empty_z(codes.shape[0])
        return self.quantizer.from_codes(codes.to(self.device, torch.long))

    @torch.no_grad()
    def from_latents(self, latents: Tensor) -> Quantized:
        """Quantize latents [B, sum of the first codebook widths, F] again.

        Raises:
            ShapeError: Wrong shape, type or width.
        """
        widths = list(accumulate(self.rvq.codebook_dims))
        width = latents.shape[1] if latents.ndim == 3 else 0
        checks.check_width("latents", latents, width if width in widths else widths[-1])
        return self.quantizer.from_latents(latents.to(self.device, self.dtype))

    @torch.no_grad()
    def decode(self, codes: Tensor, *, length: int | None = None) -> Tensor:
        """Decode codes.

        Args:
            codes: [B, n, F] of the first n codebooks, 1 ≤ n ≤ N.
            length: Samples wanted; default: what the network gives, which in models with odd
                strides is a few samples less than F · hop.

        Returns:
            Audio [B, A, T]; exactly `length` samples where it is given (cut, or zeros added).

        Raises:
            ShapeError: Wrong shape, type or range, or `length` beyond F · hop.
        """
        return self.decode_z(self.from_codes(codes), length=length)

    @torch.no_grad()
    def encode_many(
        self,
        audio: Sequence[Tensor],
        *,
        n_codebooks: int | None = None,
        deterministic: bool = False,
    ) -> list[Tensor]:
        """Encode clips of different lengths in one batch, each as if alone.

        Args:
            audio: Clips [A, T_i].
            n_codebooks: Codebooks to use, 1..N; default: all.
            deterministic: See `encode`.

        Returns:
            Codes [N, F_i], int64.

        Raises:
            ShapeError: Wrong shape, type or number of codebooks.
            AudioError: NaN or infinite samples.
        """
        n = checks.check_n_codebooks(n_codebooks, self.rvq)
        if deterministic:
            checks.check_items("audio", audio)
            with self._repeatable() as model:
                return [model.encode(item[None], n_codebooks=n)[0] for item in audio]
        return [self.from_z(z[None], n_codebooks=n)[0] for z in self._encode_z_many(audio)]

    @torch.no_grad()
    def decode_many(
        self, codes: Sequence[Tensor], *, lengths: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Decode codes of different lengths in one batch, each as if alone.

        Args:
            codes: [n_i, F_i].
            lengths: Samples wanted of each; default: what the network gives.

        Returns:
            Audio [A, T_i].

        Raises:
            ShapeError: Wrong shape, type or range.
        """
        checks.check_items("codes", codes)
        return self._decode_z_many([self.from_codes(c[None])[0] for c in codes], lengths)
