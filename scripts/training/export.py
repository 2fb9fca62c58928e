#!/usr/bin/env python3
"""Write a checkpoint's smoothed weights as the package ships them: fp16 tensors and a config."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dac_rocm.config import CodecConfig
from dac_rocm.encoded import ModelStamp
from dac_rocm.lowering import tensor_shapes
from dac_rocm.weights.save import config_json

LICENSE = "CC-BY-SA-4.0"
"""Of the weights: set A of the training data is attribution and share-alike."""
TITLES = {
    "tiny": "Bundled codec, 16 kHz, 8 kbit/s",
    "tiny-vae": "Bundled continuous codec, 16 kHz",
}


def export(state: dict[str, Any], name: str, folder: Path) -> str:
    """Write `folder/NAME.safetensors` and `folder/NAME.json`.

    Args:
        state: Checkpoint of `Trainer.save`.
        name: Of the model.
        folder: Made if it is not there.

    Returns:
        SHA-256 of the tensor file, hexadecimal.
    """
    config = CodecConfig.from_dict(state["config"])
    tensors = {n: state["smooth"][n].detach().half().contiguous() for n in tensor_shapes(config)}
    if not all(torch.isfinite(t).all() for t in tensors.values()):
        raise ValueError("values beyond fp16 found; finite ones are expected. Train on.")
    folder.mkdir(parents=True, exist_ok=True)
    content = save(tensors, {"format": "pt"})
    (folder / f"{name}.safetensors").write_bytes(content)
    fields = json.loads(config_json(config, ModelStamp(name=name), LICENSE, tensors))
    text = json.dumps({**fields, "title": TITLES[name]}, indent=2) + "\n"
    (folder / f"{name}.json").write_text(text)
    return hashlib.sha256(content).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("name", choices=("tiny", "tiny-vae"))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    state = torch.load(args.checkpoint, weights_only=True)
    print(export(state, args.name, args.folder), f"after {state['step']} steps")


if __name__ == "__main__":
    main()
