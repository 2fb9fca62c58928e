#!/usr/bin/env python3
"""Peak memory of `dac-rocm encode` and `decode` for a short and a long recording.

Each row is a process of its own, and its peak is what the system says when it ends. Ends with 1
where the long one takes over 10 % more than the short one.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

# This process must stay small: a child's peak is never below what its parent held at the start.

MOST = 1.10
RANDOM_44K = """
import sys
import torch
from dac_rocm import DAC
from dac_rocm.presets import preset
torch.manual_seed(0)
DAC(preset("dac-44khz").config).save_pretrained(sys.argv[1])
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes", type=float, nargs=2, metavar=("A", "B"), help="default: 1 60; --full: 1 10"
    )
    parser.add_argument("--full", action="store_true", help="44.1 kHz network, random weights")
    parser.add_argument("--channels", type=int, default=2, help="default: 2")
    parser.add_argument("--rate", type=int, metavar="HZ", help="default: that of the model")
    parser.add_argument("--chunk-seconds", metavar="S", help="as for dac-rocm")
    parser.add_argument("--folder", help="for temporary files")
    options = parser.parse_args()
    minutes = options.minutes or ((1.0, 10.0) if options.full else (1.0, 60.0))
    rate = options.rate or (44100 if options.full else 16000)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        flags = ["--force", "--device", "cpu"]
        if options.full:
            model = str(Path(folder) / "model")
            subprocess.run([sys.executable, "-c", RANDOM_44K, model], check=True)
            flags += ["--model", model]
        if options.chunk_seconds:
            flags += ["--chunk-seconds", options.chunk_seconds]
        found = [measure(Path(folder), m, options.channels, rate, flags) for m in minutes]
    return report(minutes, found)


def measure(
    folder: Path, minutes: float, channels: int, rate: int, flags: list[str]
) -> dict[str, tuple[float, float]]:
    """Encode and decode noise; return MiB and seconds of each."""
    source = folder / "in.wav"
    write_noise(source, minutes, channels, rate)
    coded, restored = folder / "in.dacz", folder / "out.wav"
    found = {
        "encode": peak(["encode", str(source), "-o", str(coded), *flags]),
        "decode": peak(["decode", str(coded), "-o", str(restored), *flags]),
    }
    with wave.open(str(source)) as a, wave.open(str(restored)) as b:
        if a.getparams() != b.getparams():
            sys.exit(f"{b.getparams()} came back; {a.getparams()} is expected")
    return found


def write_noise(path: Path, minutes: float, channels: int, rate: int) -> None:
    """Write 16-bit noise near -17 dB."""
    generator = random.Random(0)
    second = [generator.randrange(-8192, 8192) for _ in range(rate * channels)]
    data = b"".join(value.to_bytes(2, "little", signed=True) for value in second)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", "none"))
        left = round(60 * minutes * rate)
        while left:
            n = min(left, rate)
            file.writeframesraw(data[: 2 * channels * n])
            left -= n


def peak(arguments: list[str]) -> tuple[float, float]:
    """Run dac-rocm; return its largest resident size in MiB, and its seconds."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        command = [sys.executable, "-m", "dac_rocm", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            sys.exit(errors.read().decode())
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return usage.ru_maxrss / unit, time.perf_counter() - started


def report(minutes: tuple[float, float], found: list[dict[str, tuple[float, float]]]) -> int:
    """Print a table; return the exit code."""
    a, b = (f"{m:g} min" for m in minutes)
    print(f"| peak, MiB | {a} | {b} | ratio | x real time |")
    print("|-----------|------:|------:|------:|------:|")
    worst = 0.0
    for name in ("encode", "decode"):
        short, long = (row[name][0] for row in found)
        worst = max(worst, long / short)
        speed = 60 * minutes[1] / found[1][name][1]
        print(f"| {name} | {short:.1f} | {long:.1f} | {long / short:.3f} | {speed:.1f} |")
    if worst > MOST:
        print(f"a ratio of {worst:.3f} found; at most {MOST} is expected", file=sys.stderr)
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
