"""The doctor finds what is wrong with a machine, and the switch that mends it."""

from __future__ import annotations

import argparse
import json
import math
import os

import pytest
import torch
from torch.nn import functional as F

from dac_rocm.choice import Choice
from dac_rocm.cli import doctor as command
from dac_rocm.doctor import Check, Report, choices, diagnose, dtypes_of, examine
from dac_rocm.doctor.probes import Probe, make_probes
from dac_rocm.errors import BackendError
from dac_rocm.ops import platform
from dac_rocm.ops import snake as room
from dac_rocm.ops.snake import BACKENDS, ENVIRONMENT, snake_eager

CONV1D = F.conv1d
TRUTH = torch.tensor([1.0, 2.0], dtype=torch.float64)


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch):
    """A CPU in one type of number, and no wish of the environment."""
    monkeypatch.setattr(platform, "cpu_has_bfloat16", lambda: False)
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setattr(room, "_built", {})
    monkeypatch.setattr(room, "_failed", {})


def test_a_sound_machine():
    report = diagnose(["cpu"])
    assert report.ok
    names = ["snake", "conv", "transposed conv", "encode", "decode"]
    assert [check.name for check in report.checks] == names
    assert all(check.error < check.limit / 5 and not check.finding for check in report.checks)
    assert report.facts["torch"] == torch.__version__ and "cpu" in report.facts
    assert report.choices["device"].reason and report.choices["snake on cpu in float32"].reason


def test_miopen_is_told_before_the_first_convolution(monkeypatch):
    told = []
    monkeypatch.setattr("dac_rocm.doctor.prepare_miopen", told.append)
    monkeypatch.setattr("dac_rocm.doctor.make_probes", lambda: told.append("probes") or ())
    diagnose(["cpu"])
    assert told == ["cpu", "probes"]


def corrupted(*args, **kwargs):
    """A convolution of a broken library: wrong in one sample, but not in float64."""
    y = CONV1D(*args, **kwargs)
    if y.dtype != torch.float64 and torch.backends.mkldnn.enabled:
        y[..., 0] += 0.05
    return y


def test_a_corrupted_convolution_is_found_and_mended(monkeypatch):
    monkeypatch.setattr(F, "conv1d", corrupted)
    report = diagnose(["cpu"])
    bad = {check.name: check.finding for check in report.checks if not check.ok}
    assert bad["conv"] == "wrong result; conv_backend('native') mends it"
    assert "transposed conv" not in bad and "snake" not in bad
    assert torch.backends.mkldnn.enabled


def test_a_corrupted_network_is_found(monkeypatch):
    monkeypatch.setattr(F, "conv1d", corrupted)
    monkeypatch.setattr("dac_rocm.doctor.probes.load", _load_plain)
    bad = [check for check in diagnose(["cpu"]).checks if not check.ok]
    assert {"conv", "encode"} <= {check.name for check in bad}


def _load_plain(source, **options):
    from dac_rocm.model import load

    return load(source, **{**options, "optimize": False})


@pytest.mark.filterwarnings("ignore:tiny:UserWarning")
def test_a_wrong_snake_is_found_and_mended(monkeypatch):
    monkeypatch.setitem(BACKENDS, "torchscript", lambda: lambda *args: 1.01 * snake_eager(*args))
    made = next(probe for probe in make_probes() if probe.name == "snake")
    check = examine(made, "cpu", "float32")
    assert check.finding == f"wrong result; {ENVIRONMENT}=eager mends it"


def test_a_wish_of_the_environment_is_put_back(monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "torchscript")
    probe = Probe("odd", "operation", lambda *to: TRUTH + 1, TRUTH)
    assert "no switch mends it on cpu" in examine(probe, "cpu", "float32").finding
    assert torch.backends.mkldnn.enabled
    assert os.environ[ENVIRONMENT] == "torchscript"


def test_another_type_may_mend_it():
    def run(device, dtype):
        return TRUTH if dtype == "float32" else TRUTH * math.inf

    check = examine(Probe("odd", "network", run, TRUTH), "cpu", "float16")
    assert not check.ok and not check.ran
    assert check.finding == "wrong result; dtype='float32' mends it"


def test_a_crash_is_a_finding():
    def run(device, dtype):
        raise RuntimeError("miopenStatusUnknownError\nand more")

    check = examine(Probe("odd", "network", run, TRUTH), "cpu", "float32")
    assert math.isnan(check.error) and not check.ok
    assert check.finding.startswith("RuntimeError: miopenStatusUnknownError; no switch")


def test_types_of_each_device(monkeypatch):
    assert dtypes_of("cpu") == ["float32"] and dtypes_of("mps") == ["float32"]
    monkeypatch.setattr(platform, "cpu_has_bfloat16", lambda: True)
    assert dtypes_of("cpu") == ["float32", "bfloat16"]
    for has in (True, False):
        monkeypatch.setattr(platform, "gpu_has_bfloat16", lambda device, has=has: has)
        assert dtypes_of("cuda:1") == ["float32", "float16"] + ["bfloat16"] * has


def test_a_choice_that_is_refused_is_shown(monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "triton")
    choice = dict(choices([("cpu", "float32")]))["snake on cpu in float32"]
    assert choice.name == "none" and "on no GPU" in choice.reason


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(BackendError, match="toaster"):
        diagnose(["toaster"])


def report_of(error, finding=""):
    check = Check("conv", "cuda:0", "float16", error, 5e-3, finding)
    return Report({"torch": "2.9"}, {"device": Choice("cuda", "it is there")}, (check,))


@pytest.mark.parametrize(
    "report, code, words",
    [
        (report_of(1e-4), 0, "all is well"),
        (report_of(0.3, "wrong result; conv_backend('native') mends it"), 1, "1 of 1 checks"),
        (report_of(math.nan, "RuntimeError: no kernel"), 1, "WRONG cuda:0 float16"),
    ],
)
def test_the_command(report, code, words, monkeypatch, capsys):
    monkeypatch.setattr("dac_rocm.doctor.diagnose", lambda devices: report)
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["doctor"])
    assert args.run(args) == code
    text = capsys.readouterr().out
    assert words in text and report.checks[0].finding in text and "it is there" in text
    args = parser.parse_args(["doctor", "--json", "--device", "cpu"])
    assert args.device == ["cpu"] and args.run(args) == code
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is (code == 0) and data["choices"]["device"]["name"] == "cuda"
    assert data["checks"][0]["error"] == (
        None if math.isnan(report.checks[0].error) else report.checks[0].error
    )
