"""Length arithmetic of the network: lengths, reach, latency; integers only.

All answers come from the list of steps of `lowering`. This room must import neither torch nor
numpy, so that every rule here is tested in milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left

from dac_rocm.config import CodecConfig
from dac_rocm.errors import ShapeError
from dac_rocm.lowering import Conv, Step, Steps, Transposed, lower_decoder, lower_encoder


def output_length(steps: Steps, length: int) -> int:
    """Samples or frames that `steps` make of `length` inputs in one piece (0 if too short)."""
    for step in steps:
        length = step_length(step, length)
    return length


def step_length(step: Step, length: int) -> int:
    """Outputs that one step makes of `length` inputs in one piece (0 if too short)."""
    if length <= 0:
        return 0
    if isinstance(step, Conv):
        padded = step.pad_left + length + step.pad_right
        return max(0, (padded - step.span) // step.stride + 1)
    if isinstance(step, Transposed):
        full = (length - 1) * step.stride + step.kernel
        return max(0, full - step.trim_left - step.trim_right)
    return length


def known_length(steps: Steps, length: int) -> int:
    """Outputs that are known after the first `length` inputs, while more may come."""
    for step in steps:
        if isinstance(step, Conv):
            length = max(0, (step.pad_left + length - step.span) // step.stride + 1)
        elif isinstance(step, Transposed):
            length = max(0, length * step.stride - step.trim_left)
    return length


def lookahead(steps: Steps) -> int:
    """Inputs that must follow before an output is known: how far `steps` look ahead.

    Samples for an encoder, frames for a decoder. Outputs that belong to the first n inputs (n a
    multiple of the stride) are known once n + lookahead inputs are there, and not one earlier.
    """
    down, up = ratio(steps)
    needed = bisect_left(range(1 << 40), up, lo=0, key=lambda n: known_length(steps, n))
    return needed - down


def ratio(steps: Steps) -> tuple[int, int]:
    """Inputs per output of the convolutions, and outputs per input of the transposed ones."""
    down = up = 1
    for step in steps:
        if isinstance(step, Conv):
            down *= step.stride
        elif isinstance(step, Transposed):
            up *= step.stride
    return down, up


def frames_for(config: CodecConfig, length: int) -> int:
    """Frames that `length` samples at the model's rate need: a whole number of hops.

    Raises:
        ShapeError: `length` is not positive.
    """
    if length <= 0:
        raise ShapeError(f"{length} samples found; at least 1 is expected. Pass some audio.")
    return -(-length // config.hop_length)


def encoded_frames(config: CodecConfig, length: int) -> int:
    """Frames that the encoder makes of `length` samples, once they are filled up to whole hops."""
    padded = frames_for(config, length) * config.hop_length
    return output_length(lower_encoder(config), padded)


def decoder_short(config: CodecConfig) -> int:
    """Samples by which a decoded signal falls short of frames · hop.

    Each odd stride without output padding loses samples at its level: 8 in the 16 and 24 kHz
    Descript models, 0 in most others.
    """
    frames = 2
    return frames * config.hop_length - output_length(lower_decoder(config), frames)


def unpadded_length(config: CodecConfig, length: int) -> int:
    """Samples that encoder and decoder without padding leave of `length` samples.

    Source: Descript's chunked `.dac`, whose windows advance by this much.
    """
    for steps in (lower_encoder(config, padded=False), lower_decoder(config, padded=False)):
        for step in steps:
            if isinstance(step, Conv):
                length = (length - step.span) // step.stride + 1
            elif isinstance(step, Transposed):
                length = (length - 1) * step.stride + step.kernel
    return length
