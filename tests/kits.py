"""The reference kits: small copies always, the whole ones where `../shared` is there."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dac_rocm.weights import Checkpoint, load_checkpoint

torch.set_num_threads(1)  # small tensors: more threads only wait for each other

COPIES = Path(__file__).parent / "data" / "reference"
SHARED = Path(__file__).parents[2] / "shared" / "reference"
ROOTS = [root for root in (COPIES, SHARED) if root.is_dir()]


class Clip(NamedTuple):
    """One checkpoint and what the original made of one clip."""

    checkpoint: Path
    tensors: Path
    tolerances: dict[str, float]

    def load(self) -> dict[str, Tensor]:
        """Read what is stored; `audio` of the whole kit stands in where a clip has none."""
        stored = load_file(self.tensors)
        if "audio" not in stored:
            stored["audio"] = load_file(self.tensors.with_name("clip_a.safetensors"))["audio"]
        return stored


# Family, then: checkpoints relative to the family's folder, folder of the clips, model in the
# manifest, names of the clips.
KITS = {
    "descript": [
        ("even/weights.pth", "even", "even", None),
        ("even/weights_0.0.5.pth", "even", "even", None),
        ("odd/weights.pth", "odd", "odd", None),
        ("listdim/weights.pth", "listdim", "listdim", None),
    ],
    "transformers": [
        ("main", "main", "main", None),
        ("main_parametrized", "main", "main", None),
        ("custom_hidden", "custom_hidden", "custom_hidden", None),
    ],
    "mova": [("audio_vae", ".", None, None), ("audio_vae_weight_norm", ".", None, None)],
    "hunyuan": [
        ("vae_tiny.pth", ".", None, ("clip_a", "clip_b")),
        ("vae_tiny_fp16.safetensors", ".", None, ("fp16_clip_a",)),
    ],
    "dacvae": [
        ("even/weights.pth", "even", "even", None),
        ("odd/weights.pth", "odd", "odd", None),
    ],
    "oobleck": [("vae", ".", None, None), ("stable_audio_tools", ".", None, None)],
}


def clips(*families: str) -> list[object]:
    """Return a pytest parameter per checkpoint and clip of these families."""
    params: list[object] = []
    for root in ROOTS:
        for family in families:
            manifest = json.loads((root / family / "manifest.json").read_text())
            for checkpoint, folder, model, names in KITS[family]:
                path = root / family / checkpoint
                if not path.exists():
                    continue
                facts = manifest["models"][model] if model else manifest
                for name in names or facts["clips"]:
                    tensors = root / family / folder / f"{name}.safetensors"
                    if tensors.exists():
                        clip = Clip(path, tensors, _tolerances(facts["clips"][name]))
                        label = f"{root.parent.name}-{family}-{checkpoint}-{name}"
                        params.append(pytest.param(clip, id=label))
    return params


def _tolerances(clip: dict[str, object]) -> dict[str, float]:
    noise = clip.get("noise_float32_vs_float64", {})
    return {name: facts["suggested_atol"] for name, facts in noise.items()}


@cache
def load(path: Path) -> Checkpoint:
    """Load a checkpoint once; the fp16 file of Hunyuan's kit says no rate."""
    return load_checkpoint(path, sample_rate=48000 if "fp16" in path.name else None)
