#!/usr/bin/env python3
"""Stream for minutes in small pushes, and compare the first pushes with the last ones.

A stream that kept or computed more with time would slow down; the ratio stays near 1.
"""

import argparse
import statistics
import sys
import time
import warnings

COUNTED = 100
"""Pushes at either end whose median is taken."""
WARM = 20
"""Pushes before the first counted one: kernels are made at the first shapes they meet."""
MOST = 1.5
"""Times the first pushes that the last ones may take."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny", help="default: tiny, the bundled one")
    parser.add_argument("--minutes", type=float, default=10.0, help="of audio; default: 10")
    parser.add_argument("--frames", type=int, default=8, help="per push; default: 8")
    options = parser.parse_args()

    import torch

    from dac_rocm import load, stream_decoder, stream_encoder

    torch.set_num_threads(1)  # pushes are too small to share
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = load(options.model)
    generator = torch.Generator().manual_seed(0)
    samples = options.frames * model.hop_length
    audio = 0.3 * torch.randn(1, model.config.audio_channels, samples, generator=generator)
    data = model.encode(audio)
    data = getattr(data, "mean", None) if not isinstance(data, torch.Tensor) else data
    pushes = round(60 * options.minutes * model.sample_rate / samples)
    if pushes < WARM + 2 * COUNTED:
        parser.error(f"--minutes {options.minutes} found; {WARM + 2 * COUNTED} pushes are needed")
    live = samples / model.sample_rate
    print(f"{pushes} pushes of {options.frames} frames, {1e3 * live:.0f} ms each\n")
    print("|         | first, ms | last, ms | ratio | slowest, ms | x real time |")
    print("|---------|----------:|---------:|------:|------------:|------------:|")
    worst = 0.0
    for name, stream, block in (
        ("encoder", stream_encoder(model), audio),
        ("decoder", stream_decoder(model), data),
    ):
        times = timed(stream, block, pushes)
        first = statistics.median(times[WARM : WARM + COUNTED])
        last = statistics.median(times[-COUNTED:])
        worst = max(worst, last / first)
        print(
            f"| {name} | {1e3 * first:9.2f} | {1e3 * last:8.2f} | {last / first:5.2f} "
            f"| {1e3 * max(times[WARM:]):11.2f} | {live * pushes / sum(times):11.1f} |"
        )
    if worst > MOST:
        print(f"a ratio of {worst:.2f} found; at most {MOST} is expected", file=sys.stderr)
    return int(worst > MOST)


def timed(stream, block, pushes: int) -> list[float]:
    """Push the same block again and again; return the seconds of each push."""
    times = []
    for _ in range(pushes):
        started = time.perf_counter()
        stream.push(block)
        times.append(time.perf_counter() - started)
    stream.flush()
    return times


if __name__ == "__main__":
    sys.exit(main())
