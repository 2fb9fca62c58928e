"""What only our package is asked: other lengths, live pushes, a cold start, the machine's rate.

Each section runs in a process of its own and prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import dac_rocm
from dac_rocm.codec import Codec
from peers.memory import memory, reset_peak
from peers.rate import best_rate, multiply_adds, unit_shapes

Calls = Mapping[str, Callable[[], object]]


def lengths(model: Codec, audio: Tensor, options: argparse.Namespace) -> dict[str, Any]:
    """Time a second of audio in a clip of 1 s, of the usual length, and of a long one, in turns."""
    base = audio.shape[-1] / model.sample_rate
    found: dict[float, list[dict[str, float]]] = {}
    for seconds in (*(1.0, base) * (1 + options.rounds), options.long, base):
        found.setdefault(seconds, []).append(_clip(model, _tiled(model, audio, seconds)))
    rows = {}
    for seconds, turns in found.items():
        counted = turns[1:] or turns  # the first one warms up; the long clip is warm from the rest
        rows[f"{seconds:.3g}"] = {key: _median([turn[key] for turn in counted]) for key in turns[0]}
    return {"seconds_per_second": rows, "base": f"{base:.3g}"}


def _clip(model: Codec, audio: Tensor) -> dict[str, float]:
    """Seconds for each second of audio, and the largest resident memory, of both halves."""
    found: dict[str, float] = {}
    data = audio
    for half, run in {"encode": model.encode, "decode": model.decode}.items():
        reset_peak()
        start = time.perf_counter()
        data = _data(run(data))
        found[half] = (time.perf_counter() - start) / _seconds(model, audio)
        found[f"{half}_peak"] = memory("VmHWM")
    return found


def streaming(model: Codec, audio: Tensor, options: argparse.Namespace) -> dict[str, Any]:
    """Time live decoding in small pushes beside the whole run."""
    data = _data(model.encode(audio))
    whole = model.decode(data)
    runs: dict[str, Callable[[], object]] = {"whole": lambda: model.decode(data)}
    errors = {}
    for frames in options.frames:
        joined = _streamed(model, data, frames)
        errors[str(frames)] = float((joined - whole).abs().max() / whole.abs().max())
        runs[str(frames)] = lambda f=frames: _streamed(model, data, f)
    times = {name: _median(each) for name, each in _times(runs, options.rounds).items()}
    return {"seconds": times, "errors": errors, "audio_seconds": _seconds(model, audio)}


def rate(model: Codec, audio: Tensor, options: argparse.Namespace) -> dict[str, Any]:
    """Compare with the best rate of oneDNN's convolutions on the network's own shapes."""
    data = _data(model.encode(audio))
    work = {
        "encode": 2 * multiply_adds(model.steps("encoder"), audio.shape[-1]),
        "decode": 2 * multiply_adds(model.steps("decoder"), data.shape[-1]),
    }
    runs: dict[str, Callable[[], object]] = {
        "encode": lambda: model.encode(audio),
        "decode": lambda: model.decode(data),
    }
    steps = (*model.steps("encoder"), *model.steps("decoder"))
    best: dict[str, float] = {}
    times: dict[str, list[float]] = {half: [] for half in runs}
    for _ in range(options.rounds):
        for shape in unit_shapes(steps):
            key = "{}x{}".format(*shape)
            best[key] = max(best.get(key, 0.0), best_rate(*shape, model.dtype))
        for half, each in _times(runs, 1).items():
            times[half] += each
    rates = {half: work[half] / _median(each) for half, each in times.items()}
    return {
        "dtype": options.dtype,
        "best": max(best.values()),
        "by_channels_and_dilation": best,
        "ours": rates,
        "work_per_second": {half: n / _seconds(model, audio) for half, n in work.items()},
    }


def _times(runs: Calls, rounds: int) -> dict[str, list[float]]:
    """Run everything in turns; returns the seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


def _median(times: list[float]) -> float:
    return float(statistics.median(times))


def _streamed(model: Codec, data: Tensor, frames: int) -> Tensor:
    with dac_rocm.stream_decoder(model) as stream:
        pushes = range(0, data.shape[-1], frames)
        parts = [stream.push(data[..., i : i + frames]) for i in pushes]
        return torch.cat([*parts, stream.flush()], -1)


def _tiled(model: Codec, audio: Tensor, seconds: float) -> Tensor:
    length = max(1, round(seconds * model.config.frame_rate)) * model.hop_length
    return audio.repeat(1, 1, -(-length // audio.shape[-1]))[..., :length].contiguous()


def _data(found: Any) -> Tensor:
    return found if isinstance(found, Tensor) else found.mean


def _seconds(model: Codec, audio: Tensor) -> float:
    return audio.shape[-1] / model.sample_rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", choices=("lengths", "streaming", "rate"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--long", type=float, default=600.0)
    parser.add_argument("--frames", type=int, nargs="+", default=[1, 2, 4, 8, 32])
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    model = dac_rocm.load(options.folder / "canonical", device="cpu", dtype=options.dtype)
    audio = torch.from_numpy(np.load(options.folder / "input.npy"))
    print(json.dumps(globals()[options.section](model, audio, options)))


if __name__ == "__main__":
    main()
