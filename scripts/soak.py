"""What scripts/soak runs; see its --help."""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import soundfile

from dac_rocm.container import read_encoded

ROOT = Path(__file__).resolve().parents[1]
BROKEN = 0.05
RATE = 16000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="tiny")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dac_rocm-soak-") as folder:
        soak(Path(folder), args)


def soak(folder: Path, args: argparse.Namespace) -> None:
    rng = random.Random(args.seed)
    source, target, report = folder / "in", folder / "out", folder / "report.jsonl"
    good, bad = make_files(source, args.files, rng)
    command = [
        *(sys.executable, "-m", "dac_rocm", "encode", str(source), "-o", str(target)),
        *("--skip-existing", "--report", str(report), "--model", args.model),
    ]
    for number in range(args.kills):
        kill_after(command, target, rng.randrange(1, len(good) // (args.kills + 1)))
        print(f"kill {number + 1}: {len(list(target.rglob('*.dacz')))} files are there", flush=True)
    started = time.perf_counter()
    last = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    check(good, bad, target, report, last)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"ok: {len(good)} good files once and whole, {len(bad)} bad ones listed, nothing else; "
        f"last run {time.perf_counter() - started:.1f} s; most memory {memory:.0f} MiB"
    )


def make_files(folder: Path, count: int, rng: random.Random) -> tuple[dict[str, int], list[str]]:
    """Return the good files with their lengths, and the bad ones, both without suffix."""
    good, bad = {}, []
    broken = set(rng.sample(range(count), round(BROKEN * count)))
    for i in range(count):
        path = folder / f"part {i % 7}" / f"{i:05}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if i in broken:
            break_file(path.with_suffix(".wav"), i)
            bad.append(str(path.relative_to(folder)))
            continue
        length = rng.randrange(RATE // 20, RATE // 2)
        noise = np.random.default_rng(i).uniform(-0.3, 0.3, length)
        soundfile.write(path.with_suffix(rng.choice([".wav", ".flac", ".WAV"])), noise, RATE)
        good[str(path.relative_to(folder))] = length
    return good, bad


def break_file(path: Path, kind: int) -> None:
    if kind % 3 == 0:
        path.write_bytes(random.Random(kind).randbytes(999))
    elif kind % 3 == 1:
        path.write_bytes(b"")
    else:
        soundfile.write(path, np.full(RATE, np.nan), RATE, subtype="FLOAT")


def kill_after(command: list[str], target: Path, files: int) -> None:
    """Run the command until it has written so many files, and kill it there."""
    before = len(list(target.rglob("*.dacz")))
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        while len(list(target.rglob("*.dacz"))) < before + files:
            if process.poll() is not None:
                sys.exit(f"soak: the command ended by itself with {process.returncode}")
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)


def check(
    good: dict[str, int],
    bad: list[str],
    target: Path,
    report: Path,
    last: subprocess.CompletedProcess[str],
) -> None:
    there = {str(p.relative_to(target)) for p in target.rglob("*") if not p.is_dir()}
    expect(there == {f"{name}.dacz" for name in good}, "the output tree holds something else")
    for name, length in good.items():
        expect(read_encoded(target / f"{name}.dacz").length == length, f"{name} is not whole")
    lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    done = Counter(line["source"] for line in lines if line["status"] == "done")
    expect(max(done.values()) == 1, "a file was encoded twice")
    listed = [line for line in last.stderr.splitlines() if line.startswith("failed: ")]
    expect(len(listed) == len(bad), f"{len(listed)} bad files are listed, not {len(bad)}")
    expect(all(any(f"{name}.wav" in line for line in listed) for name in bad), "another is listed")
    expect(last.returncode == (1 if bad else 0), f"the exit code is {last.returncode}")


def expect(truth: bool, otherwise: str) -> None:
    if not truth:
        sys.exit(f"soak: {otherwise}")


if __name__ == "__main__":
    main()
