"""The GPU bench on a machine that has no GPU: it tries itself out, or says what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench" / "gpu.py"


def bench(*options):
    command = [sys.executable, SCRIPT, *options]
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **hidden}
    )


def test_without_a_gpu_it_says_so():
    done = bench()
    assert done.returncode == 2 and not done.stdout
    assert "device 'cuda' was asked for, and torch sees none" in done.stderr
    assert "--device cpu --small" in done.stderr and "Traceback" not in done.stderr


def test_it_tries_itself_out(tmp_path):
    done = bench("--device", "cpu", "--small", "--numbers", "float32", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "gpu.json").read_text())
    ways = {row["way"] for row in report["rows"]}
    assert ways == {
        *("modules", "channels-first", "channels-last"),
        *("graphs", "graphs, long pushes"),
    }
    assert all(row["ok"] and 0 < row["error"] < 1e-4 for row in report["rows"])
    assert len(report["snake_share_of_copy"]) == 3
    assert all(set(times) == {"engine", "graphs"} for times in report["live_ms"].values())
    assert (tmp_path / "gpu.md").read_text() in done.stdout
