"""Apple GPUs, faked: float32, the search for codes on the CPU, positions below 65,536."""

from __future__ import annotations

from types import SimpleNamespace

import networks as nw
import pytest
import torch

from dac_rocm.geometry import lookahead, ratio, widest
from dac_rocm.lowering import lower_decoder, lower_encoder
from dac_rocm.nn.rvq import VectorQuantize
from dac_rocm.presets import list_presets
from dac_rocm.runtime.optimize import choose_profile
from dac_rocm.runtime.select import choose_dtype
from dac_rocm.runtime.tiles import choose_tile

MPS = torch.device("mps")


def test_float32_and_the_plain_network():
    assert choose_dtype("auto", MPS).name == "float32"
    assert choose_profile("auto", MPS, torch.float32).name == "plain"


def test_codes_are_searched_on_the_cpu_and_brought_back(monkeypatch):
    quantizer = VectorQuantize(6, 32, 4)
    latents = nw.noise(1, 4, 50)
    expected = quantizer.nearest(latents)
    search, moved = VectorQuantize._nearest, []

    def watched(asked, entries):
        index = search(asked, entries)
        return SimpleNamespace(to=lambda device: moved.append(device) or index)

    monkeypatch.setattr(VectorQuantize, "_nearest", staticmethod(watched))
    on_mps = SimpleNamespace(device=MPS, cpu=lambda: latents)
    assert torch.equal(quantizer.nearest(on_mps), expected)
    assert moved == [MPS]


@pytest.mark.parametrize("known", list_presets(), ids=lambda known: known.name)
def test_no_convolution_sees_65536_positions(known):
    """That a push is no longer than its tile and what it holds, `laws/test_engine.py` counts."""
    for steps in (lower_encoder(known.config), lower_decoder(known.config)):
        tile, _ = choose_tile(steps, 1, MPS, torch.float32, max_memory=1 << 50)
        _, positions = widest(steps)
        assert positions * (tile + 2 * lookahead(steps)) < 65_536
        assert tile >= ratio(steps)[0]
