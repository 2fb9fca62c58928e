"""Weights, input and true results for the bench: random weights that behave like trained ones.

Every convolution is scaled on real audio so that its output has a spread near 1. The weights are
saved once and converted by this package into what each peer loads; the truth is what the readable
modules give in float64.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dac_rocm import DAC, DACVAE
from dac_rocm.audio.files import read_audio
from dac_rocm.audio.resample import resample
from dac_rocm.codec import Codec
from dac_rocm.config import CodecConfig, RVQConfig
from dac_rocm.encoded import ModelStamp
from dac_rocm.errors import ConfigError
from dac_rocm.nn.layers import Snake1d
from dac_rocm.presets import list_bundled, preset
from dac_rocm.weights import Checkpoint, convert_checkpoint

ROOT = Path(__file__).parents[3]
EXCERPT_SECONDS = 0.15
"""Of each clip, on which the weights are scaled."""
POWER = 0.1
"""Root of the mean square of a clip."""
SPREAD, AUDIO_SPREAD = 0.8, 0.25
"""Standard deviation of what a convolution gives, and of the decoded audio (before its tanh)."""


def config_of(name: str) -> CodecConfig:
    """Return the shape of a preset or of a bundled model."""
    bundled = {known.name: known for known in list_bundled()}
    found = preset(name) or bundled.get(name)
    if found is None:
        sys.exit(f"model {name!r} found; a name that `dac-rocm models` lists is expected")
    return found.config


def clips(config: CodecConfig) -> list[np.ndarray]:
    """Return the recordings of the tests, each [1, n] at the model's rate and of equal power."""
    found = []
    for path in sorted((ROOT / "tests/data/audio").glob("*_*.*")):
        audio, rate = read_audio(path)
        mono = np.asarray(audio, np.float32).mean(0, keepdims=True)
        mono *= POWER / np.sqrt(np.mean(mono**2))
        found.append(np.asarray(resample(mono, rate, config.sample_rate)))
    return found


def recording(config: CodecConfig, seconds: float) -> Tensor:
    """Return audio [1, A, T], T whole frames: the clips end to end, and again."""
    return _whole_frames(config, np.concatenate(clips(config), -1), seconds)


def excerpt(config: CodecConfig) -> Tensor:
    """Return audio [1, A, T] with something from the middle of each clip."""
    n = round(EXCERPT_SECONDS * config.sample_rate)
    pieces = [clip[:, (clip.shape[-1] - n) // 2 :][:, :n] for clip in clips(config)]
    return _whole_frames(config, np.concatenate(pieces, -1), EXCERPT_SECONDS * len(pieces))


def _whole_frames(config: CodecConfig, audio: np.ndarray, seconds: float) -> Tensor:
    length = max(1, round(seconds * config.frame_rate)) * config.hop_length
    tiled = np.tile(audio, (config.audio_channels, -(-length // audio.shape[-1])))
    return torch.from_numpy(tiled[None, :, :length]).float().clamp(-1, 1)


def build(config: CodecConfig, audio: Tensor) -> Codec:
    """Make a model with random weights, the same every time, scaled on `audio`."""
    torch.manual_seed(0)
    kind = DAC if isinstance(config.bottleneck, RVQConfig) else DACVAE
    model = kind(config, snake="eager").requires_grad_(False).eval()
    for module in model.modules():
        if isinstance(module, Snake1d):
            _fill_snake(module)
        elif isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
            module.weight.normal_()
            if module.bias is not None:
                module.bias.uniform_(-0.1, 0.1)
        elif isinstance(module, nn.Embedding):
            module.weight.normal_()
    kinds = (nn.Conv1d, nn.ConvTranspose1d)
    hooks = [m.register_forward_hook(_scale) for m in model.modules() if isinstance(m, kinds)]
    model.decoder(_inner(model, model.encoder(audio)))
    for hook in hooks:
        hook.remove()
    model.to(torch.float32)  # what the quantizers derive from the weights follows
    return model


def _fill_snake(module: Snake1d) -> None:
    for value in (module.alpha, *([module.beta] if module.log_scale else [])):
        drawn = torch.empty_like(value).uniform_(0.3, 2.0)
        value.copy_(drawn.log() if module.log_scale else drawn)


def _scale(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    bias = 0 if module.bias is None else module.bias.reshape(1, -1, 1)
    wanted = AUDIO_SPREAD if output.shape[1] <= 2 else SPREAD
    factor = wanted / (output - bias).std().clamp_min(1e-6)
    module.weight.mul_(factor)
    return (output - bias) * factor + bias


def _inner(model: Codec, z: Tensor) -> Tensor:
    """Run the bottleneck: what the decoder gets of what the encoder gave."""
    if isinstance(model, DAC):
        return model.quantizer(z).z
    return model.quantizer.decode(model.quantizer(z).mean)


def truth(model: Codec, audio: Tensor) -> dict[str, np.ndarray]:
    """Encode and decode by the readable modules in float64.

    Returns:
        `data`: codes [1, N, F] or mean latents [1, D, F]; `audio`: what they decode to.
    """
    twin = model.double()
    z = twin.encoder(audio.double())
    data = twin.quantizer(z).codes if isinstance(twin, DAC) else twin.quantizer(z).mean
    found = {"data": data.numpy(), "audio": twin.decoder(_inner(twin, z)).numpy()}
    model.float()
    return found


def spread_of(codes: np.ndarray) -> float:
    """Distinct codes of a codebook, as a share of as many as there could be at this length."""
    size = max(1, min(codes.max() + 1, codes.shape[-1]))
    return float(np.mean([len(np.unique(row)) / size for row in codes[0]]))


def prepare(folder: Path, name: str, config: CodecConfig, seconds: float) -> None:
    """Write the weights in every layout, the input and the truth."""
    audio = recording(config, seconds)
    with torch.no_grad():
        model = build(config, excerpt(config))
        _save(model, folder, name)
        found = truth(model, audio)
    np.save(folder / "input.npy", audio.numpy())
    for key, value in found.items():
        np.save(folder / f"true_{key}.npy", value)
    facts = {"model": name, "asked_seconds": seconds}
    facts |= {"seconds": audio.shape[-1] / config.sample_rate, "sample_rate": config.sample_rate}
    facts |= {"kind": "codes" if isinstance(model, DAC) else "latents"}
    facts |= {"audio_peak": float(np.abs(found["audio"]).max())}
    if isinstance(model, DAC):
        facts["spread_of_codes"] = spread_of(found["data"])
    (folder / "facts.json").write_text(json.dumps(facts))


def _save(model: Codec, folder: Path, name: str) -> None:
    checkpoint = Checkpoint(
        config=model.config,
        tensors=model.state_dict(),
        stamp=ModelStamp(name=f"random {name}"),
        parts=("encoder", "decoder"),
        layout="canonical",
    )
    convert_checkpoint(checkpoint, folder / "canonical", overwrite=True)
    for target in ("transformers", "descript") if isinstance(model, DAC) else ():
        with suppress(ConfigError):  # a peer that cannot express this codec is left out
            convert_checkpoint(checkpoint, folder / target, target, overwrite=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("model")
    parser.add_argument("seconds", type=float)
    parser.add_argument("threads", type=int)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    prepare(options.folder, options.model, config_of(options.model), options.seconds)
