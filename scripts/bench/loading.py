#!/usr/bin/env python
"""Time and memory of loading a large checkpoint, beside safetensors' own load and a copy.

Each measurement runs in a process of its own, warm (the file is in the page cache), the ways by
turns; medians count. Ends with 1 where a whole model takes over 1.5 times the seconds, where the
peak of resident memory grows by over 1.3 times the file, or where a half takes more than its share.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from peers.memory import memory

BASE, WHOLE, NORMED = "load_file and copy", "load", "load, weight norm"
HALVES = {"load, encoder": "encoder", "load, decoder": "decoder"}
WAYS = (BASE, WHOLE, *HALVES, NORMED)
MOST_SECONDS = 1.5
"""Of a whole model, as a multiple of the base; its file is as this package saves it: folded."""
MOST_BYTES = 1.3
"""By how much the peak may grow, as a multiple of the file."""
SLACK = 0.15
"""What a half may take beside its share of the file, as parts of what the whole takes."""


def measure(way: str, folder: Path) -> dict[str, float]:
    """Load once in this process; everything that is imported late is imported before."""
    from safetensors.torch import load_file

    import dac_rocm

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dac_rocm.load("tiny", device="cpu")
    before, start = memory("VmHWM"), time.perf_counter()
    if way == BASE:
        file = folder / "plain" / "model.safetensors"
        kept = {name: tensor.clone() for name, tensor in load_file(file).items()}
    else:
        source, parts = folder / ("normed" if way == NORMED else "plain"), HALVES.get(way, "all")
        kept = dac_rocm.load(source, parts=parts, device="cpu", optimize=False).state_dict()
    seconds, grown = time.perf_counter() - start, memory("VmHWM") - before
    return {"seconds": seconds, "grown": grown, "held": sum(t.nbytes for t in kept.values())}


def make(folder: Path) -> None:
    """Save the 44.1 kHz model's shape with random weights, 306 MB: folded, and with weight norm."""
    import torch
    from safetensors.torch import save_file

    from dac_rocm.encoded import ModelStamp
    from dac_rocm.lowering import tensor_shapes
    from dac_rocm.presets import preset
    from dac_rocm.weights import save_checkpoint
    from dac_rocm.weights.fold import LEGACY, unfold

    config = preset("dac-44khz").config
    tensors = {name: torch.randn(shape) * 0.01 for name, shape in tensor_shapes(config).items()}
    save_checkpoint(folder / "plain", config, tensors, ModelStamp(name="random"))
    for name in [name for name, tensor in tensors.items() if tensor.ndim == 3 and "weight" in name]:
        pair = unfold(tensors.pop(name))
        stem = name.removesuffix(".weight")
        tensors |= {stem + leaf: part for leaf, part in zip(LEGACY, pair, strict=True)}
    (folder / "normed").mkdir()
    save_file(tensors, folder / "normed" / "model.safetensors")
    (folder / "normed" / "config.json").write_text('{"sample_rate": 44100}')


def compare(folder: Path, repeat: int) -> dict[str, dict[str, float]]:
    """Return the medians of each way, measured by turns."""
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(repeat):
        for way in WAYS:
            command = [sys.executable, __file__, "--measure", way, "--folder", str(folder)]
            runs[way].append(json.loads(subprocess.check_output(command)))
    return {
        way: {name: statistics.median(run[name] for run in found) for name in found[0]}
        for way, found in runs.items()
    }


def report(found: dict[str, dict[str, float]], size: int) -> int:
    """Print a table; return the exit code."""
    print(f"file: {size / 1e6:.0f} MB\n")
    print("| way | held, MB | seconds | x base | x whole | peak, x file |")
    print("|-----|---------:|--------:|-------:|--------:|-------------:|")
    base, whole, missed = found[BASE]["seconds"], found[WHOLE], []
    for way, row in found.items():
        seconds, grown = row["seconds"], row["grown"] / size
        print(
            f"| {way} | {row['held'] / 1e6:.0f} | {seconds:.3f} | {seconds / base:.2f} "
            f"| {seconds / whole['seconds']:.2f} | +{grown:.2f} |"
        )
        if way != BASE and grown > MOST_BYTES:
            missed.append(f"{way}: a peak of {grown:.2f} files found, at most {MOST_BYTES}")
        if way == WHOLE and seconds > MOST_SECONDS * base:
            missed.append(f"{way}: {seconds / base:.2f} x the base found, at most {MOST_SECONDS}")
        most = row["held"] / whole["held"] + SLACK
        for name in ("seconds", "grown") if way in HALVES else ():
            if row[name] > most * whole[name]:
                part = row[name] / whole[name]
                missed.append(f"{way}: {part:.2f} of the whole's {name} found, at most {most:.2f}")
    for line in missed:
        print(f"{line} is expected", file=sys.stderr)
    return int(bool(missed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7, help="runs per way; default: 7")
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.folder)))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        size = (folder / "plain" / "model.safetensors").stat().st_size
        return report(compare(folder, options.repeat), size)


if __name__ == "__main__":
    sys.exit(main())
