"""Memory does not grow with the recording; scripts/bench/memory.py alone does it with an hour."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="a system that does not tell the peak")
def test_peak_of_a_short_and_a_long_recording(tmp_path):
    """10 s and 120 s. The chunk is given, since one chosen from free memory is longer than 10 s."""
    script = [sys.executable, ROOT / "scripts/bench/memory.py", "--folder", tmp_path]
    options = ["--minutes", str(1 / 6), "2", "--channels", "1", "--chunk-seconds", "2"]
    done = subprocess.run(
        [*script, *options], capture_output=True, text=True, check=False, cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if "code |" in line]
    assert [row[1].strip() for row in rows] == ["encode", "decode"]
    for row in rows:
        short, long, ratio = map(float, row[2:5])
        assert short > 50 and long <= 1.1 * short and ratio <= 1.1
    assert not list(tmp_path.iterdir())
