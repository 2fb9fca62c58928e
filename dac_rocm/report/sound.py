"""Audio that a browser plays, without loss, as a `data:` URI: FLAC, or WAV where FLAC cannot."""

from __future__ import annotations

import base64
import io

import numpy as np
import soundfile

from dac_rocm.audio.pcm import quantize
from dac_rocm.audio.reader import Planar

FLOAT = 32
"""Bits of float samples, which WAV takes and FLAC does not."""
MAX_FLAC_RATE = 655350
"""Hz. Source: RFC 9639, section 9.1.2."""


def exact_bits(audio: Planar) -> int:
    """Return the fewest bits of a sample that hold the audio exactly: 16, 24 or 32 (float)."""
    for bits in (16, 24):
        scaled = audio.astype(np.float64) * 2 ** (bits - 1)
        if np.array_equal(scaled, quantize(audio, bits).T):
            return bits
    return FLOAT


def sound_uri(audio: Planar, sample_rate: int, bits: int) -> str:
    """Return audio as a `data:` URI.

    Args:
        audio: [C, T], float32.
        sample_rate: Hz.
        bits: 16 or 24 for integers, to which samples are rounded; 32 for floats, as they are.
    """
    file = io.BytesIO()
    if bits == FLOAT or sample_rate > MAX_FLAC_RATE:
        kind = "wav"
        soundfile.write(file, audio.T, sample_rate, format="WAV", subtype="FLOAT")
    else:
        kind = "flac"
        upper = quantize(audio, bits) << (FLOAT - bits)
        soundfile.write(file, upper, sample_rate, format="FLAC", subtype=f"PCM_{bits}")
    return f"data:audio/{kind};base64,{base64.b64encode(file.getbuffer()).decode()}"
