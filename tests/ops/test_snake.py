"""Which backend a snake gets, the ROCm rule above all, and that all backends agree."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import networks as nw
import pytest
import torch

import dac_rocm
from dac_rocm.errors import BackendError
from dac_rocm.nn.layers import Snake1d
from dac_rocm.ops import platform
from dac_rocm.ops import snake as room
from dac_rocm.ops.snake import (
    BACKENDS,
    ENVIRONMENT,
    choose_snake,
    should_use_eager_snake_on_rocm_bf16,
    snake,
    snake_eager,
)

HALF = (torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Nothing built, failed or said before; no wish of the environment."""
    monkeypatch.setattr(room, "_built", {})
    monkeypatch.setattr(room, "_failed", {})
    monkeypatch.setattr(room, "_told", set())
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.fixture
def rocm(monkeypatch):
    """A torch built for ROCm whose tensors are all on the GPU, with a fast path that counts."""
    monkeypatch.setattr(torch.version, "hip", "7.1")
    monkeypatch.setattr(platform, "on_gpu", lambda x: True)
    return count_calls(monkeypatch)


def count_calls(monkeypatch):
    """Count calls of the eager function, and builds and calls of the fast path."""
    counts = dict.fromkeys(("eager", "built", "fast"), 0)

    def counted(name, function):
        def call(*args):
            counts[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(room, "snake_eager", counted("eager", snake_eager))
    fast = counted("fast", snake_eager)
    monkeypatch.setitem(BACKENDS, "torchscript", counted("built", lambda: fast))
    return counts


def tensor(on_gpu, dtype):
    return SimpleNamespace(is_cuda=on_gpu, dtype=dtype)


BOOLS = (False, True)


@pytest.mark.parametrize("hip, x_gpu, a_gpu, x_half, a_half", [*itertools.product(BOOLS, repeat=5)])
def test_the_rule_in_all_32_cases(hip, x_gpu, a_gpu, x_half, a_half, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "7.1" if hip else None)
    x = tensor(x_gpu, torch.bfloat16 if x_half else torch.float32)
    alpha = tensor(a_gpu, torch.bfloat16 if a_half else torch.float32)
    expected = hip and (x_gpu or a_gpu) and (x_half or a_half)
    assert should_use_eager_snake_on_rocm_bf16(x, alpha) is expected
    choice = choose_snake(x, alpha)
    assert (choice.name == "eager") is expected
    assert choice.reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_other_types_keep_the_fast_path_on_rocm(dtype, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "7.1")
    assert choose_snake(tensor(True, dtype), tensor(True, dtype)).name != "eager"


def test_triton_is_chosen_on_a_gpu_that_is_there(monkeypatch):
    monkeypatch.setattr(platform, "has_gpu", lambda: True)
    x = tensor(True, torch.float16)
    assert choose_snake(x, x).name == "triton"
    monkeypatch.setattr(platform, "has_triton", lambda: False)
    assert choose_snake(x, x).name == "torchscript"


def test_triton_is_not_for_float64_or_gradients(monkeypatch):
    monkeypatch.setattr(platform, "has_gpu", lambda: True)
    wide = tensor(True, torch.float64)
    assert choose_snake(wide, wide).name == "torchscript"
    assert choose_snake(wide, wide, "triton").name == "eager"
    learns = SimpleNamespace(is_cuda=True, dtype=torch.float32, requires_grad=True)
    assert choose_snake(learns, learns, "triton").name == "eager"
    with torch.no_grad():
        assert choose_snake(learns, learns, "triton").name == "triton"


def test_triton_is_refused_where_there_is_no_gpu():
    x = tensor(False, torch.float32)
    with pytest.raises(BackendError, match=r"'triton' was asked for.*expected.*auto"):
        choose_snake(x, x, "triton")


def test_under_the_rule_torchscript_is_refused_by_name(monkeypatch, rocm):
    x = tensor(True, torch.bfloat16)
    with pytest.raises(BackendError, match=r"'torchscript' was asked for, but on ROCm"):
        choose_snake(x, x, "torchscript")
    monkeypatch.setenv(ENVIRONMENT, "torchscript")
    with pytest.raises(BackendError, match=f"asked for by {ENVIRONMENT}"):
        choose_snake(x, x)
    assert choose_snake(x, x, "eager").name == "eager"


@pytest.mark.parametrize("backend", ["triton", "compile"])
def test_under_the_rule_a_compiler_is_obeyed_with_one_warning(backend, rocm):
    x = tensor(True, torch.bfloat16)
    with pytest.warns(RuntimeWarning, match=f"'{backend}' was asked for and is used") as caught:
        assert choose_snake(x, x, backend).name == backend
        assert choose_snake(x, x, backend).name == backend
    assert len(caught) == 1


def test_the_environment_speaks_where_the_caller_does_not(monkeypatch):
    x = tensor(False, torch.float32)
    monkeypatch.setenv(ENVIRONMENT, "eager")
    assert choose_snake(x, x).name == "eager"
    assert choose_snake(x, x, "torchscript").name == "torchscript"
    monkeypatch.setenv(ENVIRONMENT, "quick")
    with pytest.raises(BackendError, match=r"'quick' found; auto or one of eager, torchscript"):
        choose_snake(x, x)


@pytest.mark.parametrize("x_type, a_type", [HALF, HALF[::-1], (torch.bfloat16, torch.float32)])
def test_on_rocm_bf16_the_fast_path_is_never_built(x_type, a_type, rocm):
    module = Snake1d(3).to(a_type).requires_grad_(False)
    y = module(torch.randn(2, 3, 50).to(x_type))
    assert y.dtype == x_type
    assert rocm == {"eager": 1, "built": 0, "fast": 0}


def run_everything(dtype):
    """Encode, decode, stream and batch with the bundled model."""
    model = dac_rocm.load("tiny", device="cpu", optimize=False).to(dtype)
    audio = nw.noise(1, 1, 4 * model.hop_length)
    codes = model.encode(audio)
    model.decode(codes)
    model.encode_many([audio[0], audio[0, :, :700]])
    model.decode_many([codes[0], codes[0, :, :2]])
    with dac_rocm.stream_encoder(model) as encoder, dac_rocm.stream_decoder(model) as decoder:
        encoder.push(audio)
        encoder.flush()
        decoder.push(codes)
        decoder.flush()
    model.get_submodule("decoder")(model.from_codes(codes))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_whole_model_on_rocm(dtype, rocm):
    run_everything(dtype)
    used, other = ("eager", "fast") if dtype == torch.bfloat16 else ("fast", "eager")
    assert rocm[used] > 100
    assert rocm[other] == 0
    assert rocm["built"] == (dtype != torch.bfloat16)


def test_bf16_on_a_cpu_keeps_the_fast_path_on_rocm(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "7.1")
    counts = count_calls(monkeypatch)
    x = torch.randn(1, 2, 9).bfloat16()
    snake(x, x[:, :, :1], x[:, :, :1])
    assert counts == {"eager": 0, "built": 1, "fast": 1}


def broken(error):
    def call(*args):
        raise error

    return lambda: call


def test_a_backend_that_fails_is_replaced_once_and_said_once(monkeypatch):
    monkeypatch.setitem(BACKENDS, "torchscript", broken(ValueError("no such kernel\nmore")))
    x, alpha = torch.randn(1, 2, 9), torch.rand(1, 2, 1)
    with pytest.warns(RuntimeWarning, match=r"'torchscript' failed \(no such kernel\)") as caught:
        first, second = snake(x, alpha, alpha), snake(x, alpha, alpha)
    assert len(caught) == 1
    assert torch.equal(first, snake_eager(x, alpha, alpha)) and torch.equal(first, second)
    choice = choose_snake(x, alpha)
    assert choice.name == "eager" and "no such kernel" in choice.reason


def test_a_builder_that_fails_is_replaced_too(monkeypatch):
    def missing():
        raise ImportError("no module named triton")

    monkeypatch.setitem(BACKENDS, "compile", missing)
    x, alpha = torch.randn(1, 2, 9), torch.rand(1, 2, 1)
    out = torch.empty_like(x)
    with pytest.warns(RuntimeWarning, match="no module named triton"):
        assert snake(x, alpha, alpha, "compile", out=out) is out
    assert torch.equal(out, snake_eager(x, alpha, alpha))


def test_a_fault_of_the_tensors_is_not_the_backends():
    with pytest.raises(RuntimeError, match="size of tensor"):
        snake(torch.randn(1, 2, 9), torch.rand(1, 3, 1), torch.rand(1, 3, 1))
    assert not room._failed


def test_no_memory_is_not_the_backends_fault_either(monkeypatch):
    monkeypatch.setitem(BACKENDS, "torchscript", broken(torch.OutOfMemoryError("full")))
    x = torch.randn(1, 2, 9)
    with pytest.raises(torch.OutOfMemoryError):
        snake(x, x[..., :1], x[..., :1])
    assert not room._failed


ALPHAS = torch.tensor([0.0, 1e-9, -1e-9, -1.0, 0.7, 1e4]).view(1, 6, 1)


def truth(x, alpha, beta):
    """The formula in float64 on the very numbers that the backend gets; x where β + 1e-9 is 0.

    That sum is taken in float32, as every backend takes it.
    """
    below = (beta.float() + 1e-9).double()
    x, alpha = x.double(), alpha.double()
    step = torch.sin(alpha * x).square() / torch.where(below == 0, 1, below)
    return x + torch.where(below == 0, 0, step)


def tolerance(y, dtype):
    """2 ulp of the type, and 1e-6."""
    return 2 * torch.finfo(dtype).eps * y.abs() + 1e-6


@pytest.mark.parametrize("backend", ["eager", "torchscript", "compile"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_backends_are_within_2_ulp_of_float64(backend, dtype):
    x = 3 * torch.randn(2, 6, 4001, generator=torch.Generator().manual_seed(0))
    x, alpha = x.to(dtype), ALPHAS.to(dtype)
    y = truth(x, alpha, alpha)
    assert choose_snake(x, alpha, backend).name == backend
    gap = (snake(x, alpha, alpha, backend).double() - y).abs()
    assert (gap <= tolerance(y, dtype)).all()


def test_beta_is_free():
    x = torch.randn(2, 3, 500, dtype=torch.float64)
    alpha, beta = torch.rand(1, 3, 1).double() + 0.5, torch.rand(1, 3, 1).double() + 0.5
    expected = x + torch.sin(alpha * x).square() / (beta + 1e-9)
    assert torch.allclose(snake(x, alpha, beta, "eager"), expected, atol=1e-12)


def test_compile_agrees_with_eager_in_one_graph():
    """The graph is captured for real; the code is run as it is. Above it is compiled for good."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(snake_eager, fullgraph=True, dynamic=True, backend=backend)
    alpha = torch.rand(1, 3, 1)
    for n in (5, 9, 300):
        x = torch.randn(2, 3, n)
        assert torch.equal(compiled(x, alpha, alpha), snake_eager(x, alpha, alpha))
    assert len(graphs) == 1
    assert callable(BACKENDS["compile"]())
