"""Graphs, with a capture that a CPU can do: the function's own tensors, written to again."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import networks as nw
import pytest
import torch
from gpu_networks import Recorder, gpu_network, signal
from tolerances import EXACT_LAW

from dac_rocm.engine import run
from dac_rocm.errors import ShapeError
from dac_rocm.runtime import graphs
from dac_rocm.runtime.flow import FixedRunner
from dac_rocm.runtime.graphs import (
    ENVIRONMENT,
    MAX_BATCHES,
    WARMUPS,
    Graphed,
    GraphedPerBatch,
    capture_on_gpu,
    graphed_runner,
)


def double(x, y):
    return 2 * x, x + y


def test_captured_once_and_replayed():
    recorder = Recorder()
    graphed = Graphed(double, enabled=True, capture=recorder)
    kept = []
    for i in range(3):
        x, y = torch.full((2,), float(i)), torch.ones(2)
        kept.append((graphed(x, y), double(x, y)))
    assert (recorder.captures, recorder.replays) == (1, 3)
    for found, expected in kept:  # results are the caller's: a later replay leaves them alone
        assert all(map(torch.equal, found, expected))


def test_another_shape_or_type_is_refused():
    graphed = Graphed(double, enabled=True, capture=Recorder())
    graphed(torch.ones(2), torch.ones(2))
    for other in (torch.ones(3), torch.ones(2, dtype=torch.float64)):
        with pytest.raises(ShapeError, match=rf"found; the graph was captured.*{ENVIRONMENT}=0"):
            graphed(other, other)


def test_switches(monkeypatch):
    recorder = Recorder()
    x = torch.ones(2)
    Graphed(double, enabled=False, capture=recorder)(x, x)
    Graphed(double, capture=recorder)(x, x)  # no GPU
    monkeypatch.setattr(graphs.platform, "on_gpu", lambda x: True)
    Graphed(double, capture=recorder)(x, x)
    assert recorder.captures == 1
    monkeypatch.setenv(ENVIRONMENT, "0")
    Graphed(double, capture=recorder)(x, x)
    assert recorder.captures == 1


def test_a_failed_capture_runs_without_a_graph_and_is_said_once():
    def fail(function):
        raise RuntimeError("operation not permitted when stream is capturing")

    graphed = Graphed(double, enabled=True, capture=fail)
    x = torch.ones(2)
    with pytest.warns(RuntimeWarning, match="capture failed .operation not permitted") as caught:
        first = graphed(x, x)
        second = graphed(x, x)
    assert len(caught) == 1
    assert torch.equal(first[0], second[0])


def test_no_memory_is_not_hidden():
    def fail(function):
        raise torch.OutOfMemoryError("full")

    graphed = Graphed(double, enabled=True, capture=fail)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            graphed(torch.ones(2), torch.ones(2))


def test_threads_wait_for_each_other():
    graphed = Graphed(double, enabled=True, capture=Recorder())
    wrong = []

    def work(value):
        x = torch.full((50,), float(value))
        wrong.extend(i for i in range(50) if not torch.equal(graphed(x, x)[0], 2 * x))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Streams:
    """What `capture_on_gpu` asks of torch.cuda, as a log."""

    def __init__(self, log):
        self.log = log

    def wait_stream(self, other):
        self.log.append("wait")

    def replay(self):
        self.log.append("replay")


def test_warmed_up_on_a_stream_of_its_own_then_captured(monkeypatch):
    log = []
    own = Streams(log)

    @contextmanager
    def entered(name):
        log.append(f"{name} on")
        yield
        log.append(f"{name} off")

    fakes = {
        "Stream": lambda: own,
        "current_stream": lambda: own,
        "CUDAGraph": lambda: own,
        "stream": lambda stream: entered("stream"),
        "graph": lambda graph: entered("graph"),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    outputs, replay = capture_on_gpu(lambda: log.append("run") or (torch.ones(1),))
    assert outputs == (torch.ones(1),)
    replay()
    warmup = ["wait", "stream on", *["run"] * WARMUPS, "stream off", "wait"]
    assert log == [*warmup, "graph on", "run", "graph off", "replay"]


def test_no_more_graphs_than_batch_sizes_are_allowed():
    recorder = Recorder()
    push = GraphedPerBatch(double, enabled=True, capture=recorder)
    for batch in (1, 2, 3, 4, 5, 6, 1, 5):
        x = torch.ones(batch, 2)
        assert torch.equal(push(x, x)[0], 2 * x)
    assert recorder.captures == MAX_BATCHES


def test_a_codec_in_graphs():
    recorder = Recorder()
    model = nw.shared("meta", torch.float64)
    runner = FixedRunner(
        gpu_network(model, "decoder"),
        8,
        wrap=lambda push: GraphedPerBatch(push, enabled=True, capture=recorder),
    )
    for batch, frames in ((1, 60), (2, 61), (1, 5), (2, 90)):
        x = signal(model, "decoder", frames, batch)
        assert (runner.run(x) - run(model.network("decoder"), x)).abs().max() <= EXACT_LAW
    assert recorder.captures == 4  # edge and steady, for two batch sizes


def test_a_runner_without_a_gpu_runs_without_graphs():
    model = nw.shared("meta", torch.float64)
    runner = graphed_runner(gpu_network(model, "decoder"), 8)
    x = signal(model, "decoder", 20)
    assert (runner.run(x) - run(model.network("decoder"), x)).abs().max() <= EXACT_LAW
