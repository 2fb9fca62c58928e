#!/usr/bin/env python
"""Speed of encode and decode on a GPU: correctness first, then times, in under four minutes.

Random weights in the shapes of the 48 kHz DACVAE and of the 44.1 kHz DAC. Every way of running
them is first compared with float64 on the CPU; a way that is wrong gets no time. Then 100 s of
audio are encoded and decoded in float32, float32 with TF32, bfloat16 and float16, in both memory
orders and in the pushes of the profiles `graphs` and `compile`; the eager modules, as they are and
compiled, stand beside. Also: the snake kernel's share of the bandwidth that a copy has, live pushes
with and without graphs, the first call, and peak memory. Prints Markdown; writes `gpu.md` and
`gpu.json` into a folder. What compiles comes last, since that may pass the four minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))

from dac_rocm.codec import Codec
from dac_rocm.config import CodecConfig, GaussianConfig, Half, Level, RVQConfig
from dac_rocm.dac import DAC
from dac_rocm.dacvae import DACVAE
from dac_rocm.engine import Flow, run
from dac_rocm.errors import BackendError, DacError
from dac_rocm.nn.layers import Snake1d
from dac_rocm.ops import platform
from dac_rocm.ops.snake import choose_snake, snake
from dac_rocm.presets import preset
from dac_rocm.runtime.backends import hint_when_silent, prepare_miopen
from dac_rocm.runtime.compile import compiled_runner
from dac_rocm.runtime.gpu import GpuNetwork
from dac_rocm.runtime.graphs import graphed_runner
from dac_rocm.runtime.optimize import choose_push
from dac_rocm.runtime.select import choose_device

HALVES = ("encoder", "decoder")
NUMBERS = {
    "float32": (torch.float32, False, 1e-4),
    "tf32": (torch.float32, True, 2e-2),
    "float16": (torch.float16, False, 2e-2),
    "bfloat16": (torch.bfloat16, False, 1.5e-1),
}
"""Name to type, TF32, and the largest RMS error that is right, over the RMS of the result."""
LONG_PUSH_SECONDS = 10
LIVE_FRAMES = 2
COMPILED = ("compile", "modules, torch.compile")
"""Ways that compile."""
REPEATS = 3
BUDGET_SECONDS = 220
"""After this long nothing new is begun."""
TARGETS = "round trip of the 48 kHz shape: float16 1500x, tf32 600x, float32 180x; snake 80 %"

Run = Callable[[Tensor], Tensor]


@dataclass
class Row:
    """One way of running one half: its error, and how many times faster than real time."""

    model: str
    half: str
    numbers: str
    way: str
    error: float
    ok: bool
    speed: float | None = None
    first_seconds: float | None = None
    peak_gib: float | None = None


def tiny_shapes() -> dict[str, CodecConfig]:
    """Return small codecs with every kind of step, for a try on a CPU."""
    down = Half(in_channels=1, width=8, levels=(Level(width=16, stride=4, kernel=8, padding=2),),
                out_channels=12, last_kernel=3)  # fmt: skip
    up = Half(in_channels=12, width=16, levels=(Level(width=8, stride=4, kernel=8, padding=2),),
              out_channels=1, last_kernel=7, final_tanh=True)  # fmt: skip
    codes = RVQConfig(codebook_size=16, codebook_dims=(4, 4))
    latents = GaussianConfig(latent_channels=6, spread="logvar", in_proj=True, out_proj=True)
    return {
        f"tiny {name}": CodecConfig(sample_rate=8000, encoder=down, decoder=up, bottleneck=kind)
        for name, kind in (("DAC", codes), ("DACVAE", latents))
    }


def build(config: CodecConfig) -> Codec:
    """Make a model with random weights, the same ones every time."""
    torch.manual_seed(0)
    kind = DAC if isinstance(config.bottleneck, RVQConfig) else DACVAE
    return kind(config, snake="eager").requires_grad_(False).eval()


def signal(config: CodecConfig, half: str, seconds: float) -> Tensor:
    """Make noise that a half takes."""
    frames = max(1, round(seconds * config.frame_rate))
    if half == "encoder":
        return 0.1 * torch.randn(1, config.audio_channels, frames * config.hop_length)
    return torch.randn(1, config.decoder.in_channels, frames)


def network_of(model: Codec, half: str, tf32: bool, order: str, backend: str) -> GpuNetwork:
    """Build the GPU network of a half in one memory order."""
    snakes = {n: m for n, m in model.named_modules() if isinstance(m, Snake1d)}
    tensors = dict(model.named_parameters())
    options = {"order": order, "backend": backend, "tf32": tf32}
    return GpuNetwork(model.steps(half), tensors, snakes, **options)


def ways(model: Codec, half: str, tf32: bool) -> dict[str, Run]:
    """Return what can run a half: the eager modules, our networks, and the compiler."""
    unit = model.config.hop_length if half == "encoder" else 1
    long = max(1, round(LONG_PUSH_SECONDS * model.config.frame_rate)) * unit
    push = choose_push("graphs", None, model.config.frame_rate) * unit
    module = model.get_submodule(half)
    orders = ("auto", "channels-last", "channels-first")
    auto, last, first = (network_of(model, half, tf32, order, "auto") for order in orders)
    plain = network_of(model, half, tf32, "auto", "eager")
    compiled = torch.compile(module, dynamic=False)
    return {
        "modules": lambda x: module(x.to(model.device, model.dtype)),
        "channels-first": lambda x: run(first, x, tile=long),
        "channels-last": lambda x: run(last, x, tile=long),
        "graphs": graphed_runner(auto, push).run,
        "graphs, long pushes": graphed_runner(auto, long).run,
        "compile": compiled_runner(plain, push).run,
        "modules, torch.compile": lambda x: compiled(x.to(model.device, model.dtype)),
    }


def rms_error(found: Tensor, truth: Tensor) -> float:
    """Root of the mean square of the difference, over that of the truth."""
    gap = found.double().cpu() - truth
    return float((gap.square().mean() / truth.square().mean()).sqrt())


def seconds_of(function: Callable[[], object], device: torch.device) -> float:
    """Time one call, the GPU's part included."""
    synchronize(device)
    start = time.perf_counter()
    function()
    synchronize(device)
    return time.perf_counter() - start


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def check(row: Row, way: Run, x: Tensor, truth: Tensor, limit: float, device: torch.device) -> None:
    """Run once on a short signal; note the error and the time of the first call."""
    result = []
    try:
        with hint_when_silent() if device.type == "cuda" else nullcontext():
            row.first_seconds = seconds_of(lambda: result.append(way(x)), device)
        row.error = rms_error(result[0], truth)
    except (RuntimeError, DacError) as failure:
        print(f"{row.model} {row.half} {row.numbers} {row.way}: {failure}", file=sys.stderr)
    row.ok = row.error <= limit


def measure(row: Row, way: Run, x: Tensor, seconds: float, device: torch.device) -> None:
    """Time a long signal; note how much faster than real time, and the peak of memory."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    way(x)
    times = [seconds_of(lambda: way(x), device) for _ in range(REPEATS)]
    row.speed = seconds / statistics.median(times)
    if device.type == "cuda":
        row.peak_gib = torch.cuda.max_memory_allocated(device) / 2**30


def bench(
    name: str, config: CodecConfig, args: argparse.Namespace, end: float, *, compiled: bool
) -> list[Row]:
    """Check and time one model in every way, or in every way that compiles."""
    device, rows = torch.device(args.device), []
    wanted = args.compile if compiled else args.numbers
    for half in HALVES if wanted else ():
        torch.manual_seed(1)
        short = signal(config, half, args.check_seconds)
        long = signal(config, half, args.seconds)
        truth = build(config).double().get_submodule(half)(short.double())
        for numbers, (dtype, tf32, limit) in NUMBERS.items():
            if numbers not in wanted:
                continue
            model = build(config).to(device, dtype)
            with platform.float32_precision(tf32=tf32):
                for way, call in ways(model, half, tf32).items():
                    if (way in COMPILED) is not compiled:
                        continue
                    if time.perf_counter() > end:
                        print("out of time: the rest is not measured", file=sys.stderr)
                        return rows
                    rows.append(Row(name, half, numbers, way, float("inf"), False))
                    check(rows[-1], call, short, truth, limit, device)
                    if rows[-1].ok and args.seconds:
                        measure(rows[-1], call, long.to(device), args.seconds, device)
    return rows


def live_pushes(config: CodecConfig, device: torch.device) -> dict[str, float]:
    """Return milliseconds per live push of `LIVE_FRAMES` through the decoder, in float16."""
    model = build(config).to(device, torch.float16)
    network = network_of(model, "decoder", False, "auto", "auto")
    x = signal(config, "decoder", LIVE_FRAMES / config.frame_rate).to(device)
    flows = {"engine": Flow(network), "graphs": graphed_runner(network, LIVE_FRAMES).flow()}
    times = {}
    for name, flow in flows.items():
        taken = [seconds_of(lambda flow=flow: flow.push(x), device) for _ in range(60)]
        times[name] = 1000 * statistics.median(taken[30:])
    return times


def snake_bandwidth(device: torch.device, elements: int) -> dict[str, float]:
    """Return the share of a copy's bandwidth that the snake has, by type."""
    shares = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.randn(1, 96, elements // 96, device=device).to(dtype)
        name = choose_snake(x, x).name
        shares[f"{name}, {str(dtype).removeprefix('torch.')}"] = share_of_copy(x)
    return shares


def share_of_copy(x: Tensor) -> float:
    """Time a copy over the time of a snake; both read and write every value once."""
    alpha, out = torch.rand(1, x.shape[1], 1, device=x.device) + 0.5, torch.empty_like(x)
    functions = (lambda: out.copy_(x), lambda: snake(x, alpha, alpha, out=out))
    copy, own = (min(seconds_of(f, x.device) for _ in range(10)) for f in functions)
    return copy / own


def round_trips(rows: list[dict]) -> list[str]:
    """Return how many times faster than real time encoder and decoder are together."""
    speeds = {(r["model"], r["numbers"], r["way"], r["half"]): r["speed"] for r in rows}
    lines = []
    for model, numbers, way, half in speeds:
        pair = [speeds.get((model, numbers, way, each)) for each in HALVES]
        if half == "encoder" and all(pair):
            together = 1 / sum(1 / speed for speed in pair)
            lines.append(f"- {model}, {numbers}, {way}: {together:.0f} x real time, there and back")
    return lines


def markdown(report: dict) -> str:
    """Return the report as tables."""
    lines = [f"{report['device']}, {report['versions']}; {report['seconds']} s of audio.", ""]
    titles = ("model", "half", "numbers", "way", "error", "x real time", "first call, s", "GiB")
    lines += ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for row in report["rows"]:
        cells = (row["speed"], row["first_seconds"], row["peak_gib"])
        numbers = [f"{c:.3g}" if c is not None else "-" for c in cells]
        error = f"{row['error']:.1e}" + ("" if row["ok"] else " WRONG")
        words = [row[key] for key in ("model", "half", "numbers", "way")]
        lines.append("| " + " | ".join([*words, error, *numbers]) + " |")
    shares = (f"{name} {share:.0%}" for name, share in report["snake_share_of_copy"].items())
    lines += [
        "",
        f"Snake, share of a copy's bandwidth: {'; '.join(shares)}.",
        *(live_line(*item) for item in report["live_ms"].items()),
        f"Target: {TARGETS}.",
    ]
    return "\n".join(lines) + "\n"


def live_line(name: str, times: dict[str, float]) -> str:
    pushes = ", ".join(f"{way} {ms:.2f} ms" for way, ms in times.items())
    return f"A live push of {LIVE_FRAMES} frames, float16, decoder of {name}: {pushes}."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda (also for ROCm) or cpu")
    parser.add_argument("--small", action="store_true", help="tiny models and no times")
    parser.add_argument("--seconds", type=float, default=100.0, help="length of the audio")
    kinds = {"nargs": "*", "choices": [*NUMBERS], "metavar": "TYPE"}
    parser.add_argument("--numbers", **kinds, default=[*NUMBERS], help="types to measure: all")
    parser.add_argument("--compile", **kinds, help="types to compile in; default: float16")
    parser.add_argument("--output", type=Path, help="folder for gpu.md and gpu.json")
    args = parser.parse_args()
    args.check_seconds = 0.5
    if args.compile is None:
        args.compile = [] if args.small else ["float16"]
    if args.small:
        args.seconds = 0.0
    try:
        start, device = time.perf_counter(), torch.device(choose_device(args.device).name)
    except BackendError as error:
        print(f"gpu.py: {error} With --device cpu --small it tries itself out.", file=sys.stderr)
        return 2
    prepare_miopen(device)
    names = {"DACVAE 48 kHz": "dacvae", "DAC 44.1 kHz": "dac-44khz"}
    shapes = {title: preset(name).config for title, name in names.items()}
    shapes = tiny_shapes() if args.small else shapes
    rows, live = [], {}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("default")
        for compiled in (False, True):
            for title, config in shapes.items():
                rows += bench(title, config, args, start + BUDGET_SECONDS, compiled=compiled)
            if not compiled:
                shares = snake_bandwidth(device, 1 << (16 if args.small else 28))
                live = {title: live_pushes(config, device) for title, config in shapes.items()}
    report = {
        "device": platform.devices().get(f"{device.type}:{device.index or 0}", str(device)),
        "versions": ", ".join(f"{k} {v}" for k, v in platform.versions().items() if v),
        "seconds": args.seconds,
        "rows": [asdict(row) for row in rows],
        "snake_share_of_copy": shares,
        "live_ms": live,
        "took_seconds": time.perf_counter() - start,
    }
    print(markdown(report))
    if args.output:
        args.output.mkdir(parents=True, exist_ok=True)
        (args.output / "gpu.md").write_text(markdown(report))
        (args.output / "gpu.json").write_text(json.dumps(report, indent=2))
    return 0 if rows and all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
