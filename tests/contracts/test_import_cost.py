"""Importing costs nothing, and what needs no torch loads none."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dac_rocm import EncodedAudio, write_encoded
from dac_rocm.cli.main import COMMANDS

DESCRIPT = Path(__file__).parents[1] / "data/descript_files/mono_whole.dac"
HEAVY = {"torch", "torchaudio", "numpy", "huggingface_hub", "soundfile", "safetensors"}


def loaded_by(statement, *args):
    """Run a statement in a fresh interpreter; return the heavy packages that it loaded."""
    tell = "import json, sys; sys.stderr.write(json.dumps(sorted(sys.modules)))"
    code = f"import atexit; atexit.register(lambda: exec({tell!r}))\n{statement}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *args],
        capture_output=True,
        text=True,
        check=True,
    )
    return HEAVY & set(json.loads(done.stderr)), done.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    path = tmp_path_factory.mktemp("cost") / "a.dacz"
    codes = np.zeros((1, 2, 3), np.uint16)
    encoded = EncodedAudio(
        data=codes,
        sample_rate=16000,
        channels=1,
        length=960,
        model_rate=16000,
        hop_length=320,
        codebook_size=1024,
    )
    write_encoded(path, encoded)
    return {"dacz": path, "dac": DESCRIPT}


def test_importing_is_silent_and_loads_nothing():
    assert loaded_by("import dac_rocm") == (set(), "")


def test_errors_and_configs_need_neither():
    assert loaded_by("from dac_rocm import DacError, CodecConfig, list_models; list_models()") == (
        set(),
        "",
    )


@pytest.mark.parametrize("kind", ["dacz", "dac"])
def test_info_needs_neither(files, kind):
    run = "import runpy; runpy.run_module('dac_rocm', run_name='__main__')"
    loaded, output = loaded_by(run, "info", str(files[kind]))
    assert not loaded and kind in output


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_needs_neither(command):
    run = "import runpy; runpy.run_module('dac_rocm', run_name='__main__')"
    loaded, output = loaded_by(run, *command, "--help")
    assert not loaded and output.startswith("usage: dac-rocm")


def test_loading_imports_no_compiler():
    """Values drawn on the meta device would: 0.4 s of every first `load`."""
    code = (
        "import sys, torch; before = set(sys.modules)\n"
        "import dac_rocm; dac_rocm.load('tiny', device='cpu'); dac_rocm.load('tiny-vae')\n"
        "print({'sympy', 'torch._dynamo', 'torch._inductor'} & (set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
