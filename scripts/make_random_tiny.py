#!/usr/bin/env python
"""Write a small codec with random weights, until a trained one takes its place.

The weights are scaled so that every layer passes a spread near 1 on, and so that each codebook
takes something off what the ones before left over.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from dac_rocm.atomic import atomic_write
from dac_rocm.config import CodecConfig, RVQConfig
from dac_rocm.encoded import ModelStamp
from dac_rocm.lowering import tensor_shapes
from dac_rocm.weights.layouts.descript import CODES, doubling_config
from dac_rocm.weights.save import config_json

ASSETS = Path(__file__).parents[1] / "dac_rocm" / "assets"
WIDTH, CODEBOOK_DIM = 64, 8


def tiny_config() -> CodecConfig:
    """Return the shape: 16 kHz, hop 320, 16 codebooks."""
    return doubling_config(
        CODES,
        RVQConfig(codebook_size=1024, codebook_dims=(CODEBOOK_DIM,) * 16),
        sample_rate=16000,
        encoder_dim=8,
        encoder_rates=(2, 4, 5, 8),
        latent_dim=WIDTH,
        decoder_dim=192,
        decoder_rates=(8, 5, 4, 2),
    )


def random_tensor(name: str, shape: tuple[int, ...], config: CodecConfig) -> Tensor:
    """Draw one tensor of the encoder or decoder."""
    if name.endswith("bias"):
        return torch.randn(shape) * 0.01
    if name.endswith("alpha"):
        return torch.rand(shape) * 1.5 + 0.3
    inputs = math.prod(shape[1:])
    for i, level in enumerate(config.decoder.levels, 1):
        if name == f"decoder.model.{i}.block.1.weight":
            inputs = shape[0] * level.kernel // level.stride
    gains = {"encoder.block.0.weight": 4.0, "decoder.model.6.weight": 0.1}
    gain = 0.4 if name.endswith("block.3.weight") else gains.get(name, 1.0)
    return torch.randn(shape) * gain / math.sqrt(inputs)


def random_quantizer(n: int) -> dict[str, Tensor]:
    """Draw codebooks that look at one slice of a rotated space each, turn by turn."""
    rotation = torch.linalg.qr(torch.randn(WIDTH, WIDTH)).Q
    tensors = {}
    for q in range(n):
        start = q * CODEBOOK_DIM % WIDTH
        rows = rotation[start : start + CODEBOOK_DIM]
        scale = 0.5 ** (q * CODEBOOK_DIM // WIDTH)
        prefix = f"quantizer.quantizers.{q}"
        tensors[f"{prefix}.in_proj.weight"] = rows[:, :, None].contiguous()
        tensors[f"{prefix}.in_proj.bias"] = torch.zeros(CODEBOOK_DIM)
        tensors[f"{prefix}.out_proj.weight"] = rows.T[:, :, None].contiguous()
        tensors[f"{prefix}.out_proj.bias"] = torch.zeros(WIDTH)
        tensors[f"{prefix}.codebook.weight"] = torch.randn(1024, CODEBOOK_DIM) * scale
    return tensors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ASSETS)
    parser.add_argument("--force", action="store_true", help="replace what is there")
    options = parser.parse_args()
    torch.manual_seed(20)
    config = tiny_config()
    tensors = {
        name: random_tensor(name, shape, config) for name, shape in tensor_shapes(config).items()
    }
    tensors |= random_quantizer(config.bottleneck.n_codebooks)
    fields = json.loads(config_json(config, ModelStamp(name="tiny"), "CC0-1.0", tensors))
    fields["random_weights"] = True
    files = {
        "tiny.safetensors": save(tensors, {"format": "pt"}),
        "tiny.json": (json.dumps(fields, indent=2) + "\n").encode(),
    }
    for name, content in files.items():
        with atomic_write(options.folder / name, overwrite=options.force) as file:
            file.write(content)
    values = sum(tensor.numel() for tensor in tensors.values())
    print(f"{options.folder / 'tiny.safetensors'}: {len(tensors)} tensors, {values:,} values")


if __name__ == "__main__":
    main()
