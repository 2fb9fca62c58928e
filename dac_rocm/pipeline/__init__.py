"""Audio to EncodedAudio and back: level, rate, channels and exact length around a model.

Files and arrays take one path. Everything is read, resampled and metered in blocks of a fixed
size, so the samples that reach the engine do not depend on how large its pushes are.
"""

from dac_rocm.pipeline.decode import DecodeSummary, decode_audio, decode_blocks, decode_file
from dac_rocm.pipeline.encode import EncodeSummary, encode_audio, encode_file, encode_reader

__all__ = [
    "DecodeSummary",
    "EncodeSummary",
    "decode_audio",
    "decode_blocks",
    "decode_file",
    "encode_audio",
    "encode_file",
    "encode_reader",
]
