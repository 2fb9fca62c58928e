"""The engine against the readable modules, its slow twin, whatever the pushes."""

from __future__ import annotations

import threading
from itertools import accumulate

import networks as nw
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import LAW

from dac_rocm.engine import Flow, is_out_of_memory, run
from dac_rocm.errors import BackendError, DacError
from dac_rocm.geometry import known_length, output_length, ratio, tile_length
from dac_rocm.lowering import Conv, Transposed
from dac_rocm.nodes import ConvNode

HALVES = ("encoder", "decoder")
DTYPES = (torch.float64, torch.float32)


def signal(model, half, n, batch=1, seed=0):
    channels = model.config.encoder if half == "encoder" else model.config.decoder
    return nw.noise(batch, channels.in_channels, n, seed=seed, dtype=model.dtype)


def twin(model, half, x):
    return getattr(model, half)(x)


def pushed(flow, x, sizes):
    """Push in pieces of these sizes, cycled; the last piece ends the signal."""
    parts, start, i = [], 0, 0
    while start < x.shape[-1]:
        n = sizes[i % len(sizes)]
        parts.append(flow.push(x[..., start : start + n]))
        start, i = start + n, i + 1
    return torch.cat([*parts, flow.push(x[..., :0], end=True)], -1)


def assert_law(found, wanted, dtype):
    assert found.shape == wanted.shape
    worst = (found - wanted).abs().max().item() if wanted.numel() else 0.0
    assert worst <= LAW[dtype], f"{worst:.2e}"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_chunked_is_streamed_is_whole(shape, half, dtype):
    model = nw.shared(shape, dtype)
    network, steps = model.network(half), model.steps(half)
    down, _ = ratio(steps)
    for n in (37 * down, 37 * down + 1, 23 * down + down // 2 + 1):
        x = signal(model, half, n, batch=2)
        wanted = twin(model, half, x)
        assert_law(run(network, x), wanted, dtype)
        for tile in (down, 3 * down, 5 * down + 1):
            assert_law(run(network, x, tile=tile), wanted, dtype)
        for sizes in ([down], [7 * down + 3, 0, 1, 2 * down], [n], [n - 1, 1]):
            assert_law(pushed(Flow(network), x, sizes), wanted, dtype)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_one_input_at_a_time(shape, half):
    model = nw.shared(shape, torch.float64)
    n = 2 * model.hop_length + 3 if half == "encoder" else 21
    x = signal(model, half, n)
    wanted = twin(model, half, x)
    assert_law(pushed(Flow(model.network(half)), x, [1]), wanted, torch.float64)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    shape=st.sampled_from(nw.SHAPES),
    half=st.sampled_from(HALVES),
    n=st.integers(1, 400),
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=6).filter(any),
    tile=st.none() | st.integers(1, 50),
    batch=st.integers(1, 2),
    cached=st.none() | st.integers(1, 3000),
)
def test_any_pushes(shape, half, n, sizes, tile, batch, cached):
    model = nw.shared(shape, torch.float64)
    n = n if half == "encoder" else n // 10 + 1
    x = signal(model, half, n, batch)
    network = Watched(model.network(half))
    network.cached = cached
    found = pushed(Flow(network, tile=tile), x, sizes)
    whole = run(model.network(half), x)
    assert found.shape[-1] == output_length(model.steps(half), n)
    assert_law(found, whole, torch.float64)
    if whole.shape[-1]:  # torch refuses what is shorter than a kernel
        assert_law(whole, twin(model, half, x), torch.float64)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", ("even", "odd", "listdim"))
def test_without_padding(shape, half):
    """Descript's chunked `.dac`: the modules with all paddings set to 0."""
    model = nw.build(shape, dtype=torch.float64)
    steps = model.steps(half, padded=False)
    n = next(n for n in range(1, 5000) if output_length(steps, n) >= 40)
    x = signal(model, half, n)
    network = model.network(half, padded=False)
    found = run(network, x)
    assert_law(run(network, x, tile=ratio(steps)[0] * 3), found, torch.float64)
    for module in model.modules():
        if isinstance(module, torch.nn.Conv1d | torch.nn.ConvTranspose1d):
            module.padding = (0,)
        if type(module).__name__ == "ResidualUnit":

            def cropped(x, module=module):
                y = module.block(x)
                edge = (x.shape[-1] - y.shape[-1]) // 2
                return x[..., edge : x.shape[-1] - edge] + y

            module.forward = cropped
    assert_law(found, twin(model, half, x), torch.float64)


@pytest.mark.parametrize("shape", ("even", "meta", "oobleck"))
@pytest.mark.parametrize("half", HALVES)
def test_the_law_sees_a_shortened_state(shape, half):
    """One value of one layer's state lost: the law must fail."""
    model = nw.shared(shape, torch.float64)
    down, _ = ratio(model.steps(half))
    x = signal(model, half, 100 * down)
    wanted = twin(model, half, x)
    for step in model.steps(half):
        if not (isinstance(step, Conv) and step.kernel > 1) and not isinstance(step, Transposed):
            continue
        flow = Flow(model.network(half))
        node = next(node for node in flow._nodes if getattr(node, "step", None) == step)
        first = flow.push(x[..., : 80 * down])
        node.tail.narrow(2, 0, 1).zero_()
        found = torch.cat((first, flow.push(x[..., 80 * down :], end=True)), -1)
        assert found.shape == wanted.shape
        assert (found - wanted).abs().max() > 1e-6, step.name


@pytest.mark.parametrize("shape", ("even", "odd", "oobleck"))
@pytest.mark.parametrize("half", HALVES)
def test_the_law_sees_one_input_less_of_state(shape, half, monkeypatch):
    """A state shortened by one input moves or loses outputs."""
    whole_push = ConvNode.push

    def shorter(self, x, end):
        y = whole_push(self, x, end)
        if self.tail is not None and self.step.kernel > 1:
            self.tail = self.tail[..., 1:]
        return y

    model = nw.shared(shape, torch.float64)
    down, _ = ratio(model.steps(half))
    x = signal(model, half, 30 * down)
    wanted = twin(model, half, x)
    monkeypatch.setattr(ConvNode, "push", shorter)
    try:
        found = pushed(Flow(model.network(half)), x, [10 * down])
    except RuntimeError:
        return  # a residual unit no longer fits its input
    assert found.shape != wanted.shape or (found - wanted).abs().max() > 1e-6


class Counting:
    """A kernel that counts the positions that it makes, and may fail."""

    def __init__(self, kernel, log):
        self.kernel, self.log = kernel, log

    def extend(self, past, x, after):
        return self.kernel.extend(past, x, after)

    def convolve(self, x, onto=None):
        y = self.kernel.convolve(x, onto)
        self.log.positions += y.shape[-1]
        self.log.longest = max(self.log.longest, y.shape[-1])
        self.log.elements = max(self.log.elements, y.numel(), x.numel())
        self.log.sizes.append(x.shape[-1])
        self.log.check()
        return y


class Watched:
    """A network around another, whose kernels report here."""

    def __init__(self, network, check=lambda: None):
        self.network = network
        self.kernels = [None if k is None else Counting(k, self) for k in network.kernels]
        self.check = check
        self.clear()

    def __getattr__(self, name):
        return getattr(self.network, name)

    def clear(self):
        self.positions = self.longest = self.elements = 0
        self.sizes = []


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", ("even", "odd", "mova"))
def test_positions_per_push_are_constant(shape, half):
    """No recomputation: each push of 8 frames costs the same, and all pushes the whole run."""
    model = nw.shared(shape)
    network = Watched(model.network(half))
    down, _ = ratio(model.steps(half))
    x = signal(model, half, 8 * down)
    flow = Flow(network)
    costs, shapes = [], set()
    for _ in range(16):
        network.clear()
        flow.push(x)
        costs.append(network.positions)
        shapes.add(tuple(network.sizes))
    start = 16 - 8 if half == "encoder" else 6
    assert len(set(costs[start:])) == 1
    assert costs[-1] > 0
    assert max(costs) == costs[-1]
    network.clear()
    run(network, torch.cat([x] * 16, -1))
    whole = network.positions
    flow.push(x[..., :0], end=True)
    network.clear()
    flow = Flow(network)
    for _ in range(16):
        flow.push(x)
    flow.push(x[..., :0], end=True)
    assert network.positions == whole
    assert len(shapes) <= 16  # settles: the last pushes meet one set of shapes


@pytest.mark.parametrize("lengths", (None, (5, 31)))
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_parts_that_stay_in_the_cache_change_nothing(shape, half, lengths):
    """Nothing is computed twice either, and every stage has several parts."""
    model = nw.shared(shape, torch.float64)
    network = Watched(model.network(half))
    down, _ = ratio(model.steps(half))
    x = signal(model, half, 31 * down, batch=2)
    lengths = None if lengths is None else [n * down for n in lengths]
    wanted = run(network, x, lengths=lengths)
    whole, calls, most = network.positions, len(network.sizes), network.elements
    network.clear()
    network.cached = most // 8
    found = run(network, x, lengths=lengths)
    assert_law(found, wanted, torch.float64)
    assert network.positions == whole
    assert len(network.sizes) > 2 * calls
    assert network.elements < most


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", ("even", "odd"))
def test_constant_pushes_meet_constant_shapes(shape, half):
    """What compilers and MIOpen like: user demand 49."""
    model = nw.shared(shape)
    network = Watched(model.network(half))
    down, _ = ratio(model.steps(half))
    flow, seen = Flow(network), []
    for _ in range(12):
        network.clear()
        flow.push(signal(model, half, 8 * down))
        seen.append(tuple(network.sizes))
    assert len(set(seen[6:])) == 1


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_known_outputs_come_at_once(shape):
    for half in HALVES:
        model = nw.shared(shape)
        steps = model.steps(half)
        flow, given = Flow(model.network(half)), 0
        x = signal(model, half, 3 if half == "decoder" else 11)
        for i in range(1, 60):
            given += flow.push(x).shape[-1]
            assert given == known_length(steps, i * x.shape[-1])


def oom_once_above(network, limit):
    """Run out of memory wherever a convolution of the first step sees more than `limit`."""
    first = next(k for k in network.kernels if k is not None)
    whole = first.kernel.convolve

    def convolve(x, onto=None):
        if x.shape[-1] > limit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return whole(x, onto)

    first.kernel = type("Kernel", (), {"extend": first.kernel.extend, "convolve": convolve})()
    first.kernel.convolve = convolve


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", ("even", "odd", "oobleck"))
def test_out_of_memory_halves_the_tile(shape, half):
    model = nw.shared(shape, torch.float64)
    down, _ = ratio(model.steps(half))
    x = signal(model, half, 41 * down + down // 2)
    wanted = twin(model, half, x)
    network = Watched(model.network(half))
    oom_once_above(network, 8 * down + 10)
    flow = Flow(network, tile=32 * down)
    assert_law(flow.push(x, end=True), wanted, torch.float64)
    assert flow.tile < 32 * down
    assert all(n <= 8 * down + 10 for n in [network.sizes[0]])
    untiled = Flow(network)
    assert_law(untiled.push(x, end=True), wanted, torch.float64)


def test_out_of_memory_in_a_late_layer():
    """A failure deep in the network must leave no earlier layer's state moved."""
    model = nw.shared("even", torch.float64)
    x = signal(model, "decoder", 40)
    network = Watched(model.network("decoder"))
    failures = iter([True] * 2 + [False] * 10_000)
    late = [k for k in network.kernels if k is not None][-1]
    whole = late.kernel

    class Failing:
        extend = staticmethod(whole.extend)

        @staticmethod
        def convolve(x, onto=None):
            if next(failures):
                raise torch.OutOfMemoryError("out of memory")
            return whole.convolve(x, onto)

    late.kernel = Failing()
    flow = Flow(network, tile=16)
    found = torch.cat((flow.push(x[..., :20]), flow.push(x[..., 20:], end=True)), -1)
    assert flow.tile < 16
    assert_law(found, twin(model, "decoder", x), torch.float64)


def test_out_of_memory_at_the_smallest_tile_is_named():
    model = nw.shared("even")
    network = Watched(model.network("decoder"))
    oom_once_above(network, 0)
    with pytest.raises(DacError, match=r"(?i)memory") as caught:
        run(network, signal(model, "decoder", 9))
    assert isinstance(caught.value, BackendError)


def test_what_counts_as_out_of_memory():
    assert is_out_of_memory(torch.OutOfMemoryError("x"))
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes"))
    assert not is_out_of_memory(RuntimeError("shape mismatch"))


@pytest.mark.parametrize("cached", (None, 500))
@pytest.mark.parametrize("fail_at", (0, 3, 11, 20))
@pytest.mark.parametrize("half", HALVES)
def test_an_exception_leaves_the_flow_as_it_was(half, fail_at, cached):
    model = nw.shared("odd", torch.float64)
    down, _ = ratio(model.steps(half))
    x = signal(model, half, 40 * down)
    calls = {"left": -1}

    def check():
        calls["left"] -= 1
        if calls["left"] == 0:
            raise KeyboardInterrupt

    network = Watched(model.network(half), check)
    network.cached = cached
    flow = Flow(network, tile=5 * down)
    first = flow.push(x[..., : 20 * down])
    calls["left"] = fail_at + 1
    with pytest.raises(KeyboardInterrupt):
        flow.push(x[..., 20 * down :], end=True)
    calls["left"] = -1
    found = torch.cat((first, flow.push(x[..., 20 * down :], end=True)), -1)
    assert_law(found, twin(model, half, x), torch.float64)


def test_push_after_the_end():
    model = nw.shared("even")
    flow = Flow(model.network("decoder"))
    flow.push(signal(model, "decoder", 3), end=True)
    with pytest.raises(BackendError, match="push after the end found"):
        flow.push(signal(model, "decoder", 3))


@pytest.mark.parametrize("half", HALVES)
def test_the_input_is_not_changed(half):
    for shape in nw.SHAPES:
        model = nw.shared(shape)
        x = signal(model, half, 5 * model.hop_length if half == "encoder" else 30)
        kept = x.clone()
        flow = Flow(model.network(half))
        y = flow.push(x)
        seen = y.clone()
        flow.push(x)
        assert torch.equal(x, kept)
        assert torch.equal(y, seen)  # nor what was given out


@pytest.mark.parametrize("half", HALVES)
def test_flows_in_threads_do_not_touch_each_other(half):
    model = nw.build("even", dtype=torch.float64)
    down, _ = ratio(model.steps(half))
    inputs = [signal(model, half, 60 * down, seed=i) for i in range(4)]
    wanted = [twin(model, half, x) for x in inputs]
    found = [None] * 4

    def work(i):
        network = model.network(half)
        sizes = [down, 3 * down, 60 * down, 7]
        found[i] = pushed(Flow(network), inputs[i], [sizes[i]])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for made, want in zip(found, wanted, strict=True):
        assert_law(made, want, torch.float64)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", ("odd", "mova", "oobleck"))
def test_ragged_lengths_in_tiles(shape, half):
    """Every layer sees zeros after each item's end, whatever the tile."""
    model = nw.shared(shape, torch.float64)
    steps = model.steps(half)
    down, _ = ratio(steps)
    lengths = [3 * down, 17 * down, 30 * down]
    items = [signal(model, half, n, seed=i) for i, n in enumerate(lengths)]
    batch = torch.cat([torch.nn.functional.pad(x, (0, 30 * down - x.shape[-1])) for x in items])
    for tile in (None, 4 * down, 30 * down):
        found = run(model.network(half), batch, tile=tile, lengths=lengths)
        for i, x in enumerate(items):
            n = output_length(steps, lengths[i])
            assert_law(found[i : i + 1, :, :n], twin(model, half, x), torch.float64)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", ("even", "odd"))
def test_tiles_keep_every_call_under_the_limits(shape, half):
    """Positions as Metal counts them, to the last push, whose outputs include what was held."""
    model = nw.shared(shape)
    steps = model.steps(half)
    down, up = ratio(steps)
    for most in (4096, 8192):
        tile = tile_length(steps, 1, max_elements=1 << 31, max_positions=most - 1)
        network = Watched(model.network(half))
        n = 3 * tile
        run(network, signal(model, half, n), tile=tile)
        assert tile >= down
        assert network.longest < most, f"{network.longest} of {most}; up {up}"


def test_elements_stay_under_the_limit():
    model = nw.shared("even")
    for half in HALVES:
        steps = model.steps(half)
        most = 1 << 17
        tile = tile_length(steps, 3, max_elements=most)
        network = Watched(model.network(half))
        run(network, signal(model, half, 3 * tile, batch=3), tile=tile)
        assert network.elements <= 1.25 * most
        assert network.elements >= most // 4, "a tile far too small"


def test_accumulated_positions_grow_evenly():
    """A long stream costs as much per push at its end as at its start (counted, not timed)."""
    model = nw.shared("listdim")
    network = Watched(model.network("decoder"))
    flow, x = Flow(network), signal(model, "decoder", 8)
    totals = []
    for _ in range(60):
        network.clear()
        flow.push(x)
        totals.append(network.positions)
    assert list(accumulate(totals))[-1] == sum(totals[:10]) + 50 * totals[-1]
    held = sum(n.tail.numel() for n in flow._nodes if getattr(n, "tail", None) is not None)
    flow.push(x)
    again = sum(n.tail.numel() for n in flow._nodes if getattr(n, "tail", None) is not None)
    assert held == again
