"""Tiny codecs of every family shape, with random weights that are not degenerate.

Each convolution is scaled on a first run so that what comes out of it has a spread near 1; snake
alphas lie in 0.3 to 2, with some 0, tiny and negative, as trained ones do.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, nn

from dac_rocm.codec import Codec
from dac_rocm.config import CodecConfig, GaussianConfig, Half, Level, RVQConfig
from dac_rocm.dac import DAC
from dac_rocm.dacvae import DACVAE
from dac_rocm.nn.layers import Snake1d
from dac_rocm.runtime.convolution import choose_convolution
from dac_rocm.weights.stamp import stamp_of

torch.set_num_threads(1)  # these networks are too small to share: threads would only wait


def half(audio, width, strides, z, *, decoder=False, floor=False, keep=False, **options):
    """An encoder or decoder whose widths double or halve, 2 · stride taps per level."""
    levels = []
    for i, stride in enumerate(strides, 1):
        levels.append(
            Level(
                width=max(2, width // 2**i) if decoder else width * 2**i // 2 + 1,
                stride=stride,
                kernel=2 * stride,
                padding=stride // 2 if floor else -(-stride // 2),
                output_padding=stride % 2 if keep else 0,
            )
        )
    ends = (z, audio) if decoder else (audio, z)
    return Half(
        in_channels=ends[0],
        width=width,
        levels=tuple(levels),
        out_channels=ends[1],
        last_kernel=7 if decoder else 3,
        **options,
    )


def descript(strides, dims, rate):
    """Codebooks, tanh, zero padding, odd strides fall short."""
    up = tuple(reversed(strides))
    return CodecConfig(
        sample_rate=rate,
        encoder=half(1, 4, strides, 10),
        decoder=half(1, 12, up, 10, decoder=True, final_tanh=True),
        bottleneck=RVQConfig(codebook_size=32, codebook_dims=dims),
    )


def vae(strides, rate, spread, *, keep=False, floor=False, input_padding="zero"):
    """Latents behind 1-tap projections, tanh."""
    up = tuple(reversed(strides))
    return CodecConfig(
        sample_rate=rate,
        encoder=half(1, 4, strides, 9, floor=floor),
        decoder=half(1, 12, up, 8, decoder=True, keep=keep, final_tanh=True),
        bottleneck=GaussianConfig(latent_channels=5, spread=spread, in_proj=True, out_proj=True),
        input_padding=input_padding,
    )


def oobleck(strides, rate):
    """Stereo, logarithmic alpha and beta, no projections, no last bias, no tanh."""
    up = tuple(reversed(strides))
    return CodecConfig(
        sample_rate=rate,
        encoder=half(2, 4, strides, 12),
        decoder=half(2, 12, up, 6, decoder=True, final_bias=False),
        bottleneck=GaussianConfig(
            latent_channels=6, spread="softplus", in_proj=False, out_proj=False
        ),
        snake="log_alpha_beta",
    )


CONFIGS = {
    "even": descript((2, 4, 4), (4, 4, 4, 4), 16000),
    "odd": descript((2, 4, 5), (6, 6, 6), 24000),
    "listdim": descript((2, 3, 2), (2, 4, 8), 44100),
    "mova": vae((2, 3, 5), 48000, "logvar", keep=True),
    "meta": vae((2, 4, 4), 48000, "softplus", keep=True, floor=True, input_padding="reflect"),
    "meta_odd": vae((2, 3, 5), 48000, "softplus", keep=True, floor=True, input_padding="reflect"),
    "oobleck": oobleck((2, 4, 3), 44100),
}
"""Every rule of the family occurs in one of them."""
SHAPES = tuple(CONFIGS)
CODES = ("even", "odd", "listdim")
LATENTS = ("mova", "meta", "meta_odd", "oobleck")


def build(name: str, seed: int = 0, dtype: torch.dtype = torch.float32) -> Codec:
    """A fresh model with a stamp and no gradients."""
    config = CONFIGS[name]
    kind = DAC if isinstance(config.bottleneck, RVQConfig) else DACVAE
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 * SHAPES.index(name) + seed)
        model = kind(config, snake="eager").requires_grad_(False).eval()
        _fill(model)
        _calibrate(model)
    model.to(torch.float32)  # the search entries of the codebooks follow
    model.stamp = stamp_of(f"{name}-{seed}", model.state_dict())
    return model.to(dtype)


@cache
def shared(name: str, dtype: torch.dtype = torch.float32) -> Codec:
    """A model that tests share and must not change."""
    return build(name, dtype=dtype)


def _fill(model: Codec) -> None:
    for module in model.modules():
        if isinstance(module, Snake1d):
            n = module.alpha.shape[1]
            alpha = torch.empty(1, n, 1).uniform_(0.3, 2.0)
            if module.log_scale:
                module.alpha.copy_(alpha.log())
                module.beta.copy_(torch.empty(1, n, 1).uniform_(0.3, 2.0).log())
                continue
            odd = torch.tensor([0.0, 1e-9, -0.7]).repeat(n)[:n].reshape(1, n, 1)
            module.alpha.copy_(torch.where(torch.rand(1, n, 1) < 0.25, odd, alpha))
        elif isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
            module.weight.normal_()
            if module.bias is not None:
                module.bias.uniform_(-0.3, 0.3)
        elif isinstance(module, nn.Embedding):
            module.weight.normal_()


def _calibrate(model: Codec) -> None:
    """Scale every convolution so that its output has a spread near 1 on noise."""

    def scale(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        wanted = 0.3 if output.shape[1] <= 2 else 0.8
        factor = wanted / output.std().clamp_min(1e-6)
        module.weight.mul_(factor)
        if module.bias is None:
            return output * factor
        bias = module.bias.reshape(1, -1, 1)
        return (output - bias) * factor + bias

    kinds = (nn.Conv1d, nn.ConvTranspose1d)
    hooks = [m.register_forward_hook(scale) for m in model.modules() if isinstance(m, kinds)]
    hop = model.hop_length
    z = model.encoder(0.3 * torch.randn(2, model.config.audio_channels, 40 * hop))
    if isinstance(model, DAC):
        z = model.quantizer(z).z
    else:
        z = model.quantizer.decode(model.quantizer(z).mean)
    model.decoder(z)
    for hook in hooks:
        hook.remove()


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Noise with a spread of 0.3."""
    generator = torch.Generator().manual_seed(seed)
    return 0.3 * torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def frames(model: Codec, batch: int, n: int, seed: int = 0) -> Tensor:
    """What `decode` of this model takes: random codes or latents of n frames."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(model, DAC):
        shape = (batch, model.rvq.n_codebooks, n)
        return torch.randint(model.rvq.codebook_size, shape, generator=generator)
    return torch.randn(
        batch, model.latent_channels, n, generator=generator, dtype=torch.float64
    ).to(model.dtype)


def gaps(model: DAC, z: Tensor) -> Tensor:
    """Distance by which the best entry wins [B, N, F], in float64, residuals as the model has."""
    residual = z.double()
    found = []
    for quantizer in model.quantizer.quantizers:
        weight, bias = quantizer.in_proj.weight.double(), quantizer.in_proj.bias.double()
        asked = nn.functional.conv1d(residual, weight, bias)
        entries = nn.functional.normalize(quantizer.codebook.weight.double())
        wide = nn.functional.normalize(asked, dim=1).transpose(1, 2)
        best = (2 * (wide @ entries.T)).topk(2, dim=-1).values
        found.append(best[..., 0] - best[..., 1])
        index = (wide @ entries.T).argmax(-1)
        part = quantizer.codebook.weight.double()[index].transpose(1, 2)
        weight, bias = quantizer.out_proj.weight.double(), quantizer.out_proj.bias.double()
        residual = residual - nn.functional.conv1d(part, weight, bias)
    return torch.stack(found, 1)


def sure(gap: Tensor, least: float) -> Tensor:
    """Codes that rounding cannot change: no near tie at this codebook or at an earlier one."""
    return (gap > least).cumprod(1).bool()


def packed_or_skip() -> None:
    """Skip a test of oneDNN's packed calls where torch does not have them."""
    if choose_convolution().name != "onednn":
        pytest.skip("oneDNN's packed calls are not to be had")
