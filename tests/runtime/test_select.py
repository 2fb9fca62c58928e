"""Device and type of number, by themselves and as asked."""

from __future__ import annotations

import pytest
import torch

from dac_rocm.errors import BackendError
from dac_rocm.ops import platform
from dac_rocm.runtime.select import choose_device, choose_dtype, device_kind


@pytest.fixture
def machine(monkeypatch):
    """Set what torch sees."""

    def see(*, gpu=False, mps=False, gpu_bf16=True, cpu_bf16=True):
        monkeypatch.setattr(platform, "has_gpu", lambda: gpu)
        monkeypatch.setattr(platform, "has_mps", lambda: mps)
        monkeypatch.setattr(platform, "gpu_has_bfloat16", lambda device: gpu_bf16)
        monkeypatch.setattr(platform, "cpu_has_bfloat16", lambda: cpu_bf16)

    return see


@pytest.mark.parametrize(
    "gpu, mps, expected", [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_a_device_is_chosen(gpu, mps, expected, machine):
    machine(gpu=gpu, mps=mps)
    choice = choose_device()
    assert choice.name == expected and "torch sees" in choice.reason


@pytest.mark.parametrize("wanted", ["cuda", "cuda:1", "mps", torch.device("cuda")])
def test_a_device_that_is_not_there_is_refused(wanted, machine):
    machine()
    with pytest.raises(BackendError, match=r"was asked for.*expected.*device='auto'"):
        choose_device(wanted)


def test_a_device_that_is_there_is_taken(machine):
    machine(gpu=True)
    assert choose_device("cuda:1") == ("cuda:1", "was asked for")
    assert choose_device(torch.device("cpu")).name == "cpu"


def test_an_unknown_device_is_refused():
    for ask in (choose_device, device_kind):
        with pytest.raises(BackendError, match=r"'toaster' found; auto, cpu, .* is expected"):
            ask("toaster")


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps", "cuda:1", "xpu"])
def test_float32_everywhere_unless_asked(device):
    choice = choose_dtype("auto", device)
    assert choice.name == "float32" and choice.reason


def test_an_unknown_type_is_refused():
    with pytest.raises(BackendError, match=r"'float8' found; auto or one of float32.* expected"):
        choose_dtype("float8")


@pytest.mark.parametrize("wanted", ["float16", "bfloat16", torch.bfloat16])
def test_a_gpu_takes_half_types(wanted, machine):
    machine(gpu=True)
    assert choose_dtype(wanted, "cuda").name == str(wanted).removeprefix("torch.")


def test_a_gpu_without_bfloat16_refuses_it(machine):
    machine(gpu=True, gpu_bf16=False)
    with pytest.raises(BackendError, match=r"cannot compute in it.*expected.*float16"):
        choose_dtype("bfloat16", "cuda:0")
    assert choose_dtype("float16", "cuda:0").name == "float16"


def test_apple_gpus_refuse_bfloat16_and_warn_of_float16():
    with pytest.raises(BackendError, match="noise"):
        choose_dtype("bfloat16", "mps")
    with pytest.warns(RuntimeWarning, match="unstable"):
        assert choose_dtype("float16", "mps").name == "float16"


def test_a_cpu_warns_of_what_it_emulates(machine):
    machine(cpu_bf16=True)
    assert choose_dtype("bfloat16", "cpu").name == "bfloat16"
    machine(cpu_bf16=False)
    with pytest.warns(RuntimeWarning, match="emulates"):
        choose_dtype("bfloat16", "cpu")
    with pytest.warns(RuntimeWarning, match="slower"):
        choose_dtype("float16", "cpu")
