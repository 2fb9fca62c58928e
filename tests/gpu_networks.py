"""The GPU network of a tiny model's half, on the CPU, and signals for it."""

from __future__ import annotations

from dataclasses import replace

import networks as nw
import torch

from dac_rocm.dac import DAC
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


def smallest(**options):
    """A DAC of one level with one residual unit, for what compiles: each step costs seconds."""
    config = nw.descript((2,), (4, 4), 16000)
    halves = (replace(half, dilations=(3,)) for half in (config.encoder, config.decoder))
    config = replace(config, **dict(zip(HALVES, halves, strict=True)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = DAC(config, **{"snake": "eager", **options}).requires_grad_(False).eval()
        nw._fill(model)
        nw._calibrate(model)
    return model.to(torch.float32)


class Recorder:
    """Captures like a GPU: a replay reads the same inputs and writes the same outputs."""

    def __init__(self):
        self.captures = self.replays = 0

    def __call__(self, function):
        self.captures += 1
        outputs = function()

        def replay():
            self.replays += 1
            for static, fresh in zip(outputs, function(), strict=True):
                static.copy_(fresh)

        return outputs, replay
