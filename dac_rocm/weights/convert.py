"""Checkpoints for other readers: transformers' `DacModel` and Descript's `DAC.load`.

What those packages cannot express is refused, never bent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from dac_rocm.atomic import atomic_write
from dac_rocm.config import CodecConfig, GaussianConfig
from dac_rocm.errors import ConfigError, WeightsError
from dac_rocm.weights.checkpoint import Checkpoint
from dac_rocm.weights.fold import LEGACY, unfold
from dac_rocm.weights.layouts.base import Family
from dac_rocm.weights.layouts.descript import CODES, HEADS, KL, doubling_config
from dac_rocm.weights.layouts.transformers import stems
from dac_rocm.weights.save import make_folder, save_checkpoint

TARGETS = ("canonical", "transformers", "descript")
"""What `convert_checkpoint` can write."""


def convert_checkpoint(
    checkpoint: Checkpoint, target: Path, to: str = "canonical", *, overwrite: bool = False
) -> None:
    """Write a checkpoint for another reader.

    Args:
        checkpoint: Both halves.
        target: A folder; for `descript` also the `.pth` file itself.
        to: `canonical` (this package), `transformers` (`DacModel.from_pretrained`) or `descript`
            (`DAC.load`; with a KL head HunyuanVideo-Foley's).
        overwrite: Replace files that are there.

    Raises:
        ConfigError: `to` is another word, or its reader cannot express this codec.
        WeightsError: A half is missing.
        OutputError: The target exists, or cannot be written.
    """
    if to not in TARGETS:
        raise ConfigError(f"to={to!r} found; one of {', '.join(TARGETS)} is expected.")
    if to == "canonical":
        save_checkpoint(
            target,
            checkpoint.config,
            checkpoint.tensors,
            checkpoint.stamp,
            license=checkpoint.license,
            overwrite=overwrite,
        )
        return
    kwargs = constructor_arguments(checkpoint.config)
    if len(checkpoint.parts) < 2:
        raise WeightsError(
            f"only the {checkpoint.parts[0]} found; both halves are expected. "
            "Take a complete checkpoint."
        )
    if to == "descript":
        path = target if target.suffix == ".pth" else make_folder(target) / "weights.pth"
        state = dict(_unfolded(checkpoint.tensors))
        with atomic_write(path, overwrite=overwrite) as file:
            torch.save({"state_dict": state, "metadata": {"kwargs": kwargs}}, file)
        return
    files = _transformers_files(checkpoint, kwargs)
    for name, content in files.items():
        with atomic_write(make_folder(target) / name, overwrite=overwrite) as file:
            file.write(content)


def constructor_arguments(config: CodecConfig) -> dict[str, Any]:
    """Return the arguments of Descript's `DAC` that mean this config.

    Raises:
        ConfigError: There are none.
    """
    continuous = isinstance(config.bottleneck, GaussianConfig)
    shape: dict[str, Any] = {
        "encoder_dim": config.encoder.width,
        "encoder_rates": tuple(level.stride for level in config.encoder.levels),
        "latent_dim": config.encoder.out_channels,
        "decoder_dim": config.decoder.width,
        "decoder_rates": tuple(level.stride for level in config.decoder.levels),
        "sample_rate": config.sample_rate,
    }
    family = KL if continuous else CODES
    if not _means(config, family, shape):
        raise ConfigError(
            "a codec found that is no plain DAC or MOVA-like VAE (widths, strides or rules "
            "differ); Descript's constructor cannot express it. Convert to `canonical`."
        )
    lists = {name: list(v) if isinstance(v, tuple) else v for name, v in shape.items()}
    if isinstance(config.bottleneck, GaussianConfig):
        return {**lists, "continuous": True}
    dims = list(config.bottleneck.codebook_dims)
    return {
        **lists,
        "n_codebooks": len(dims),
        "codebook_size": config.bottleneck.codebook_size,
        "codebook_dim": dims[0] if len(set(dims)) == 1 else dims,
        "quantizer_dropout": False,
    }


def _means(config: CodecConfig, family: Family, shape: Mapping[str, Any]) -> bool:
    try:
        return doubling_config(family, config.bottleneck, **shape) == config
    except ConfigError:
        return False


def _unfolded(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield Descript's names and tensors: weight norm on every convolution but the KL heads."""
    heads = {ours: theirs for theirs, ours in HEADS.items()}
    for name, tensor in tensors.items():
        head = next((ours for ours in heads if name.startswith(ours)), None)
        if head is not None:
            yield heads[head] + name.removeprefix(head), tensor
        elif tensor.ndim == 3 and name.endswith(".weight"):
            for leaf, part in zip(LEGACY, unfold(tensor), strict=True):
                yield name.removesuffix(".weight") + leaf, part
        else:
            yield name, tensor


def _transformers_files(checkpoint: Checkpoint, kwargs: Mapping[str, Any]) -> dict[str, bytes]:
    config = checkpoint.config
    if isinstance(config.bottleneck, GaussianConfig) or isinstance(kwargs["codebook_dim"], list):
        raise ConfigError(
            "latents, or codebooks of several widths, found; `DacModel` has codebooks of one "
            "width. Convert to `canonical` or `descript`."
        )
    names = {
        ours: theirs
        for theirs, ours in stems(len(config.encoder.levels), len(config.decoder.levels)).items()
    }
    tensors = {}
    for name, tensor in checkpoint.tensors.items():
        stem, _, leaf = name.rpartition(".")
        tensors[f"{names.get(stem, stem)}.{leaf}"] = tensor
    extractor = {
        "feature_extractor_type": "DacFeatureExtractor",
        "feature_size": 1,
        "hop_length": config.hop_length,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": True,
        "sampling_rate": config.sample_rate,
    }
    return {
        "model.safetensors": save(tensors, {"format": "pt"}),
        "config.json": _text(_dac_config(config, kwargs)),
        "preprocessor_config.json": _text(extractor),
    }


def _dac_config(config: CodecConfig, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["DacModel"],
        "model_type": "dac",
        "dtype": "float32",
        "encoder_hidden_size": kwargs["encoder_dim"],
        "downsampling_ratios": kwargs["encoder_rates"],
        "decoder_hidden_size": kwargs["decoder_dim"],
        "upsampling_ratios": kwargs["decoder_rates"],
        "hidden_size": kwargs["latent_dim"],
        "n_codebooks": kwargs["n_codebooks"],
        "codebook_size": kwargs["codebook_size"],
        "codebook_dim": kwargs["codebook_dim"],
        "hop_length": config.hop_length,
        "sampling_rate": config.sample_rate,
    }


def _text(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, indent=2) + "\n").encode()
