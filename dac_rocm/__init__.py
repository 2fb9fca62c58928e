"""dac_rocm: the Descript Audio Codec family, inference only.

Public names are resolved at first use: importing this package loads neither torch nor numpy,
compiles nothing and sets nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dac_rocm.config import CodecConfig as CodecConfig
    from dac_rocm.container import read_encoded as read_encoded
    from dac_rocm.container import write_encoded as write_encoded
    from dac_rocm.dac import DAC as DAC
    from dac_rocm.dacvae import DACVAE as DACVAE
    from dac_rocm.encoded import EncodedAudio as EncodedAudio
    from dac_rocm.errors import DacError as DacError
    from dac_rocm.model import load as load
    from dac_rocm.model import optimize as optimize
    from dac_rocm.nn.gaussian import Gaussian as Gaussian
    from dac_rocm.nn.rvq import Quantized as Quantized
    from dac_rocm.pipeline import decode_audio as decode_audio
    from dac_rocm.pipeline import decode_file as decode_file
    from dac_rocm.pipeline import encode_audio as encode_audio
    from dac_rocm.pipeline import encode_file as encode_file
    from dac_rocm.presets import list_models as list_models
    from dac_rocm.runtime.backends import conv_backend as conv_backend
    from dac_rocm.runtime.backends import deterministic as deterministic
    from dac_rocm.streaming import stream_decoder as stream_decoder
    from dac_rocm.streaming import stream_encoder as stream_encoder

__version__ = "0.1.0"

_HOMES = {
    "CodecConfig": "config",
    "DAC": "dac",
    "DACVAE": "dacvae",
    "DacError": "errors",
    "EncodedAudio": "encoded",
    "Gaussian": "nn.gaussian",
    "Quantized": "nn.rvq",
    "conv_backend": "runtime.backends",
    "decode_audio": "pipeline",
    "decode_file": "pipeline",
    "deterministic": "runtime.backends",
    "encode_audio": "pipeline",
    "encode_file": "pipeline",
    "list_models": "presets",
    "load": "model",
    "optimize": "model",
    "read_encoded": "container",
    "stream_decoder": "streaming",
    "stream_encoder": "streaming",
    "write_encoded": "container",
}
"""Public name to the module that defines it."""

__all__ = sorted(_HOMES)  # noqa: PLE0605 - one table, not two lists


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
