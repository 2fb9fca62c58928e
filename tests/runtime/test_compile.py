"""Compilation: whole graphs, three at most, the same result. The compiler itself is not run."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from gpu_networks import gpu_network, signal
from tolerances import FLOAT32_LAW

from dac_rocm.dac import DAC
from dac_rocm.engine import run
from dac_rocm.ops import platform
from dac_rocm.runtime.compile import MAX_GRAPHS, compiled_runner


class Backend:
    """Takes the graphs that the compiler would get, and runs them as they are."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append(graph)
        return graph.forward


def test_three_graphs_for_any_files():
    torch.compiler.reset()
    backend = Backend()
    model = DAC(nw.descript((2,), (4,), 16000), snake="eager").requires_grad_(False).eval()
    runner = compiled_runner(gpu_network(model, "decoder"), 16, backend=backend)
    for batch, frames in ((1, 3), (2, 40), (1, 41), (3, 7), (4, 20), (2, 5), (1, 100)):
        x = signal(model, "decoder", frames, batch)
        gap = runner.run(x) - run(model.network("decoder"), x)
        assert gap.abs().max() <= FLOAT32_LAW
    assert len(backend.graphs) == MAX_GRAPHS


def test_bfloat16_on_rocm_is_compiled_with_a_warning(monkeypatch):
    model = nw.shared("even", torch.bfloat16)
    network = gpu_network(model, "decoder")
    monkeypatch.setattr(platform, "is_rocm", lambda: True)
    compiled_runner(network, 16)  # on the CPU there is nothing to say
    monkeypatch.setattr(type(network), "device", torch.device("cuda"))
    with pytest.warns(RuntimeWarning, match=r"torch.compile was asked for .* on ROCm"):
        compiled_runner(network, 16)
