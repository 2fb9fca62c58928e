"""Compilation: whole graphs, three at most, the same result.

The compiler gets real graphs, and hands them back as they are; one test runs it for good.
"""

from __future__ import annotations

import threading
from functools import partial

import networks as nw
import pytest
import torch
from gpu_networks import gpu_network, signal, smallest
from tolerances import FLOAT32_LAW
from torch._dynamo.utils import counters

import dac_rocm
from dac_rocm.engine import run
from dac_rocm.ops import platform
from dac_rocm.ops import snake as snakes
from dac_rocm.runtime.compile import MAX_GRAPHS, CompiledPush, compiled_runner


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch.compiler.reset()


class Backend:
    """Takes the graphs that the compiler would get, and runs them as they are."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append(graph)
        return graph.forward


@pytest.fixture
def backend(monkeypatch):
    """What the profile `compile` compiles with in this test."""
    own = Backend()
    runner = partial(compiled_runner, backend=own)
    monkeypatch.setattr("dac_rocm.runtime.optimize.compiled_runner", runner)
    return own


def test_three_graphs_for_any_signals():
    backend, model = Backend(), smallest()
    runner = compiled_runner(gpu_network(model, "decoder"), 16, backend=backend)
    for batch, frames in ((1, 3), (2, 40), (1, 41), (3, 7), (4, 20), (2, 5), (1, 100)):
        x = signal(model, "decoder", frames, batch)
        gap = runner.run(x) - run(model.network("decoder"), x)
        assert gap.abs().max() <= FLOAT32_LAW
    assert len(backend.graphs) == MAX_GRAPHS


LENGTHS = (1, 2, 31, 32, 33, 64, 1000, 1001)


def test_three_graphs_for_a_model_and_any_files(backend, tmp_path):
    """Encode and decode whole, ragged, live and from files, one to three channels at a time."""
    model, twin = smallest(), smallest()
    dac_rocm.optimize(model, "compile", push=16)
    for n in LENGTHS:
        x = nw.noise(1, 1, n)
        codes = model.encode(x)
        assert torch.equal(codes, twin.encode(x))
        assert (model.decode(codes) - twin.decode(codes)).abs().max() <= FLOAT32_LAW
    assert len(backend.graphs) == 2
    clips = [nw.noise(1, n, seed=n) for n in LENGTHS]
    found, expected = model.encode_many(clips[:3]), twin.encode_many(clips[:3])
    assert all(map(torch.equal, found, expected))
    for channels in (1, 2, 3):
        x = nw.noise(channels, 777, seed=channels).numpy()
        dac_rocm.decode_audio(model, dac_rocm.encode_audio(model, x, 16000))
    assert len(backend.graphs) == MAX_GRAPHS
    with torch.inference_mode():  # torch would compile anew for it
        assert torch.equal(model.encode(clips[5][None]), twin.encode(clips[5][None]))
    assert len(backend.graphs) == MAX_GRAPHS


def test_copies_and_other_weights_have_graphs_of_their_own(backend):
    model, x = smallest(), nw.noise(1, 1, 100)
    dac_rocm.optimize(model, "compile", push=16)
    for _ in range(MAX_GRAPHS):
        expected = model.encode(x)
        model.to(torch.float32)  # as any change of weights would, it forgets what was compiled
    assert len(backend.graphs) == MAX_GRAPHS
    assert torch.equal(model.encode(x), expected)
    assert len(backend.graphs) == MAX_GRAPHS + 1


class Doubled:
    """A push function with a constant of its own."""

    def __init__(self, number):
        self.number = number

    def push(self, x):
        return (2 * x + self.number,)


def test_any_number_of_models_may_be_compiled():
    """Torch counts graphs by the code object, and gives up at eight, also across models."""
    backend, x = Backend(), torch.ones(1, 3)
    for i in range(12):
        compiled = CompiledPush(Doubled(i).push, [0], backend=backend)
        assert torch.equal(compiled(x)[0], 2 * x + i)
    assert len(backend.graphs) == 12


def test_a_compiler_that_fails_is_left_out_and_said_once():
    calls = []

    def fail(graph, inputs):
        calls.append(graph)
        raise RuntimeError("no C++ compiler found\nand more")

    push, x = CompiledPush(Doubled(1).push, [0], backend=fail), torch.ones(1, 3)
    with pytest.warns(RuntimeWarning, match=r"torch.compile failed \(.*no C\+\+ ") as caught:
        first, second = push(x), push(x)
    assert len(caught) == len(calls) == 1
    assert torch.equal(first[0], 2 * x + 1) and torch.equal(second[0], first[0])


def test_a_fault_of_the_tensors_and_lack_of_memory_are_not_the_compilers(monkeypatch):
    push = CompiledPush(lambda x, y: (x @ y,), [0], backend=Backend())
    monkeypatch.setattr(push, "_compiled", push.function)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        push(torch.ones(2, 3), torch.ones(2, 3))

    def full(x):
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(push, "_compiled", full)
    with pytest.raises(torch.OutOfMemoryError):
        push(torch.ones(2, 3))
    assert not push._failed


def test_threads_share_the_tickets():
    tickets, taken = list(range(MAX_GRAPHS)), []
    pushes = [CompiledPush(Doubled(i).push, tickets, backend=Backend()) for i in range(8)]
    gate = threading.Barrier(8)

    def work(push):
        gate.wait()
        taken.extend(b for b in range(20) if push._admits((b,)))

    threads = [threading.Thread(target=work, args=(push,)) for push in pushes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == MAX_GRAPHS and not tickets


@pytest.mark.parametrize("dtype, warned", [(torch.bfloat16, True), (torch.float16, False)])
def test_bfloat16_on_rocm_is_obeyed_where_it_was_said_with_one_warning(
    dtype, warned, monkeypatch, recwarn
):
    monkeypatch.setattr(snakes, "_told", set())
    model = nw.build("even", dtype=dtype)
    model.set_snake("auto")
    monkeypatch.setattr(platform, "is_rocm", lambda: True)
    dac_rocm.optimize(model, "compile")  # on the CPU there is nothing to say
    assert not recwarn.list
    monkeypatch.setattr(type(model), "device", torch.device("cuda"))
    assert dac_rocm.optimize(model)[-1].name == "gpu"  # never by itself
    for _ in range(2):
        assert dac_rocm.optimize(model, "compile")[-1].name == "compile"
    said = [str(w.message) for w in recwarn if w.category is RuntimeWarning]
    assert len(said) == warned
    assert not warned or "profile 'compile' was asked for and builds bfloat16 snakes" in said[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_compiler_itself():
    """Half a minute: C++ is built. Its graph is counted, and its audio is that of the twin."""
    model, twin = smallest(), smallest()
    dac_rocm.optimize(model, "compile", push=50)
    before = counters["stats"]["unique_graphs"]
    for n in (3, 50, 120):
        codes = nw.frames(twin, 1, n)
        gap = model.decode(codes) - twin.decode(codes)
        assert gap.abs().max() <= FLOAT32_LAW
    assert counters["stats"]["unique_graphs"] == before + 1
    runner = model.network("decoder")
    assert not runner.edge._failed
