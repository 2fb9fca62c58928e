"""Length arithmetic of the network: lengths, reach, latency; integers only.

All answers come from the list of steps of `lowering`. This room must import neither torch nor
numpy, so that every rule here is tested in milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache

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


@lru_cache(maxsize=64)  # asked for at each run
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


def lost_frames(config: CodecConfig) -> int:
    """Frames by which the encoder falls short of whole hops: 0 in every published model.

    Meta's floor padding loses one where a stride is odd.
    """
    hops = 4
    return hops - output_length(lower_encoder(config), hops * config.hop_length)


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


def widest(steps: Steps) -> tuple[float, float]:
    """Elements of the largest activation and positions of the longest, per input and batch item."""
    rate, elements, positions = 1.0, 0.0, 1.0
    for step in steps:
        if isinstance(step, Conv | Transposed):
            elements = max(elements, rate * step.in_channels)
            rate = rate / step.stride if isinstance(step, Conv) else rate * step.stride
            elements = max(elements, rate * step.out_channels)
            positions = max(positions, rate)
    return elements, positions


def tile_length(
    steps: Steps, batch: int, *, max_elements: int, max_positions: int | None = None
) -> int:
    """Inputs per push that keep every activation under the limits.

    Args:
        steps: Encoder or decoder.
        batch: Items that run side by side.
        max_elements: Elements of the largest activation, all items together.
        max_positions: Positions in time of the longest activation, or None for no limit.

    Returns:
        A multiple of the stride, at least one: samples for an encoder, frames for a decoder. It
        has few binary digits, so the lengths inside the network have few pieces.
    """
    elements, positions = widest(steps)
    held = 2 * lookahead(steps)  # what earlier pushes left, and the last one gives back
    tile = max_elements / (elements * batch)
    tile = max(tile - held, tile / 2)  # a bound of memory, not a hard one where it is tiny
    if max_positions is not None:
        tile = min(tile, max_positions / positions - held)
    down, _ = ratio(steps)
    return few_digits(max(1, int(tile) // down)) * down


@lru_cache(maxsize=64)  # asked for at each run
def stages(steps: Steps) -> tuple[Steps, ...]:
    """Divide steps where the rate changes: behind a strided one, and before a transposed one."""
    found: list[list[Step]] = [[]]
    for step in steps:
        if isinstance(step, Transposed) and found[-1]:
            found.append([])
        found[-1].append(step)
        if isinstance(step, Conv) and step.stride > 1:
            found.append([])
    return tuple(tuple(stage) for stage in found if stage)


def part_length(steps: Steps, batch: int, max_elements: int) -> int:
    """Inputs to a stage that run at once, so that no activation has more than `max_elements`.

    Args:
        steps: One of `stages`.
        batch: Items that run side by side.
        max_elements: Elements of the largest activation, without what earlier parts left to it.

    Returns:
        The stride times a power of two: fast code for long signals likes such lengths.
    """
    elements, _ = widest(steps)
    down, _ = ratio(steps)
    fitting = int(max_elements / (elements * batch)) // down
    return down << max(0, fitting.bit_length() - 1)


def few_digits(n: int) -> int:
    """Round an integer down so that only its first four binary digits differ from zero.

    Some libraries build and keep a kernel for each length that they meet: so they meet few.
    """
    low = max(0, n.bit_length() - 4)
    return n >> low << low


def input_range(steps: Steps, start: int, stop: int) -> tuple[int, int]:
    """Range of inputs that outputs start..stop depend on; it may reach beyond the true ends."""
    for step in reversed(steps):
        if isinstance(step, Conv):
            start = start * step.stride - step.pad_left
            stop = (stop - 1) * step.stride - step.pad_left + step.span
        elif isinstance(step, Transposed):
            start = -((step.kernel - 1 - step.trim_left - start) // step.stride)
            stop = (stop - 1 + step.trim_left) // step.stride + 1
    return start, stop


def descript_frames(config: CodecConfig, length: int, sample_rate: int) -> int:
    """Frames that a `.dac` file needs, so that Descript's own decoder finds enough samples.

    Args:
        config: The model.
        length: Samples of the original at `sample_rate`.
        sample_rate: Rate of the original in Hz.

    Returns:
        The smallest F with floor((F · hop - short) · sample_rate / model rate) ≥ length.
    """
    samples = -(-length * config.sample_rate // sample_rate) + decoder_short(config)
    return -(-samples // config.hop_length)
