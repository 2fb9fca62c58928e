"""Law: pushes of one fixed length give what the engine gives, for any length of signal."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from gpu_networks import HALVES, gpu_network, signal, unit
from tolerances import EXACT_LAW

from dac_rocm.engine import run
from dac_rocm.errors import BackendError, ShapeError
from dac_rocm.geometry import known_length, output_length, ratio
from dac_rocm.runtime.fixed import FixedPush, plan
from dac_rocm.runtime.flow import FixedRunner


@pytest.mark.parametrize("order", ["channels-first", "channels-last"])
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_equals_the_engine(shape, half, order):
    model = nw.shared(shape, torch.float64)
    network = gpu_network(model, half, order=order)
    runner = FixedRunner(network, 4 * unit(model, half))
    for frames in (2, 4, 9, 40):
        x = signal(model, half, frames)
        y = runner.run(x)
        expected = run(model.network(half), x)
        assert y.shape == expected.shape
        assert (y - expected).abs().max() <= EXACT_LAW


@pytest.mark.parametrize("push", [1, 2, 30])
@pytest.mark.parametrize("half", HALVES)
def test_any_push(half, push):
    model = nw.shared("odd", torch.float64)
    runner = FixedRunner(gpu_network(model, half), push * unit(model, half), always_edge=push == 2)
    x = signal(model, half, 17)
    assert (runner.run(x) - run(model.network(half), x)).abs().max() <= EXACT_LAW


@pytest.mark.parametrize("half", HALVES)
def test_without_padding(half):
    model = nw.shared("even", torch.float64)
    steps = model.steps(half, padded=False)
    network = gpu_network(model, half, padded=False)
    x = signal(model, half, 60)
    expected = run(model.network(half, padded=False), x)
    y = FixedRunner(network, 8 * unit(model, half)).run(x)
    assert y.shape[-1] == output_length(steps, x.shape[-1])
    assert (y - expected).abs().max() <= EXACT_LAW


def test_ragged_items_are_as_alone():
    model = nw.shared("meta", torch.float64)
    x, lengths = signal(model, "decoder", 23, batch=3), [23, 1, 10]
    for i, n in enumerate(lengths):
        x[i, :, n:] = 0
    y = FixedRunner(gpu_network(model, "decoder"), 5).run(x, lengths=lengths)
    for i, n in enumerate(lengths):
        alone = run(model.network("decoder"), x[i : i + 1, :, :n])
        assert (y[i, :, : alone.shape[-1]] - alone[0]).abs().max() <= EXACT_LAW


@pytest.mark.parametrize("half", HALVES)
def test_a_stream_gives_all_that_is_known(half):
    model = nw.shared("odd", torch.float64)
    push = 3 * unit(model, half)
    flow = FixedRunner(gpu_network(model, half), push).flow()
    x = signal(model, half, 30)
    parts, total = [], 0
    for i in range(10):
        parts.append(flow.push(x[..., i * push : (i + 1) * push]))
        total += parts[-1].shape[-1]
        assert total == known_length(model.steps(half), (i + 1) * push)
    assert flow.push(x[..., :0]).shape[-1] == 0
    parts.append(flow.push(x[..., :0], end=True))
    assert (torch.cat(parts, -1) - run(model.network(half), x)).abs().max() <= EXACT_LAW
    with pytest.raises(BackendError, match="after the end"):
        flow.push(x)


def test_only_pushes_at_the_edges_are_masked():
    model = nw.shared("even", torch.float64)
    runner = FixedRunner(gpu_network(model, "decoder"), 16)
    calls = []
    edge, steady = runner.edge, runner.steady
    runner.edge = lambda *args: calls.append("edge") or edge(*args)
    runner.steady = lambda *args: calls.append("steady") or steady(*args)
    runner.run(signal(model, "decoder", 160))
    assert calls == ["edge"] * 2 + ["steady"] * 8 + ["edge"] * 2


@pytest.mark.parametrize("size", [1, 3, 7, 50, 1000])
@pytest.mark.parametrize("half", HALVES)
def test_pushes_of_any_size_wait_until_they_fill_one(half, size):
    model = nw.shared("odd", torch.float64)
    runner = FixedRunner(gpu_network(model, half), 3 * unit(model, half))
    x, flow = signal(model, half, 23), runner.flow()
    step, (down, up) = size * unit(model, half) // 2 + 1, ratio(runner.steps)
    parts, taken, late = [], 0, 0
    for piece in x.split(step, -1):
        parts.append(flow.push(piece))
        taken += piece.shape[-1]
        known = sum(part.shape[-1] for part in parts)
        late = max(late, (taken - runner.lookahead) // down * up - known)
    assert late <= 0  # what `lookahead` promises
    parts.append(flow.push(x[..., :0], end=True))
    assert (torch.cat(parts, -1) - run(model.network(half), x)).abs().max() <= EXACT_LAW


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("push", [1, 3])
def test_no_smaller_lookahead_would_do(push, half):
    """One input less, and some output of the first n inputs is not there yet."""
    model = nw.shared("odd", torch.float64)
    runner = FixedRunner(gpu_network(model, half), push * unit(model, half))
    down, up = ratio(runner.steps)
    missing = []
    for n in range(1, 12):
        flow = runner.flow()
        x = signal(model, half, 60)[..., : n * unit(model, half) + runner.lookahead]
        assert flow.push(x).shape[-1] >= n * unit(model, half) // down * up
        less = runner.flow().push(x[..., :-1])
        missing.append(less.shape[-1] < n * unit(model, half) // down * up)
    assert any(missing)


def test_a_runner_is_a_network_as_well():
    model = nw.shared("odd", torch.float64)
    runner = FixedRunner(gpu_network(model, "decoder"), 3)
    x = signal(model, "decoder", 20)
    assert (run(runner, x) - run(model.network("decoder"), x)).abs().max() <= EXACT_LAW


def test_pushes_that_the_strides_do_not_divide_are_refused():
    model = nw.shared("even")
    network = gpu_network(model, "encoder")
    with pytest.raises(ShapeError, match=r"pushes of 5 found.*multiple of the hop is expected"):
        FixedPush(network, 5)
    with pytest.raises(ShapeError, match=r"pushes of 0 found"):
        plan(network.steps, 0)


def test_a_failed_push_changes_nothing(monkeypatch):
    model = nw.shared("even", torch.float64)
    runner = FixedRunner(gpu_network(model, "decoder"), 4)
    x = signal(model, "decoder", 16)
    flow = runner.flow()
    first = flow.push(x[..., :8])
    steady, edge = runner.steady, runner.edge

    def fail(*args):
        raise RuntimeError("no kernel")

    runner.steady = runner.edge = fail
    with pytest.raises(RuntimeError, match="no kernel"):
        flow.push(x[..., 8:])
    runner.steady, runner.edge = steady, edge
    joined = torch.cat((first, flow.push(x[..., 8:], end=True)), -1)
    assert (joined - run(model.network("decoder"), x)).abs().max() <= EXACT_LAW


def test_tf32_is_off_inside_and_as_before_after(monkeypatch):
    model = nw.shared("even")
    runner = FixedRunner(gpu_network(model, "decoder"), 4)
    seen, edge = [], runner.edge

    def watch(*args):
        seen.append(torch.backends.cudnn.allow_tf32)
        return edge(*args)

    runner.edge = watch
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    runner.run(signal(model, "decoder", 3))
    assert set(seen) == {False}
    assert torch.backends.cudnn.allow_tf32
