"""How each package encodes and decodes: one function per package, which loads and returns both.

A function takes the folder that `prepare` wrote, the threads to use, and options; it returns
`encode(audio)` and `decode(data)` on numpy arrays. Only the package itself is imported, so that its
memory is its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[np.ndarray], np.ndarray]
Pair = tuple[Run, Run]


def ours(folder: Path, threads: int, *, dtype: str = "float32", optimize: bool = True) -> Pair:
    """Run this package; for a VAE, encoding gives the mean."""
    torch = _torch(threads)
    import dac_rocm

    model = dac_rocm.load(folder / "canonical", device="cpu", dtype=dtype, optimize=optimize)

    def encode(audio: np.ndarray) -> np.ndarray:
        found = model.encode(torch.from_numpy(audio))
        return found.numpy() if isinstance(found, torch.Tensor) else found.mean.float().numpy()

    def decode(data: np.ndarray) -> np.ndarray:
        return model.decode(torch.from_numpy(data)).float().numpy()

    return encode, decode


def descript(folder: Path, threads: int) -> Pair:
    """Run descript-audio-codec as it comes, weight norm and all."""
    torch = _torch(threads)
    import dac

    model = dac.DAC.load(str(folder / "descript" / "weights.pth")).eval()

    def encode(audio: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model.encode(torch.from_numpy(audio))[1].numpy()

    def decode(codes: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model.decode(model.quantizer.from_codes(torch.from_numpy(codes))[0]).numpy()

    return encode, decode


def transformers(folder: Path, threads: int) -> Pair:
    """Run transformers' `DacModel`."""
    torch = _torch(threads)
    from transformers import DacModel

    model = DacModel.from_pretrained(folder / "transformers").eval()

    def encode(audio: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model.encode(torch.from_numpy(audio)).audio_codes.numpy()

    def decode(codes: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            found = model.decode(audio_codes=torch.from_numpy(codes)).audio_values
        return found.reshape(codes.shape[0], 1, -1).numpy()

    return encode, decode


def onnx(folder: Path, threads: int) -> Pair:
    """Run ONNX Runtime on the two graphs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1

    def run(name: str) -> Run:
        path = folder / "onnx" / f"{name}.onnx"
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda x: session.run(None, {"input": x})[0]

    return run("encode"), run("decode")


def openvino(folder: Path, threads: int, *, precision: str = "f32") -> Pair:
    """Run OpenVINO on the two graphs, which it reads as ONNX files."""
    import openvino as ov

    core = ov.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": precision,
    }

    def run(name: str) -> Run:
        compiled = core.compile_model(folder / "onnx" / f"{name}.onnx", "CPU", settings)
        request = compiled.create_infer_request()
        return lambda x: np.asarray(request.infer([x])[0])

    return run("encode"), run("decode")


def _torch(threads: int) -> Any:
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(threads)
    return torch
