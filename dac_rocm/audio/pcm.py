"""Samples as bytes, little-endian and interleaved, and back. It must not know any header."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dac_rocm.audio.reader import Planar


class SampleFormat(NamedTuple):
    """How one sample is stored.

    Attributes:
        subtype: libsndfile's name.
        size: Bytes per sample.
        bits: Of an integer sample, 0 for a float.
    """

    subtype: str
    size: int
    bits: int


FORMATS = {
    "u8": SampleFormat("PCM_U8", 1, 8),
    "s16": SampleFormat("PCM_16", 2, 16),
    "s24": SampleFormat("PCM_24", 3, 24),
    "s32": SampleFormat("PCM_32", 4, 32),
    "f32": SampleFormat("FLOAT", 4, 0),
    "f64": SampleFormat("DOUBLE", 8, 0),
}


def decode(data: bytes, sample_format: str, channels: int) -> Planar:
    """Return the samples [C, n] of whole interleaved `data`, as libsndfile scales them."""
    kind = FORMATS[sample_format]
    audio: Planar
    if kind.bits == 0:
        with np.errstate(over="ignore"):  # beyond float32 is infinity, which readers refuse
            audio = np.frombuffer(data, f"<f{kind.size}").astype(np.float32)
    elif sample_format == "u8":
        audio = (np.frombuffer(data, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(
            128
        )
    else:
        audio = _left_aligned(data, kind.size).astype(np.float32) / np.float32(2**31)
    return np.ascontiguousarray(audio.reshape(-1, channels).T)


def _left_aligned(data: bytes, size: int) -> npt.NDArray[np.int32]:
    """Return integers of 2 to 4 bytes in the upper bytes of 32-bit ones."""
    wide = np.zeros((len(data) // size, 4), np.uint8)
    wide[:, 4 - size :] = np.frombuffer(data, np.uint8).reshape(-1, size)
    return wide.view("<i4")[:, 0]


def encode(audio: Planar, sample_format: str) -> bytes:
    """Return samples [C, n] interleaved: rounded to the nearest, clipped, never wrapped."""
    kind = FORMATS[sample_format]
    if kind.bits == 0:
        return audio.T.astype(f"<f{kind.size}").tobytes()
    wide = np.ascontiguousarray(quantize(audio, kind.bits).astype("<i4"))
    return wide.view(np.uint8).reshape(-1, 4)[:, : kind.size].tobytes()


def quantize(audio: Planar, bits: int) -> npt.NDArray[np.int32]:
    """Return samples [C, n] as signed integers [n, C] of that many bits."""
    full = 2 ** (bits - 1)
    wide: npt.NDArray[np.float64] = np.rint(audio.T.astype(np.float64) * full)
    return wide.clip(-full, full - 1).astype(np.int32)
