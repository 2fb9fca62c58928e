"""Codecs become folders that this package, and the Hub, can read.

Files appear whole or not at all. This room must not change tensors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from dac_rocm.atomic import atomic_write
from dac_rocm.config import CodecConfig
from dac_rocm.encoded import ModelStamp
from dac_rocm.errors import OutputError
from dac_rocm.weights.layouts.canonical import FORMAT
from dac_rocm.weights.read import EMBEDDED

CARD = """---
library_name: dac_rocm
tags: [audio, codec]
{license}
---

# {name}

{numbers}.

```python
import dac_rocm

model = dac_rocm.load("path or Hub id of this folder")
```
"""
"""What a model card says at first."""


def save_checkpoint(
    folder: str | os.PathLike[str],
    config: CodecConfig,
    tensors: Mapping[str, Tensor],
    stamp: ModelStamp,
    *,
    license: str | None = None,  # noqa: A002
    overwrite: bool = False,
) -> None:
    """Write config.json, model.safetensors and README.md.

    Args:
        folder: Made if it is not there.
        config: Shape of the codec.
        tensors: Canonical names; one half, or all.
        stamp: Name and fingerprints. Where the tensors are not float32, the fingerprints are
            written as those of the parent, so that files of both models can be told to fit.
        license: Of the weights.
        overwrite: Replace files that are there.

    Raises:
        OutputError: A file is there already, or the folder cannot be written.
    """
    target = make_folder(Path(folder))
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = config_json(config, stamp, license, plain)
    files = {
        "model.safetensors": save(plain, {"format": "pt", EMBEDDED: text}),
        "config.json": text.encode(),
        "README.md": model_card(config, stamp, license).encode(),
    }
    for name, content in files.items():
        with atomic_write(target / name, overwrite=overwrite) as file:
            file.write(content)


def make_folder(folder: Path) -> Path:
    """Make a folder, unless it is there.

    Raises:
        OutputError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder}: {error.strerror or error} found; a folder that can be written is "
            "expected. Choose another one."
        ) from error
    return folder


def config_json(
    config: CodecConfig,
    stamp: ModelStamp,
    license: str | None,  # noqa: A002
    tensors: Mapping[str, Tensor],
) -> str:
    """Return the text of config.json."""
    fields = {"format": FORMAT, "version": 1, "name": stamp.name, "license": license}
    if any(tensor.itemsize < 4 for tensor in tensors.values()):
        fields["parent"] = dict(stamp.fingerprints)
    fields["config"] = config.to_dict()
    return json.dumps(fields, indent=2) + "\n"


def model_card(config: CodecConfig, stamp: ModelStamp, license: str | None) -> str:  # noqa: A002
    """Return the text of a model card to be filled in."""
    rate = f", {config.bitrate / 1000:g} kbit/s" if config.bitrate else ""
    return CARD.format(
        license=f"license: {license}" if license else "# license: of the weights",
        name=stamp.name or "A codec of the DAC family",
        numbers=f"{config.sample_rate} Hz, {config.frame_rate:g} frames per second{rate}",
    )
