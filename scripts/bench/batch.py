#!/usr/bin/env python3
"""Does a folder run cost more than its parts? Reading, resampling and the model, each alone.

usage: batch.py [--files N] [--model NAME]

Aim: wall time at most 1.05 times the CPU seconds of the parts divided by the cores, and memory
that does not grow. On a machine that others use too, look at the CPU seconds: they do not wait.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

from peers.memory import memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=200, help="of 1 to 8 s; default: 200")
    parser.add_argument("--model", default="tiny", help="default: tiny")
    args = parser.parse_args()
    bench(args.files, args.model)


def bench(count: int, name: str) -> None:
    import torch

    import dac_rocm

    cores = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        model = dac_rocm.load(name, parts="encoder", device="cpu")
        sources = make_files(Path(folder), count)
        parts = measure_parts(model, sources)
        total = sum(parts.values())
        cpu, wall, memory = measure_run(model, sources, Path(folder), cores)
    for part, seconds in parts.items():
        print(f"{part:<24}{seconds:9.3f} CPU s")
    print(f"{'parts':<24}{total:9.3f} CPU s   {total / cores:9.3f} s on {cores} cores")
    print(f"{'folder run':<24}{cpu:9.3f} CPU s   {wall:9.3f} s on {cores} cores")
    print(f"{'run / parts':<24}{cpu / total:9.3f}         {wall * cores / total:9.3f}   aim 1.05")
    print(f"{'memory, half to end':<24}{memory[0]:9.1f} MiB  to {memory[1]:9.1f} MiB")


def make_files(folder: Path, count: int) -> list[Path]:
    import numpy as np
    import soundfile

    rng = np.random.default_rng(0)
    paths = [folder / f"{i:05}.wav" for i in range(count)]
    for path in paths:
        soundfile.write(path, rng.uniform(-0.3, 0.3, rng.integers(44100, 8 * 44100)), 44100)
    return paths


def measure_parts(model, sources: list[Path]) -> dict[str, float]:
    import numpy as np
    import torch

    from dac_rocm.audio.files import read_audio
    from dac_rocm.audio.resample import Resampler

    def resampled(audio, rate):
        resampler = Resampler(rate, model.sample_rate, len(audio))
        return np.concatenate([resampler.push(audio), resampler.flush()], axis=1)

    parts = dict.fromkeys(("reading", "resampling", "model"), 0.0)
    model.encode(torch.zeros(1, 1, model.sample_rate))  # builds what is built once
    for path in sources:
        (audio, rate), parts["reading"] = timed(parts["reading"], read_audio, path)
        audio, parts["resampling"] = timed(parts["resampling"], resampled, audio, rate)
        _, parts["model"] = timed(parts["model"], model.encode, torch.from_numpy(audio)[None])
    return parts


def timed(before: float, function, *arguments):
    started = time.process_time()
    result = function(*arguments)
    return result, before + time.process_time() - started


def measure_run(model, sources: list[Path], folder: Path, cores: int):
    from dac_rocm.batch import Encoding, Pair, run

    pairs = [Pair(path, folder / "out" / f"{path.stem}.dacz") for path in sources]
    work = Encoding(model=model)
    half, cpu, wall = 0.0, time.process_time(), time.perf_counter()
    for i, result in enumerate(run(work, pairs, jobs=cores)):
        assert result.status == "done", result.error
        if i == len(pairs) // 2:
            half = memory("VmRSS") / 2**20
    return time.process_time() - cpu, time.perf_counter() - wall, (half, memory("VmRSS") / 2**20)


if __name__ == "__main__":
    main()
