"""A long signal on several cores: segments of time, side by side.

Cores that share each operation wait for each other at the end of each; segments wait once. A
segment begins so early, and ends so late, that what is kept of it equals the whole run.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from dac_rocm.engine import Flow, Network
from dac_rocm.geometry import input_range, output_length, ratio
from dac_rocm.lowering import Steps
from dac_rocm.runtime.threads import intra_op_threads

LEAST = 16
"""Length of a segment at least, in times of what its neighbours compute again."""
MOST = 64
"""The same at most: an interruption waits for the segments that are at work."""


class Segment(NamedTuple):
    """A part of a signal.

    Args:
        start: First output.
        stop: The output after the last one.
        first: First input that these outputs need.
        last: The input after the last one that they need.
    """

    start: int
    stop: int
    first: int
    last: int


def cut(steps: Steps, length: int, threads: int) -> list[Segment]:
    """Divide a signal among threads.

    Args:
        steps: Lowered encoder or decoder, padded.
        length: Inputs.
        threads: At most so many segments run at once.

    Returns:
        Segments in order, as many for each thread; one where several are not worth it.
    """
    twice = max(1, overlap(steps))
    width = min(threads, length // (LEAST * twice))
    count = width * max(1, length // (width * MOST * twice)) if width > 1 else 1
    total = output_length(steps, length)
    _, up = ratio(steps)
    bounds = [i * (total // up) // count * up for i in range(count)] + [total]
    return [_segment(steps, length, *ends) for ends in pairwise(bounds)]


@lru_cache(maxsize=64)  # asked for at each run
def overlap(steps: Steps) -> int:
    """Inputs that outputs on both sides of a cut depend on."""
    down, up = ratio(steps)
    low, high = input_range(steps, 0, up)
    return high - low - down


def _segment(steps: Steps, length: int, start: int, stop: int) -> Segment:
    down, _ = ratio(steps)
    low, high = input_range(steps, start, stop)
    return Segment(start, stop, max(0, low) // down * down, min(high, length))


def run_in_segments(
    network: Network,
    x: Tensor,
    segments: Sequence[Segment],
    *,
    tile: int | None = None,
    lengths: Sequence[int] | None = None,
) -> Tensor:
    """Run a whole signal as `engine.run` does, several segments at a time.

    Each segment at work gets its share of the threads that torch may use here.

    Args:
        network: Encoder or decoder, on a CPU.
        x: [B, C, T], T ≥ 1.
        segments: From `cut`.
        tile: See `engine.Flow`.
        lengths: See `engine.Flow`.
    """
    down, up = ratio(network.steps)
    threads = torch.get_num_threads()
    width = min(threads, len(segments))

    def run_one(segment: Segment) -> Tensor:
        torch.set_num_threads(threads // width)
        first, end = segment.first, segment is segments[-1]
        flow = Flow(network, tile=tile, lengths=lengths and [n - first for n in lengths])
        y = flow.push(x[..., first : None if end else segment.last], end=end)
        skip = segment.start - first // down * up
        return y[..., skip : skip + segment.stop - segment.start]

    pool = ThreadPoolExecutor(width)
    with intra_op_threads(threads):
        try:
            return torch.cat(list(pool.map(run_one, segments)), -1)
        finally:
            pool.shutdown(cancel_futures=True)
