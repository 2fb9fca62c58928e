"""The GPU network of a tiny model's half, on the CPU, and signals for it."""

from __future__ import annotations

import networks as nw

from dac_rocm.nn.layers import Snake1d
from dac_rocm.runtime.gpu import GpuNetwork

HALVES = ("encoder", "decoder")


def gpu_network(model, half, *, padded=True, **options):
    """The GPU network of a half; its snakes are eager."""
    snakes = {n: m for n, m in model.named_modules() if isinstance(m, Snake1d)}
    tensors = dict(model.named_parameters())
    options = {"backend": "eager", **options}
    return GpuNetwork(model.steps(half, padded=padded), tensors, snakes, **options)


def unit(model, half):
    """Inputs per frame."""
    return model.hop_length if half == "encoder" else 1


def signal(model, half, frames, batch=2):
    """Input of a half, of its model's type."""
    config = model.config
    channels = config.audio_channels if half == "encoder" else config.decoder.in_channels
    return nw.noise(batch, channels, frames * unit(model, half), dtype=model.dtype)
