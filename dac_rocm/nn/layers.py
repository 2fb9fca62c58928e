"""The activation as a module, and torch's modules of weights without values on the meta device."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dac_rocm.ops.snake import snake


class _ValuesLater:
    """Draws no values on the meta device: torch would import its compiler for them."""

    weight: Tensor

    def reset_parameters(self) -> None:
        """Draw initial values, where there are values."""
        if not self.weight.is_meta:
            super().reset_parameters()  # type: ignore[misc]


class Conv1d(_ValuesLater, nn.Conv1d):
    """torch's convolution."""


class ConvTranspose1d(_ValuesLater, nn.ConvTranspose1d):
    """torch's transposed convolution."""


class Embedding(_ValuesLater, nn.Embedding):
    """torch's table of entries."""


class Snake1d(nn.Module):
    """Snake with one frequency per channel.

    Args:
        channels: Channels C.
        log_scale: The parameters are `alpha` and `beta`, both as logarithms (Oobleck).
        backend: `auto`, or the name of a backend of `ops.snake`.
    """

    def __init__(self, channels: int, *, log_scale: bool = False, backend: str = "auto") -> None:
        super().__init__()
        self.backend = backend
        self.log_scale = log_scale
        start = torch.zeros if log_scale else torch.ones
        self.alpha = nn.Parameter(start(1, channels, 1))
        if log_scale:
            self.beta = nn.Parameter(start(1, channels, 1))

    def coefficients(self) -> tuple[Tensor, Tensor]:
        """Return linear α and β, each [1, C, 1]."""
        if not self.log_scale:
            return self.alpha, self.alpha
        return self.alpha.exp(), self.beta.exp()

    def forward(self, x: Tensor) -> Tensor:
        """Apply Snake to [B, C, T]; the shape stays."""
        alpha, beta = self.coefficients()
        return snake(x, alpha, beta, self.backend)
