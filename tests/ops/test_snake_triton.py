"""The Triton kernel: interpreted against its twin, and compiled for cards that are not here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
HERE = Path(__file__).parent


def run(*command, **environment):
    """Run Python; the kernel must be decorated under these variables, so in a new process."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), **environment}
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("part", ["lengths", "small", "other"])
def test_interpreted(part):
    run(HERE / "interpreted.py", part, TRITON_INTERPRET="1")


def test_importing_the_snake_imports_no_triton():
    run("-c", "import sys, dac_rocm.ops.snake; assert 'triton' not in sys.modules")


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942", "hip:gfx1100"])
def test_compiled_code_has_an_exact_sine_and_wide_loads(target, tmp_path):
    run(HERE / "compiled.py", target, TRITON_CACHE_DIR=str(tmp_path))
