"""Law: optimizing changes nothing. The plain network is the slow twin of the fast one."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import networks as nw
import pytest
import torch
from tolerances import BFLOAT16, EXACT_LAW, FLOAT32_LAW

import dac_rocm
from dac_rocm.engine import Flow, run
from dac_rocm.errors import BackendError
from dac_rocm.lowering import Conv
from dac_rocm.nn.layers import Snake1d
from dac_rocm.runtime import convolution
from dac_rocm.runtime.convolution import choose_convolution
from dac_rocm.runtime.cpu import CpuKernel, CpuNetwork, _sin
from dac_rocm.runtime.threads import intra_op_threads

HALVES = ("encoder", "decoder")


def fast(model, half, *, padded=True):
    """The CPU network of a half, whatever the model's profile says."""
    snakes = {n: m for n, m in model.named_modules() if isinstance(m, Snake1d)}
    return CpuNetwork(model.steps(half, padded=padded), dict(model.named_parameters()), snakes)


def signal(model, half, frames, batch=2, dtype=torch.float32):
    """Input of a half."""
    config = model.config
    shapes = {
        "encoder": (batch, config.audio_channels, frames * config.hop_length),
        "decoder": (batch, config.decoder.in_channels, frames),
    }
    return nw.noise(*shapes[half], dtype=dtype)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_fast_equals_plain(shape, half):
    model = nw.shared(shape)
    x = signal(model, half, 23)
    gap = run(fast(model, half), x) - run(model.network(half), x)
    assert gap.abs().max() <= FLOAT32_LAW


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("half", HALVES)
def test_fast_equals_plain_with_any_threads(half, threads):
    """One thread has a sine and sizes of its own."""
    model = nw.shared("even")
    network, x = fast(model, half), signal(model, half, 300)
    wanted = run(model.network(half), x)
    with intra_op_threads(threads):
        assert (run(network, x) - wanted).abs().max() <= FLOAT32_LAW


@pytest.mark.parametrize("private", (False, True))
@pytest.mark.parametrize(("taps", "channels"), [(1, 6), (2, 6), (3, 6), (7, 6), (7, 96)])
@pytest.mark.parametrize("outputs", (1, 255, 256, 700))
def test_a_kernel_adds_to_what_it_is_given(outputs, taps, channels, private):
    """Whatever convolves: products, rows that overlap, minimal filtering; whole, or in pieces."""
    if private:
        nw.packed_or_skip()
    step = Conv(name="c", snake=None, in_channels=channels, out_channels=channels, kernel=taps)
    weight, bias = nw.noise(channels, channels, taps), nw.noise(channels)
    kernel = CpuKernel(step, weight, bias, None, gain=None, driven=False, private=private)
    x, onto = nw.noise(2, outputs + taps - 1, channels), nw.noise(2, outputs, channels)
    kept = x.clone(), onto.clone()
    alone = kernel.convolve(x)
    assert (kernel.convolve(x, onto) - alone - onto).abs().max() <= FLOAT32_LAW * alone.abs().max()
    assert torch.equal(x, kept[0])
    assert torch.equal(onto, kept[1])


@pytest.mark.parametrize("threads", (1, 2))
def test_what_is_not_finite_passes_quietly(threads, recwarn):
    x = torch.tensor([0.5, math.inf, -math.inf, math.nan, 1e6])
    found = torch.empty_like(x)
    with intra_op_threads(threads):
        _sin(x, found)
    torch.testing.assert_close(found, torch.sin(x), equal_nan=True, rtol=0, atol=2e-7)
    assert not recwarn.list


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_fast_equals_plain_exactly_in_float64(shape, half, monkeypatch):
    """The public convolution takes float64, where only the order of sums may differ.

    Snakes of alpha 0 and 1e-9 are left out: the fast network takes them as 1e-8, which float32
    cannot tell apart.
    """
    monkeypatch.setattr(convolution, "packed", None)
    model = nw.build(shape, dtype=torch.float64)
    for module in model.modules():
        if isinstance(module, Snake1d) and not module.log_scale:
            module.alpha.copy_(torch.where(module.alpha.abs() < 1e-6, 0.5, module.alpha))
    x = signal(model, half, 23, dtype=torch.float64)
    network = fast(model, half)
    gap = run(network, x) - run(model.network(half), x)
    # (α against α + 1e-9 in the denominator: 1e-9 of sin² at most)
    assert gap.abs().max() <= 1e-7
    pushed = run(network, x, tile=3 * model.hop_length if half == "encoder" else 3)
    assert (pushed - run(network, x)).abs().max() <= EXACT_LAW


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_fast_streams_as_it_runs_whole(shape, half):
    model = nw.shared(shape)
    network, x = fast(model, half), signal(model, half, 31)
    flow, unit = Flow(network), model.hop_length if half == "encoder" else 1
    cuts = [0, unit, unit, 4 * unit + unit // 2, 30 * unit, x.shape[-1]]
    pieces = [flow.push(x[..., a:b]) for a, b in itertools.pairwise(cuts)]
    pieces.append(flow.push(x[..., :0], end=True))
    assert (torch.cat(pieces, -1) - run(network, x)).abs().max() <= FLOAT32_LAW


def test_fast_takes_ragged_batches_and_unpadded_steps():
    model = nw.shared("odd")
    x = signal(model, "decoder", 40)
    x[1, :, 17:] = 0
    network = fast(model, "decoder")
    ragged = run(network, x, lengths=[40, 17])
    alone = run(network, x[1:, :, :17])
    assert (ragged[1:, :, : alone.shape[-1]] - alone).abs().max() <= FLOAT32_LAW
    plain = run(model.network("decoder", padded=False), x)
    assert (run(fast(model, "decoder", padded=False), x) - plain).abs().max() <= FLOAT32_LAW


def test_the_public_twin_of_the_packed_call(monkeypatch):
    model = nw.shared("even")
    x = signal(model, "encoder", 20)
    packed = run(fast(model, "encoder"), x)
    monkeypatch.setattr(convolution, "packed", None)
    assert choose_convolution().name == "conv2d"
    assert (run(fast(model, "encoder"), x) - packed).abs().max() <= FLOAT32_LAW


@pytest.mark.parametrize("call", ["packed", "linear"])
def test_a_packed_call_that_computes_wrong_is_not_chosen(call, monkeypatch):
    monkeypatch.setattr(convolution, call, lambda *_: torch.zeros_like)
    assert choose_convolution().name == "conv2d"
    assert "another result" in choose_convolution().reason


def test_optimize_chooses_once_and_says_why():
    model = nw.build("even")
    model.set_snake("auto")
    x = nw.noise(1, 1, 2000)
    before = model.encode(x)
    first = dac_rocm.optimize(model)
    network = model.network("encoder")
    assert isinstance(network, CpuNetwork)
    assert dac_rocm.optimize(model) == first
    assert model.network("encoder") is network
    assert first[-1].name == "cpu" and "packed" in first[-1].reason
    assert torch.equal(model.encode(x), before)
    assert dac_rocm.optimize(model, "plain")[-1].name == "plain"
    assert not isinstance(model.network("encoder"), CpuNetwork)


def test_what_is_refused():
    model = nw.build("even", dtype=torch.float64)
    with pytest.raises(BackendError, match="float32 or bfloat16 on a CPU is expected"):
        dac_rocm.optimize(model, "cpu")
    with pytest.raises(BackendError, match="a CUDA or ROCm device is expected"):
        dac_rocm.optimize(model, "gpu")
    with pytest.raises(BackendError, match="one of auto, plain, cpu, gpu, graphs, compile is"):
        dac_rocm.optimize(model, "fastest")


@pytest.mark.parametrize("change", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_work_after_optimize(change):
    model = nw.build("mova")
    model.set_snake("auto")
    dac_rocm.optimize(model)
    x = nw.noise(1, 1, 900)
    wanted = model.encode(x).mean
    again = change(model)
    assert torch.equal(again.encode(x).mean, wanted)
    assert isinstance(again.network("encoder"), CpuNetwork)


def test_weights_and_types_follow_after_optimize():
    model = nw.build("even")
    model.set_snake("auto")
    keys = model.state_dict().keys()
    dac_rocm.optimize(model)
    z = nw.noise(1, model.config.decoder.in_channels, 50)
    wanted = model.decode_z(z)
    assert model.state_dict().keys() == keys
    halved = model.to(torch.bfloat16).decode_z(z).float()
    error = (halved - wanted).square().mean().sqrt() / wanted.square().mean().sqrt()
    assert 0 < error < BFLOAT16
    other = nw.build("even", seed=1)
    model.to(torch.float32).load_state_dict(other.state_dict())
    assert (model.decode_z(z) - other.decode_z(z)).abs().max() <= FLOAT32_LAW


def test_outputs_may_enter_training():
    model = nw.build("meta")
    model.set_snake("auto")
    dac_rocm.optimize(model)
    scale = torch.ones(1, requires_grad=True)
    (model.encode(nw.noise(1, 1, 500)).mean * scale).sum().backward()
    assert scale.grad is not None
