"""Workers side by side: every package in its own venv and process, runs taken in turns.

Each package is checked on its first run, which also warms it up; then comes round 1 of all, round 2
of all, and so on, so that whatever else the machine does hits everyone alike.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[3]
OUTPUTS = {"encode": "data", "decode": "audio"}
"""Half to the name of what comes out of it."""
HALVES = tuple(OUTPUTS)
PAUSE_SECONDS = 0.2
"""Before each run: the threads of the package before have gone to sleep by then."""
LIMITS = {"float32": (0.99, 1e-4), "bfloat16": (0.5, 0.15)}
"""Type of number to the least share of equal codes, and the largest error over the peak, for which
a time is shown. bfloat16 keeps 8 bits: one step is 0.4 %, and a network has 50 of them in a row."""


@dataclass
class Half:
    """One package's encode or decode.

    Args:
        share: Share of codes that equal the true ones; None where no codes come out.
        error: Largest difference from the truth over its peak; None for codes.
        snr_db: Signal to noise ratio in dB; None for codes.
        problem: Why there is no time; empty where there is one.
        times: Seconds of every counted run.
        peak: Largest resident memory, in bytes.
    """

    share: float | None = None
    error: float | None = None
    snr_db: float | None = None
    problem: str = ""
    times: list[float] = field(default_factory=list)
    peak: int = 0

    @property
    def seconds(self) -> float | None:
        """Median, where the result is right."""
        return statistics.median(self.times) if self.times else None


@dataclass
class Row:
    """What was found of one package.

    Args:
        name: As `worker.PACKAGES` has it.
        version: Of the package.
        loaded: Resident memory with everything loaded, in bytes.
        halves: `encode` and `decode`.
    """

    name: str
    version: str = ""
    loaded: int = 0
    halves: dict[str, Half] = field(default_factory=lambda: {half: Half() for half in HALVES})

    @property
    def dtype(self) -> str:
        """Type of number that it computes in."""
        return "bfloat16" if self.name.endswith("bfloat16") else "float32"


class WorkerError(Exception):
    """A package said that it cannot go on, or ended."""


class Process:
    """A worker process; a context manager. Arguments: see `worker.Worker`.

    Raises:
        WorkerError: It does not start.
    """

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        self._process = subprocess.Popen(
            [python_of(name), "-W", "ignore", "-m", "peers.worker", name, folder, str(threads)],
            env=environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self.about = self._answer()
        except WorkerError:
            self.close()
            raise

    def ask(self, *request: object) -> dict[str, Any]:
        """Send a request and wait for the answer.

        Raises:
            WorkerError: There is none, or it is an error.
        """
        print(*request, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process ended"}
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def python_of(name: str) -> str:
    """Return the interpreter of a package: this one for ours, else that of its venv."""
    if name.startswith("ours"):
        return sys.executable
    return str(ROOT / ".venvs" / name.removesuffix("-bfloat16") / "bin" / "python")


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a process that finds these modules, and computes with threads."""
    counts = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    path = os.pathsep.join((str(ROOT), str(ROOT / "scripts" / "bench")))
    return {**os.environ, **counts, "PYTHONPATH": path}


def compare(folder: Path, names: Sequence[str], rounds: int, threads: int) -> list[Row]:
    """Run packages side by side.

    Args:
        folder: What `prepare` (and `export`) wrote.
        names: Of `worker.PACKAGES`.
        rounds: Counted runs of each.
        threads: For arithmetic, in each package.
    """
    rows = {name: Row(name) for name in names}
    with ExitStack() as stack:
        workers = {}
        for name, row in rows.items():
            if worker := _started(row, folder, threads):
                workers[name] = stack.enter_context(worker)
        for _ in range(rounds):
            for name, worker in workers.items():
                _take_turn(worker, rows[name])
    return list(rows.values())


def _started(row: Row, folder: Path, threads: int) -> Process | None:
    """Start a package and check it; None where that fails."""
    worker = None
    try:
        worker = Process(row.name, folder, threads)
        row.loaded, row.version = int(worker.about["memory"]), str(worker.about["version"])
        for half in HALVES:
            _check(worker, row, half, folder)
    except (WorkerError, OSError) as failure:
        _give_up(row, str(failure))
    return worker


def _take_turn(worker: Process, row: Row) -> None:
    for half, found in row.halves.items():
        if found.problem:
            continue
        time.sleep(PAUSE_SECONDS)
        try:
            answer = worker.ask(half)
        except (WorkerError, OSError) as failure:
            return _give_up(row, str(failure))
        found.times.append(answer["seconds"])
        found.peak = max(found.peak, int(answer["peak"]))
    return None


def _give_up(row: Row, problem: str) -> None:
    for found in row.halves.values():
        found.problem = found.problem or problem
        found.times.clear()


def _check(worker: Process, row: Row, half: str, folder: Path) -> None:
    """Run once and compare with the truth."""
    found = row.halves[half]
    found.peak = int(worker.ask(half)["peak"])
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "result.npy"
        worker.ask("save", path)
        result = np.load(path)
    judge(found, result, np.load(folder / f"true_{OUTPUTS[half]}.npy"), row.dtype)


def judge(found: Half, result: np.ndarray, truth: np.ndarray, dtype: str) -> None:
    """Note the error of a result, and the problem where it is too large."""
    least, most = LIMITS[dtype]
    if result.shape != truth.shape:
        found.problem = f"shape {result.shape} found, {truth.shape} expected"
    elif truth.dtype.kind == "i":
        found.share = float((result == truth).mean())
        if found.share < least:
            found.problem = f"{found.share:.1%} of the codes are right"
    else:
        noise = result.astype(np.float64) - truth
        found.error = float(np.abs(noise).max() / np.abs(truth).max())
        power = max(float(np.square(noise).mean()), 1e-300)
        found.snr_db = float(10 * np.log10(np.square(truth).mean() / power))
        if not found.error <= most:
            found.problem = f"error of {found.error:.1e}"
