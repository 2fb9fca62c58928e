#!/usr/bin/env python3
"""Does a folder run cost more than its parts? Reading, resampling and the model, each alone.

usage: batch.py [--files N] [--rounds R] [--model NAME]

Aim: wall time at most 1.05 times the CPU seconds of the parts divided by the cores, and memory
that does not grow. Parts and run take turns on files of their own, so that neither a machine that
changes its speed nor lengths that were met before favour one of them. On a machine that others use
too, look at the CPU seconds: they do not wait.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

from peers.memory import memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=20, help="of 1 to 8 s a turn; default: 20")
    parser.add_argument("--rounds", type=int, default=3, help="turns; default: 3")
    parser.add_argument("--model", help="default: the 44.1 kHz network with random weights")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench(args.files, args.rounds, args.model or save_44k(Path(folder)))


def save_44k(folder: Path) -> str:
    """Save the 44.1 kHz network, with random weights that behave like trained ones."""
    from peers.prepare import build, config_of, excerpt

    config = config_of("dac-44khz")
    build(config, excerpt(config)).save_pretrained(folder)
    return str(folder)


def bench(count: int, rounds: int, name: str) -> None:
    import torch

    import dac_rocm

    cores = torch.get_num_threads()
    torch.set_num_threads(1)
    parts = dict.fromkeys(("reading", "resampling", "model"), 0.0)
    cpu = wall = alone = together = 0.0
    grown = []
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        model = dac_rocm.load(name, parts="encoder", device="cpu")
        model.encode(torch.zeros(1, 1, model.sample_rate))  # builds what is built once
        for turn in range(rounds):
            sources, seconds = make_files(Path(folder) / f"parts{turn}", count, 2 * turn)
            alone += seconds
            measure_parts(model, sources, parts)
            sources, seconds = make_files(Path(folder) / f"run{turn}", count, 2 * turn + 1)
            together += seconds
            used = measure_run(model, sources, cores)
            cpu, wall = cpu + used[0], wall + used[1]
            grown.append(memory("VmRSS") / 2**20)
    total = sum(parts.values()) / alone
    for part, seconds in parts.items():
        print(f"{part:<24}{1000 * seconds / alone:9.3f} CPU ms per second of audio")
    print(f"{'parts':<24}{1000 * total:9.3f} CPU ms")
    print(f"{'folder run':<24}{1000 * cpu / together:9.3f} CPU ms")
    print(f"{'folder run x cores':<24}{1000 * wall * cores / together:9.3f} ms of wall time")
    print(f"{'CPU / parts':<24}{cpu / together / total:9.3f}")
    print(f"{'wall x cores / parts':<24}{wall * cores / together / total:9.3f}   aim 1.05")
    print(f"{'memory after each turn':<24}  " + ", ".join(f"{m:.0f}" for m in grown) + " MiB")


def make_files(folder: Path, count: int, seed: int) -> tuple[list[Path], float]:
    """Write recordings of noise; return them, and their seconds."""
    import numpy as np
    import soundfile

    folder.mkdir()
    rng = np.random.default_rng(seed)
    paths = [folder / f"{i:05}.wav" for i in range(count)]
    samples = rng.integers(44100, 8 * 44100, count)
    for path, n in zip(paths, samples, strict=True):
        soundfile.write(path, rng.uniform(-0.3, 0.3, n), 44100)
    return paths, float(samples.sum()) / 44100


def measure_parts(model, sources: list[Path], parts: dict[str, float]) -> None:
    """Add the CPU seconds of each part."""
    import numpy as np
    import torch

    from dac_rocm.audio.files import read_audio
    from dac_rocm.audio.resample import Resampler

    def resampled(audio, rate):
        resampler = Resampler(rate, model.sample_rate, len(audio))
        return np.concatenate([resampler.push(audio), resampler.flush()], axis=1)

    for path in sources:
        (audio, rate), parts["reading"] = timed(parts["reading"], read_audio, path)
        audio, parts["resampling"] = timed(parts["resampling"], resampled, audio, rate)
        _, parts["model"] = timed(parts["model"], model.encode, torch.from_numpy(audio)[None])


def timed(before: float, function, *arguments):
    started = time.process_time()
    result = function(*arguments)
    return result, before + time.process_time() - started


def measure_run(model, sources: list[Path], cores: int) -> tuple[float, float]:
    """Return CPU and wall seconds of a folder run."""
    from dac_rocm.batch import Encoding, Pair, run

    pairs = [Pair(path, path.with_suffix(".dacz")) for path in sources]
    cpu, wall = time.process_time(), time.perf_counter()
    for result in run(Encoding(model=model), pairs, jobs=cores):
        assert result.status == "done", result.error
    return time.process_time() - cpu, time.perf_counter() - wall


if __name__ == "__main__":
    main()
