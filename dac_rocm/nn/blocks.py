"""Encoder and decoder: convolutions, snakes and residual units, as the paper draws them.

Attribute names are the canonical state-dict names. Nothing here asks which family it is.

Source: Kumar et al. 2023 (arXiv:2306.06546), figure 2.
"""

from __future__ import annotations

from torch import Tensor, nn

from dac_rocm.config import CodecConfig, Half
from dac_rocm.lowering import FIRST_KERNEL, UNIT_KERNEL
from dac_rocm.nn.layers import Conv1d, ConvTranspose1d, Snake1d


class ResidualUnit(nn.Module):
    """Snake, dilated convolution, snake, 1-tap convolution; added to the input.

    Args:
        width: Channels C.
        dilation: Of the first convolution.
        log_scale: See `Snake1d`.
    """

    def __init__(self, width: int, dilation: int, *, log_scale: bool) -> None:
        super().__init__()
        pad = dilation * (UNIT_KERNEL - 1) // 2
        self.block = nn.Sequential(
            Snake1d(width, log_scale=log_scale),
            Conv1d(width, width, UNIT_KERNEL, dilation=dilation, padding=pad),
            Snake1d(width, log_scale=log_scale),
            Conv1d(width, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, T] to [B, C, T]."""
        y: Tensor = self.block(x)
        return x + y


class EncoderBlock(nn.Module):
    """Residual units, snake, strided convolution: [B, C, T] to [B, C', T / stride]."""

    def __init__(self, half: Half, i: int, *, log_scale: bool) -> None:
        super().__init__()
        width = half.levels[i - 1].width if i else half.width
        level = half.levels[i]
        self.block = nn.Sequential(
            *(ResidualUnit(width, d, log_scale=log_scale) for d in half.dilations),
            Snake1d(width, log_scale=log_scale),
            Conv1d(width, level.width, level.kernel, stride=level.stride, padding=level.padding),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, T] to [B, C', T / stride]."""
        y: Tensor = self.block(x)
        return y


class DecoderBlock(nn.Module):
    """Snake, transposed convolution, residual units: [B, C, T] to [B, C', T · stride]."""

    def __init__(self, half: Half, i: int, *, log_scale: bool) -> None:
        super().__init__()
        width = half.levels[i - 1].width if i else half.width
        level = half.levels[i]
        self.block = nn.Sequential(
            Snake1d(width, log_scale=log_scale),
            ConvTranspose1d(
                width,
                level.width,
                level.kernel,
                stride=level.stride,
                padding=level.padding,
                output_padding=level.output_padding,
            ),
            *(ResidualUnit(level.width, d, log_scale=log_scale) for d in half.dilations),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, T] to [B, C', T · stride]."""
        y: Tensor = self.block(x)
        return y


class Encoder(nn.Module):
    """From audio to `z`."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        half, log_scale = config.encoder, config.snake == "log_alpha_beta"
        self.block = nn.Sequential(
            Conv1d(half.in_channels, half.width, FIRST_KERNEL, padding=FIRST_KERNEL // 2),
            *(EncoderBlock(half, i, log_scale=log_scale) for i in range(len(half.levels))),
            Snake1d(half.levels[-1].width, log_scale=log_scale),
            _last_conv(half),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map audio [B, A, T] to z [B, D, F]."""
        z: Tensor = self.block(x)
        return z


class Decoder(nn.Module):
    """From `z` to audio."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        half, log_scale = config.decoder, config.snake == "log_alpha_beta"
        self.model = nn.Sequential(
            Conv1d(half.in_channels, half.width, FIRST_KERNEL, padding=FIRST_KERNEL // 2),
            *(DecoderBlock(half, i, log_scale=log_scale) for i in range(len(half.levels))),
            Snake1d(half.levels[-1].width, log_scale=log_scale),
            _last_conv(half),
            *([nn.Tanh()] if half.final_tanh else []),
        )

    def forward(self, z: Tensor) -> Tensor:
        """Map z [B, D, F] to audio [B, A, T]."""
        x: Tensor = self.model(z)
        return x


def _last_conv(half: Half) -> Conv1d:
    return Conv1d(
        half.levels[-1].width,
        half.out_channels,
        half.last_kernel,
        padding=half.last_kernel // 2,
        bias=half.final_bias,
    )
