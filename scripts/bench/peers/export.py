"""The network as two ONNX graphs of fixed length, for ONNX Runtime and OpenVINO.

They come from the readable modules of this package, which are the same graph and weights. Runs in
the venv `onnx`.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import dac_rocm

OPSET = 18


class Encode(nn.Module):
    """Audio [1, A, T] to codes [1, N, F] or mean latents [1, D, F]."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.encoder, self.quantizer = model.encoder, model.quantizer

    def forward(self, audio: Tensor) -> Tensor:
        """Encode."""
        found = self.quantizer(self.encoder(audio))
        return found.codes if hasattr(found, "codes") else found.mean


class Decode(nn.Module):
    """Codes or latents to audio."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.decoder, self.quantizer = model.decoder, model.quantizer
        self.is_discrete = hasattr(self.quantizer, "from_codes")

    def forward(self, data: Tensor) -> Tensor:
        """Decode."""
        inner = self.quantizer.from_codes if self.is_discrete else self.quantizer.decode
        return self.decoder(inner(data))


def export(folder: Path) -> None:
    """Write `encode.onnx` and `decode.onnx`."""
    model = dac_rocm.load(folder / "canonical", device="cpu", snake="eager", optimize=False)
    (folder / "onnx").mkdir(exist_ok=True)
    data = np.load(folder / "true_data.npy")
    inputs = {
        "encode": (Encode(model), np.load(folder / "input.npy")),
        "decode": (Decode(model), data if data.dtype == np.int64 else data.astype(np.float32)),
    }
    for name, (module, example) in inputs.items():
        torch.onnx.export(
            module.eval(),
            (torch.from_numpy(example),),
            folder / "onnx" / f"{name}.onnx",
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            input_names=["input"],
            output_names=["output"],
            verbose=False,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # of operators that torchvision would add
    with torch.no_grad():
        export(parser.parse_args().folder)
