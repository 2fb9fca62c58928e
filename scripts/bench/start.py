#!/usr/bin/env python3
"""Time what people wait for first: the import, `info`, `--help`, and a model's first codes.

Each row is the median of fresh processes.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECORDING = Path(__file__).parents[2] / "tests/data/audio/speech_it_m_16k.wav"
ENCODE = """
import warnings
warnings.simplefilter("ignore", UserWarning)
import torch
from dac_rocm import load
load("tiny").encode(torch.zeros(1, 1, 16000))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="processes per row; default: 9")
    runs = parser.parse_args().runs
    command = [sys.executable, "-m", "dac_rocm"]
    with tempfile.TemporaryDirectory() as folder:
        encoded = str(Path(folder) / "speech.dacz")
        subprocess.run(
            [*command, "encode", RECORDING, "-o", encoded], check=True, stderr=subprocess.DEVNULL
        )
        rows = [
            ("python, nothing imported", [sys.executable, "-c", ""], None),
            ("import dac_rocm, in the process", None, 0.1),
            ("dac-rocm --help", [*command, "--help"], None),
            ("dac-rocm info FILE", [*command, "info", encoded], 0.2),
            ("load and first encode, 1 s of audio", [sys.executable, "-c", ENCODE], None),
        ]
        print(f"{'':<38}{'median':>9}{'least':>9}{'mark':>9}")
        for name, run, mark in rows:
            times = [wall(run) if run else import_time() for _ in range(runs)]
            limit = f"{mark * 1000:.0f} ms" if mark else ""
            median, least = statistics.median(times), min(times)
            print(f"{name:<38}{median * 1000:>6.0f} ms{least * 1000:>6.0f} ms{limit:>9}")


def wall(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def import_time() -> float:
    code = "import time; t = time.perf_counter(); import dac_rocm; print(time.perf_counter() - t)"
    return float(subprocess.check_output([sys.executable, "-c", code]))


if __name__ == "__main__":
    main()
