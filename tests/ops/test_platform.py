"""Facts are asked in one room, at call time; and what it sets it puts back."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dac_rocm.ops import platform

PACKAGE = Path(platform.__file__).parents[1]
FACTS = ("torch.version.hip", "torch.cuda.is_available", "torch.backends.miopen")
TREES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text())
    for path in sorted(PACKAGE.rglob("*.py"))
}


def attributes(tree):
    return [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]


def from_torch(tree):
    """Name what a tree imports out of torch's modules, as `torch.cuda.is_available`."""
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
    return [f"{n.module}.{alias.name}" for n in nodes for alias in n.names]


def asked(tree):
    """Facts that a tree asks for, under any name of the module: `cuda.is_available`, too."""
    endings = tuple(f".{fact.removeprefix('torch.')}" for fact in FACTS)
    names = [f".{name}" for name in (*attributes(tree), *from_torch(tree))]
    return [name for name in names if any(f"{e}." in f"{name}." for e in endings)]


def test_facts_are_asked_in_one_room():
    for name, tree in TREES.items():
        if name != "ops/platform.py":
            assert not asked(tree), name
    assert len(asked(TREES["ops/platform.py"])) >= 2


@pytest.mark.parametrize(
    "line",
    [
        "torch.version.hip",
        "version.hip is None",
        "from torch.version import hip",
        "from torch.cuda import is_available",
        "cuda.is_available()",
        "torch.backends.miopen.immediate = True",
        "from torch.backends import miopen",
    ],
)
def test_what_asks_is_seen(line):
    assert asked(ast.parse(line))
    assert not asked(ast.parse("torch.backends.mkl.is_available(); self.version.hips"))


def test_facts_are_asked_at_call_time():
    tree = TREES["ops/platform.py"]
    outside = [n for n in tree.body if not isinstance(n, ast.FunctionDef)]
    for node in outside:
        assert not any(a.startswith("torch.") for a in attributes(node)), ast.unparse(node)
    decorators = {ast.unparse(d) for n in ast.walk(tree) for d in getattr(n, "decorator_list", [])}
    assert not any("cache" in decorator for decorator in decorators)


def test_no_tensor_is_sent_to_cuda_by_name():
    for name, tree in TREES.items():
        calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
        methods = {f.attr for f in calls if isinstance(f, ast.Attribute)}
        assert "cuda" not in methods, name


def test_benchmark_is_never_turned_on():
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                targets = [ast.unparse(t) for t in node.targets]
                assert not any(t.endswith(".benchmark") for t in targets), name


def test_facts_follow_the_machine(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "7.1")
    assert platform.is_rocm()
    assert platform.versions()["ROCm (HIP)"] == "7.1"
    assert "MIOpen" in platform.versions()
    monkeypatch.setattr(torch.version, "hip", None)
    assert not platform.is_rocm()
    assert "cuDNN" in platform.versions()


def test_devices_in_words(monkeypatch):
    facts = type("Facts", (), {"name": "MI300X", "total_memory": 192 << 30, "major": 9, "minor": 4})
    facts.gcnArchName = "gfx942"
    monkeypatch.setattr(platform, "has_gpu", lambda: True)
    monkeypatch.setattr(platform, "has_mps", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: facts)
    monkeypatch.setattr(torch.version, "hip", "7.1")
    assert platform.devices()["cuda:0"] == "MI300X, gfx942, 192 GiB"
    monkeypatch.setattr(torch.version, "hip", None)
    assert platform.devices()["cuda:0"] == "MI300X, sm_94, 192 GiB"
    assert "mps" in platform.devices() and "cpu" in platform.devices()


@pytest.mark.parametrize("capability, expected", [((7, 5), False), ((8, 0), True)])
def test_bfloat16_of_a_gpu(capability, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert platform.gpu_has_bfloat16(torch.device("cuda")) is expected
    monkeypatch.setattr(torch.version, "hip", "7.1")
    assert platform.gpu_has_bfloat16(torch.device("cuda"))


@pytest.mark.parametrize("wanted", [True, False])
def test_tf32_is_set_and_put_back(wanted):
    def flags():
        return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32

    before = flags()
    with platform.float32_precision(tf32=wanted):
        assert flags() == (wanted, wanted)
    assert flags() == before
    with pytest.raises(ZeroDivisionError), platform.float32_precision(tf32=wanted):
        raise ZeroDivisionError
    assert flags() == before


def test_contexts_inside_of_each_other_and_across_threads(monkeypatch):
    """Whoever closes last puts back what was there, in whatever order they close."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    with platform.float32_precision(tf32=True), platform.float32_precision():
        assert not torch.backends.cudnn.allow_tf32
    first, second = platform.float32_precision(), platform.float32_precision()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not torch.backends.cudnn.allow_tf32  # the second one still runs
    second.__exit__(None, None, None)
    assert torch.backends.cudnn.allow_tf32
    with platform.float32_precision(tf32=True):
        with platform.float32_precision():
            pass
        assert torch.backends.cuda.matmul.allow_tf32


NEW_FLAGS = """
import torch
from dac_rocm.ops.platform import float32_precision
convolution = torch.backends.cudnn.conv
if hasattr(convolution, "fp32_precision"):
    convolution.fp32_precision = "tf32"
    torch.backends.cudnn.rnn.fp32_precision = "ieee"
    with float32_precision():
        assert convolution.fp32_precision == "ieee"
    assert convolution.fp32_precision == "tf32"
    assert torch.backends.cudnn.rnn.fp32_precision == "ieee"
"""


def test_a_user_of_torchs_new_flags_is_respected():
    """In a process of its own: torch never takes the old flags again once they disagree."""
    subprocess.run([sys.executable, "-W", "error", "-c", NEW_FLAGS], check=True, cwd=PACKAGE.parent)
