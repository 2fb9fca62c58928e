#!/usr/bin/env python3
"""Does a corpus on an engine cost more than a folder run, and does the planning model hold?

usage: corpus.py [--clips N] [--repeats R] [--engines local,ray] [--network PRESET] [--device D]

Every engine tokenizes N and 3 N clips of 10 s with one and with two workers: the difference is what
a clip costs (aim: at most 1.10 of the folder run), the rest is what starting costs. The best of R
turns counts. On a machine that others use too, look at the CPU seconds: they do not wait.
"""

import argparse
import json
import shutil
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

SECONDS, RATE = 10, 44100
"""Of a clip."""
SHARD = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=16, help="smaller corpus; default: 16")
    parser.add_argument("--repeats", type=int, default=2, help="turns; default: 2")
    parser.add_argument("--engines", default="local,ray", help="default: local,ray")
    parser.add_argument("--model", default="tiny", help="default: tiny")
    parser.add_argument("--device", default="cpu", help="default: cpu")
    parser.add_argument("--network", help="preset to time with random weights, as dac-44khz")
    parser.add_argument("--json", metavar="FILE", help="keep the numbers")
    args = parser.parse_args()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        numbers = bench(args, Path(folder))
    if args.json:
        Path(args.json).write_text(json.dumps(numbers, indent=1))


def bench(args, folder: Path) -> dict:
    clips = make_clips(folder, 3 * args.clips)
    few, many = folder / "few", folder / "many"
    for path in (few, many):
        path.mkdir()
    for i, path in enumerate(clips):
        for target in (few, many) if i < args.clips else (many,):
            (target / path.name).hardlink_to(path)
    numbers = {"readers": reading(args, clips[: args.clips])}
    show("reading and resampling, one core", numbers["readers"])
    names = [f"folder {w}" for w in (1, 2)]
    names += [f"{engine} {w}" for engine in args.engines.split(",") for w in (1, 2)]
    times = {name: ([], []) for name in names}
    for _ in range(args.repeats):
        for name in names:
            for source, kept in zip((few, many), times[name], strict=True):
                kept.append(run(name, args, source, folder))
    for name, runs in times.items():
        short, long = ([min(column) for column in zip(*kept, strict=True)] for kept in runs)
        numbers[name] = summed_up(short, long, args.clips)
        base = numbers[f"folder {name[-1]}"]
        show(name, numbers[name], base)
    for name in names:
        if name.endswith("2"):
            predict(numbers, name, 3 * args.clips)
    numbers["bytes"] = sizes(args, few, folder)
    if args.network:
        numbers["network"] = network(args.network, args.device)
        print(f"{args.network}, random weights: {numbers['network']:.2f} hours per hour")
    return numbers


def make_clips(folder: Path, count: int) -> list[Path]:
    import numpy as np
    import soundfile

    (folder / "clips").mkdir()
    rng = np.random.default_rng(0)
    paths = [folder / "clips" / f"{i:05}.flac" for i in range(count)]
    for path in paths:
        tone = np.sin(np.arange(SECONDS * RATE) * rng.uniform(0.01, 0.2))
        noise = rng.normal(0, 0.05, SECONDS * RATE)
        soundfile.write(path, 0.3 * tone + noise, RATE)
    return paths


def reading(args, clips: list[Path]) -> dict:
    """Time what one reader does for a model: open, decode, resample."""
    import dac_rocm
    from dac_rocm.audio.files import open_audio
    from dac_rocm.batch.clips import read_clip

    model = dac_rocm.load(args.model, parts="encoder", device="cpu")
    read_clip(model, open_audio(clips[0]))  # imports what it needs
    started = time.process_time()
    for path in clips:
        read_clip(model, open_audio(path))
    seconds = time.process_time() - started
    each = seconds / len(clips)
    return {"per_clip": each, "cpu": each, "start": 0.0, "hours": hours(each, 1)}


def run(name: str, args, source: Path, folder: Path) -> tuple[float, float]:
    """Return the wall time and the CPU time of one run; starting is included."""
    kind, workers = name.split()
    target = folder / "out"
    started, own = time.perf_counter(), time.process_time()
    work = run_folder if kind == "folder" else partial(run_engine, kind)
    cpu = work(args, source, target, int(workers))
    elapsed = time.perf_counter() - started
    shutil.rmtree(target)
    return elapsed, cpu + time.process_time() - own


def run_folder(args, source: Path, target: Path, workers: int) -> float:
    import resource
    import subprocess
    import sys

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", FOLDER, source, target, args.model, args.device, workers]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


FOLDER = """
import sys, torch
source, target, model, device, workers = sys.argv[1:]
torch.set_num_threads(int(workers))  # of which each file gets one
from dac_rocm.cli.main import main
argv = ["encode", source, "-o", target, "--model", model, "--device", device, "--jobs", workers]
sys.exit(main(argv))
"""


def run_engine(kind: str, args, source: Path, target: Path, workers: int) -> float:
    from dac_rocm.distributed import Local, OnRay, tokenize

    gpus = 1 / workers if args.device == "cuda" else 0
    engine = Local(workers) if kind == "local" else OnRay(workers, gpus=gpus, address="local")
    load = {"source": args.model, "device": args.device}
    summary = tokenize(source, target, load=load, engine=engine, shard_size=SHARD)
    assert not summary.failures, summary.failures
    here = kind == "local" and workers == 1  # then the workers' seconds are those of this process
    return 0.0 if here else summary.cpu


def summed_up(short: list[float], long: list[float], clips: int) -> dict:
    """Divide the times of N and 3 N clips into what a clip costs and what starting does."""
    per_clip, cpu = (max(1e-9, (b - a) / (2 * clips)) for a, b in zip(short, long, strict=True))
    return {
        "per_clip": per_clip,
        "cpu": cpu,
        "start": short[0] - clips * per_clip,
        "whole": long[0],
        "hours": hours(per_clip, 1),
    }


def hours(seconds: float, clips: int) -> float:
    return clips * SECONDS / seconds


def show(name: str, found: dict, base: dict | None = None) -> None:
    ratios = ""
    if base:
        wall, cpu = (found[key] / base[key] for key in ("per_clip", "cpu"))
        ratios = f"{wall:7.3f} (CPU {cpu:.3f}) of the folder run"
    print(
        f"{name:<34}{1000 * found['per_clip']:8.1f} ms, {1000 * found['cpu']:8.1f} CPU ms a clip;"
        f"{found['hours']:8.1f} hours per hour;{found['start']:6.2f} s to start;{ratios}",
        flush=True,
    )


def predict(numbers: dict, name: str, clips: int) -> None:
    """Predict two workers from one: the same start, and half of the work."""
    one, two = numbers[f"{name[:-1]}1"], numbers[name]
    predicted = one["start"] + clips * one["per_clip"] / 2
    two["predicted"] = predicted
    print(f"{name}: predicted {predicted:.1f} s for {clips} clips, measured {two['whole']:.1f} s")


def sizes(args, source: Path, folder: Path) -> dict:
    """Measure bytes per hour of audio: of the source, and of shards of either format."""
    from dac_rocm.distributed import Settings, tokenize

    files = list(source.iterdir())
    scale = 3600 / (SECONDS * len(files)) / 1e6
    found = {"source": scale * sum(path.stat().st_size for path in files)}
    for kind in ("parquet", "webdataset"):
        target = folder / kind
        load = {"source": args.model, "device": args.device}
        tokenize(source, target, load=load, settings=Settings(format=kind))
        shards = [path for path in target.glob("shard-*") if path.suffix != ".json"]
        found[kind] = scale * sum(path.stat().st_size for path in shards)
    print("MB per hour of audio: " + ", ".join(f"{k} {v:.2f}" for k, v in found.items()))
    return found


def network(preset: str, device: str) -> float:
    """Time the encoder and quantizer of a preset, with random weights and one thread."""
    import torch

    from dac_rocm import DAC, CodecConfig

    path = Path(__file__).parents[2] / "configs" / f"{preset}.json"
    config = CodecConfig.from_dict(json.loads(path.read_text())["config"])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DAC(config, parts="encoder").eval().to(device)
    model.optimize()
    audio = 0.1 * torch.randn(1, 1, SECONDS // 2 * config.sample_rate, device=device)
    model.encode(audio)
    started = time.perf_counter()
    model.encode(audio).cpu()
    return SECONDS / 2 / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
