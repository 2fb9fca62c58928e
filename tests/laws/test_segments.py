"""Law: segments of time side by side give what one run after the other gives."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import networks as nw
import pytest
import torch
from tolerances import EXACT_LAW, FLOAT32_LAW

import dac_rocm
from dac_rocm.engine import run
from dac_rocm.errors import BackendError
from dac_rocm.geometry import output_length, ratio
from dac_rocm.lowering import lower_decoder, lower_encoder
from dac_rocm.presets import list_presets
from dac_rocm.runtime import segments
from dac_rocm.runtime.segments import cut, overlap, run_in_segments
from dac_rocm.runtime.threads import intra_op_threads

HALVES = ("encoder", "decoder")


@pytest.fixture(autouse=True)
def short_segments(monkeypatch):
    """Test networks see far beyond the hop; a segment may be as short as what it sees."""
    monkeypatch.setattr(segments, "LEAST", 1)
    monkeypatch.setattr(segments, "MOST", 2)


def signal(model, half, n, batch=1):
    config = model.config.encoder if half == "encoder" else model.config.decoder
    return nw.noise(batch, config.in_channels, n, dtype=model.dtype)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_segments_equal_the_whole_run(shape, half):
    model = nw.shared(shape, torch.float64)
    network, (down, _) = model.network(half), ratio(model.steps(half))
    for n in (5 * overlap(network.steps), 7 * overlap(network.steps) + down // 2 + 1):
        x = signal(model, half, n, batch=2)
        parts = cut(network.steps, n, 3)
        assert len(parts) >= 3
        for tile in (None, 2 * down):
            with intra_op_threads(3):
                found = run_in_segments(network, x, parts, tile=tile)
            wanted = run(network, x)
            assert found.shape == wanted.shape
            assert (found - wanted).abs().max() <= EXACT_LAW


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", ("even", "odd", "meta_odd"))
def test_segments_of_items_of_different_lengths(shape, half):
    model = nw.shared(shape, torch.float64)
    network, (down, _) = model.network(half), ratio(model.steps(half))
    n = 6 * overlap(network.steps) // down * down
    x = signal(model, half, n, batch=4)
    lengths = [n, n // 2 // down * down, down, n - down]
    for item, length in zip(x, lengths, strict=True):
        item[:, length:] = 0
    parts = cut(network.steps, n, 3)
    with intra_op_threads(3):
        found = run_in_segments(network, x, parts, lengths=lengths, tile=4 * down)
    wanted = run(network, x, lengths=lengths)
    assert (found - wanted).abs().max() <= EXACT_LAW


@pytest.mark.parametrize("threads", (1, 2, 3, 16))
@pytest.mark.parametrize("half", HALVES)
def test_a_cut_has_no_gaps(half, threads, monkeypatch):
    monkeypatch.undo()
    for known in list_presets():
        lower = (lower_encoder if half == "encoder" else lower_decoder)(known.config)
        down, up = ratio(lower)
        for seconds in (0.1, 3, 17.3, 600):
            n = int(seconds * known.config.sample_rate)
            n = max(down, n if half == "encoder" else n // known.config.hop_length)
            parts = cut(lower, n, threads)
            assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
            assert (parts[0].start, parts[-1].stop) == (0, output_length(lower, n))
            assert (parts[0].first, parts[-1].last) == (0, n)
            assert all(part.first % down == 0 and part.start % up == 0 for part in parts)
            shortest = min(part.last - part.first for part in parts)
            assert len(parts) == 1 or shortest >= segments.LEAST * overlap(lower) // 2
            longest = max(part.last - part.first for part in parts)
            assert threads == 1 or longest <= 3 * segments.MOST * overlap(lower)
    assert len(cut(lower, n, 1)) == len(cut(lower, down, threads)) == 1


def test_a_model_cuts_long_signals_where_there_are_threads(monkeypatch):
    model, seen = dac_rocm.load("tiny"), []
    monkeypatch.setattr(segments.Flow, "push", spied(segments.Flow.push, seen))
    audio = nw.noise(1, 1, 3 * model.sample_rate + 5)
    with intra_op_threads(2):
        codes, restored = model.encode(audio), model.decode(model.encode(audio))
        assert torch.get_num_threads() == 2
    assert len(set(seen)) > 1
    assert threading.main_thread() not in seen
    seen.clear()
    with intra_op_threads(1):
        assert torch.equal(codes, model.encode(audio))
        assert (restored - model.decode(codes)).abs().max() <= FLOAT32_LAW
    assert set(seen) == {threading.main_thread()}


def test_segments_in_inference_mode():
    model = dac_rocm.load("tiny")
    audio = nw.noise(1, 1, 2 * model.sample_rate)
    with intra_op_threads(2):
        wanted = model.encode(audio)
        with torch.inference_mode():
            assert torch.equal(model.encode(audio), wanted)


def test_what_fails_is_raised_and_the_threads_are_as_before(monkeypatch):
    model = nw.shared("even", torch.float64)
    network = model.network("decoder")
    x = signal(model, "decoder", 9 * overlap(network.steps))
    parts = cut(network.steps, x.shape[-1], 2)

    def fail(self, x, *, end=False):
        raise BackendError("no memory left")

    monkeypatch.setattr(segments.Flow, "push", fail)
    with intra_op_threads(2):
        with pytest.raises(BackendError, match="no memory left"):
            run_in_segments(network, x, parts)
        assert torch.get_num_threads() == 2
        with ThreadPoolExecutor(1) as another:
            assert another.submit(torch.get_num_threads).result() == 2
    assert not [t for t in threading.enumerate() if "ThreadPool" in t.name]


def spied(push, seen):
    def watched(self, x, *, end=False):
        seen.append(threading.current_thread())
        return push(self, x, end=end)

    return watched
