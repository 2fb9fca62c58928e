#!/usr/bin/env python
"""Time and memory of loading a large checkpoint, beside safetensors' own load and a copy.

Each measurement runs in a process of its own, warm (the file is in the page cache): seconds, and by
how much the peak of resident memory grows, as a multiple of the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

WAYS = ("load_file and copy", "load_checkpoint", "load_checkpoint, decoder", "load, decoder")


def peak() -> int:
    """Return the peak of resident memory in bytes; Linux only, since others count the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)) * 1024


def measure(way: str, folder: Path) -> dict[str, float]:
    """Load once in this process; everything that is imported late is imported before."""
    from safetensors.torch import load_file

    import dac_rocm
    from dac_rocm.weights import load_checkpoint

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dac_rocm.load("tiny", device="cpu")
    before, start = peak(), time.perf_counter()
    if way == WAYS[0]:
        kept = {n: t.clone() for n, t in load_file(folder / "model.safetensors").items()}
    elif way == WAYS[3]:
        kept = dac_rocm.load(folder, parts="decoder", device="cpu")
    else:
        kept = load_checkpoint(folder, parts="decoder" if way == WAYS[2] else "all")
    seconds = time.perf_counter() - start
    assert kept
    return {"seconds": seconds, "bytes": peak() - before}


def make(folder: Path) -> None:
    """Save the 44.1 kHz model's shape with random weights: 306 MB."""
    import torch

    from dac_rocm.encoded import ModelStamp
    from dac_rocm.lowering import tensor_shapes
    from dac_rocm.presets import preset
    from dac_rocm.weights import save_checkpoint

    config = preset("dac-44khz").config
    tensors = {name: torch.randn(shape) * 0.01 for name, shape in tensor_shapes(config).items()}
    save_checkpoint(folder, config, tensors, ModelStamp(name="random"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="runs per way; the best counts")
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.folder)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        size = (folder / "model.safetensors").stat().st_size
        print(f"file: {size / 1e6:.0f} MB")
        base = None
        for way in WAYS:
            command = [sys.executable, __file__, "--measure", way, "--folder", name]
            runs = [json.loads(subprocess.check_output(command)) for _ in range(options.repeat)]
            seconds = min(run["seconds"] for run in runs)
            grown = min(run["bytes"] for run in runs) / size
            base = base or seconds
            print(f"{way:26} {seconds:6.3f} s  {seconds / base:5.2f} x  peak +{grown:.2f} files")


if __name__ == "__main__":
    main()
