"""A cold start: what loading and the first codes add to importing torch and reading the weights.

Prints seconds as one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main() -> None:
    """Take the times in the order in which a user meets them."""
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    times = [time.perf_counter()]
    import torch

    torch.set_num_threads(threads)
    times.append(time.perf_counter())
    with (folder / "canonical" / "model.safetensors").open("rb") as file:
        while file.read(1 << 24):
            pass
    times.append(time.perf_counter())
    import dac_rocm

    model = dac_rocm.load(folder / "canonical", device="cpu")
    times.append(time.perf_counter())
    model.encode(torch.zeros(1, model.config.audio_channels, model.sample_rate))
    times.append(time.perf_counter())
    names = ("import_torch", "read_weights", "load", "first_encode")
    print(json.dumps({n: b - a for n, a, b in zip(names, times, times[1:], strict=False)}))


if __name__ == "__main__":
    main()
