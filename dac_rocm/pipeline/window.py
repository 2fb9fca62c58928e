"""Which part of a recording is wanted, and what has to be decoded for it: integers only."""

from __future__ import annotations

import math
from typing import NamedTuple

from dac_rocm.errors import ShapeError
from dac_rocm.geometry import input_range
from dac_rocm.lowering import Steps

RESAMPLER_MARGIN = 1 << 14
"""Samples at the model's rate around a part: beyond the reach of either resampler's kernel."""


class Window(NamedTuple):
    """A part of a recording.

    Args:
        start_frame: First frame to decode.
        stop_frame: The frame after the last one; None for the end.
        skip: Samples at the model's rate to drop from what these frames give.
        skip_resampled: Samples at the original rate to drop after resampling.
        length: Samples at the original rate that are wanted; None for all.
    """

    start_frame: int = 0
    stop_frame: int | None = None
    skip: int = 0
    skip_resampled: int = 0
    length: int | None = None


def window(
    steps: Steps,
    *,
    samples: tuple[int, int],
    frames: int,
    hop_length: int,
    rates: tuple[int, int],
) -> Window:
    """Plan to decode a part, so that it equals the cut of the whole.

    Args:
        steps: The lowered decoder.
        samples: First and last-plus-one sample that are wanted, at the original rate.
        frames: Frames of the recording.
        hop_length: Samples at the model's rate per frame.
        rates: Rate of the model and of the original in Hz.
    """
    divisor = math.gcd(*rates)
    old, new = rates[0] // divisor, rates[1] // divisor
    margin = 0 if old == new else RESAMPLER_MARGIN
    first = max(0, samples[0] * old // new - margin) // old * old
    last = -(-samples[1] * old // new) + margin
    low, high = input_range(steps, first, max(last, first + 1))
    start = min(max(0, low), frames)
    return Window(
        start_frame=start,
        stop_frame=max(start, min(high, frames)),
        skip=first - start * hop_length,
        skip_resampled=samples[0] - first // old * new,
        length=samples[1] - samples[0],
    )


def samples_between(
    start: float | None, stop: float | None, length: int, sample_rate: int
) -> tuple[int, int]:
    """Turn seconds into samples of a recording.

    Args:
        start: Seconds from its beginning; None for the beginning.
        stop: Seconds from its beginning; None for the end.
        length: Samples of the recording.
        sample_rate: Hz.

    Raises:
        ShapeError: The part is empty or lies outside.
    """
    seconds = length / sample_rate
    begin, end = start or 0.0, seconds if stop is None else min(stop, seconds)
    usable = 0 <= begin < seconds and begin < end  # false for NaN, too
    first, last = (round(begin * sample_rate), round(end * sample_rate)) if usable else (0, 0)
    if not first < last:
        raise ShapeError(
            f"a part from {start} to {stop} s found; a part within 0 to {seconds:.3f} "
            "s is expected. Mend start and stop."
        )
    return first, last
