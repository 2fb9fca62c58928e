"""Law: the GPU network is the plain one, in both memory orders and for any division."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from gpu_networks import HALVES, gpu_network, signal
from tolerances import BFLOAT16, EXACT_LAW, FLOAT32_LAW
from torch.nn import functional as F

from dac_rocm.engine import Flow, run
from dac_rocm.errors import BackendError
from dac_rocm.lowering import Transposed
from dac_rocm.ops import platform
from dac_rocm.runtime.gpu import ORDERS, choose_order, side_by_side


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_equals_the_plain_network(shape, half, order):
    model = nw.shared(shape, torch.float64)
    x = signal(model, half, 7)
    network = gpu_network(model, half, order=order)
    expected = run(model.network(half), x)
    assert (run(network, x) - expected).abs().max() <= EXACT_LAW
    flow = Flow(network, tile=3 * model.hop_length)
    parts = [flow.push(part) for part in x.split(model.hop_length, -1)]
    joined = torch.cat([*parts, flow.push(x[..., :0], end=True)], -1)
    assert (joined - expected).abs().max() <= EXACT_LAW


@pytest.mark.parametrize("dtype, limit", [(torch.float32, FLOAT32_LAW), (torch.bfloat16, BFLOAT16)])
@pytest.mark.parametrize("order", ORDERS)
def test_types_of_number(order, dtype, limit):
    model = nw.shared("meta", dtype)
    x = signal(model, "decoder", 20).float()  # brought to the type of the weights
    y = run(gpu_network(model, "decoder", order=order), x)
    assert y.dtype == dtype and y.is_contiguous()
    expected = run(nw.shared("meta", torch.float64).network("decoder"), x.double())
    assert ((y - expected).pow(2).mean() / expected.pow(2).mean()).sqrt() <= limit


@pytest.mark.parametrize("order", ORDERS)
def test_the_chosen_backend_computes_the_snakes(order, monkeypatch):
    from dac_rocm.ops import snake as room

    calls = []
    fast = lambda x, *rest: calls.append(x.shape) or room.snake_eager(x, *rest)  # noqa: E731
    monkeypatch.setattr(room, "_built", {"torchscript": fast})
    model = nw.shared("oobleck")
    x = signal(model, "decoder", 5)
    y = run(gpu_network(model, "decoder", order=order, backend="torchscript"), x)
    assert (y - run(model.network("decoder"), x)).abs().max() <= FLOAT32_LAW
    assert len(calls) == sum(getattr(s, "snake", None) is not None for s in model.steps("decoder"))


@pytest.mark.parametrize("kernel, stride", [(4, 2), (10, 5), (7, 3), (3, 3)])
def test_outputs_side_by_side(kernel, stride):
    step = Transposed(
        name="up", snake=None, in_channels=3, out_channels=2, kernel=kernel, stride=stride
    )
    x, weight = torch.randn(1, 3, 9).double(), torch.randn(3, 2, kernel).double()
    full = F.conv_transpose1d(x, weight, stride=stride)
    y = F.conv1d(F.pad(x, (step.taps - 1, 0)), side_by_side(step, weight))
    y = y.view(1, stride, 2, 9).permute(0, 2, 3, 1).reshape(1, 2, 9 * stride)
    n = min(full.shape[-1], 9 * stride)
    assert torch.allclose(y[..., :n], full[..., :n], atol=1e-12)


def test_the_order_is_chosen_with_a_reason(monkeypatch):
    assert choose_order().name == "channels-last"
    monkeypatch.setattr(platform, "is_rocm", lambda: True)
    assert choose_order().name == "channels-first" and choose_order().reason
    assert choose_order("channels-last").reason == "was asked for"
    with pytest.raises(BackendError, match=r"'rows' found; auto or one of .* is expected"):
        choose_order("rows")
