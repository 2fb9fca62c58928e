"""The command itself: exit codes, one line per error, signals, and real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import networks as nw
import numpy as np
import pytest
import soundfile
import torch

import dac_rocm
from dac_rocm.cli import main as module
from dac_rocm.cli.main import COMMANDS, main
from dac_rocm.errors import AudioError, SourceError

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def command(*argv, **options):
    return subprocess.run(
        [sys.executable, "-m", "dac_rocm", *map(str, argv)],
        capture_output=True,
        cwd=options.pop("cwd", ROOT),
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
        **options,
    )


@pytest.fixture
def folder(tmp_path):
    nw.shared("even").save_pretrained(tmp_path / "model")
    soundfile.write(tmp_path / "in.wav", nw.noise(1, 16000).numpy().T, 16000)
    return tmp_path


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["unknown"],
        ["encode"],
        ["encode", "in.wav", "--format", "mp3"],
        ["encode", "in.wav", "--n-codebooks", "two"],
        ["decode", "x", "--start", "soon"],
        ["decode", "x", "--subtype", "pcm8"],
        ["info"],
        ["models", "extra"],
        ["encode", "in.wav", "--unknown"],
    ],
)
def test_wrong_usage_is_2(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: dac-rocm" in err


def test_help_and_version(capsys):
    for argv in (["--help"], *([name, "--help"] for name in COMMANDS), ["--version"]):
        with pytest.raises(SystemExit) as caught:
            main(argv)
        assert caught.value.code == 0
    assert f"dac-rocm {dac_rocm.__version__}" in capsys.readouterr().out


@pytest.fixture
def raising(monkeypatch):
    """Make `dac-rocm models` raise."""
    from dac_rocm.cli import models

    def make(error):
        def run(_args):
            raise error

        monkeypatch.setattr(models, "run", run)
        return main(["models"])

    return make


def test_an_error_is_one_line(raising, capsys):
    assert raising(AudioError("this\n  was   found;\nthat is expected")) == 1
    assert capsys.readouterr().err == "error: this was found; that is expected\n"
    assert raising(SourceError("nothing there")) == 1
    assert capsys.readouterr().err == "error: nothing there\n"


def test_ctrl_c_and_sigterm(raising, capsys):
    assert raising(KeyboardInterrupt()) == 130
    assert "stopped" in capsys.readouterr().err
    assert raising(module._Terminated()) == 143
    assert "terminated" in capsys.readouterr().err


def test_out_of_memory_is_one_line(folder, monkeypatch, capsys):
    """Whatever kernel runs out of it, down to the smallest tile."""
    from dac_rocm.engine import Flow

    def run(*_args):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Flow, "_run", run)
    argv = ["encode", folder / "in.wav", "--model", folder / "model"]
    assert main([str(a) for a in argv]) == 1
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("error: ")
    assert "memory" in err
    assert not (folder / "in.dacz").exists()


def test_signals_are_as_before(capsys):
    before = signal.getsignal(signal.SIGTERM)
    assert main(["models"]) == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_real_process(folder):
    """Encode and decode through pipes, with no other output on stdout."""
    wav = (folder / "in.wav").read_bytes()
    encoded = command("encode", "-", "-o", "-", "--model", folder / "model", input=wav)
    assert encoded.returncode == 0, encoded.stderr
    assert encoded.stdout[1:5] == b"DACZ"
    decoded = command("decode", "-", "--raw", "--model", folder / "model", input=encoded.stdout)
    assert decoded.returncode == 0, decoded.stderr
    assert len(decoded.stdout) == 2 * 16000


@pytest.mark.parametrize(
    "argv",
    [
        ["encode", "nowhere.wav"],
        ["encode", "."],
        ["encode", ""],
        ["encode", "/dev/null"],
        ["decode", "/"],
        ["decode", "in.wav"],
        ["info", "in.wav"],
        ["encode", "in.wav", "--model", "nowhere/at-all", "--offline"],
        ["encode", "in.wav", "--model", "in.wav"],
        ["encode", "in.wav", "--device", "toaster"],
        ["encode", "in.wav", "--dtype", "float8"],
        ["encode", "in.wav", "--chunk-seconds", "inf"],
        ["encode", "in.wav", "--chunk-seconds", "nan"],
        ["encode", "in.wav", "--chunk-seconds", "-1"],
        ["encode", "in.wav", "--max-memory", "nan"],
        ["encode", "in.wav", "--max-memory", "inf"],
        ["encode", "in.wav", "--max-memory", "-5"],
        ["encode", "in.wav", "--gain-db", "nan"],
        ["encode", "in.wav", "--gain-db", "1e9"],
        ["encode", "in.wav", "--n-codebooks", "0"],
        ["encode", "in.wav", "--n-codebooks", "999"],
        ["encode", "in.wav", "-o", "no/such/folder/x.dacz"],
        ["encode", "in.wav", "-o", "x.mp3"],
        ["encode", "in.wav", "-o", "in.wav", "--format", "dacz"],
    ],
)
def test_whatever_is_wrong_is_one_line(argv, folder, monkeypatch, capsys):
    """Exit 1 or 2, the last line says why, no traceback, and nothing was written."""
    monkeypatch.chdir(folder)
    if "--model" not in argv and argv[0] == "encode":
        argv = [*argv, "--model", "model"]
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    assert main(argv) in (1, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith(("error: ", "nothing"))
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


def test_a_reader_that_goes_away(folder):
    """`dac-rocm decode ... | head`: no traceback."""
    soundfile.write(folder / "in.wav", np.tile(nw.noise(1, 16000).numpy().T, (20, 1)), 16000)
    assert command("encode", folder / "in.wav", "--model", folder / "model").returncode == 0
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "dac_rocm",
            "decode",
            str(folder / "in.dacz"),
            "-o",
            "-",
            "--model",
            str(folder / "model"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    )
    assert process.stdout.read(100)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) in (0, 1)
    assert b"Traceback" not in err
    assert b"Exception ignored" not in err


def test_killed_in_the_middle(folder):
    """SIGTERM: nothing half-written; user demand 36."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "dac_rocm",
            "encode",
            "-",
            "-o",
            str(folder / "x.dacz"),
            "--rate",
            "16000",
            "--channels",
            "1",
            "--sample-format",
            "s16",
            "--model",
            str(folder / "model"),
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    )
    assert process.stderr.readline()  # the level of stdin: parsed, and about to read
    process.stdin.write(bytes(400_000))
    process.stdin.flush()
    deadline = 200
    while not list(folder.glob(".dac_rocm-*")) and deadline:
        deadline -= 1
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    assert deadline
    process.send_signal(signal.SIGTERM)
    err = process.stderr.read()
    assert process.wait(60) == 143
    process.stdin.close()
    process.stderr.close()
    assert b"nothing was left half-written" in err
    assert sorted(p.name for p in folder.iterdir()) == ["in.wav", "model"]
