"""CUDA and HIP graphs: a function of tensors of constant shapes, launched as one.

Small pushes spend their time in launching kernels; a graph launches them all at once. The first
call warms up and captures, the later ones replay.

Source: the shape of `CUDAGraphed` in kyutai-labs/moshi; "CUDA Graphs" in PyTorch's notes, which
hold for HIP too.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from dac_rocm.errors import ShapeError
from dac_rocm.ops import platform
from dac_rocm.runtime.fixed import Push
from dac_rocm.runtime.flow import FixedRunner
from dac_rocm.runtime.gpu import GpuNetwork

ENVIRONMENT = "DAC_ROCM_GRAPHS"
"""Environment variable: `0` runs everything without graphs."""
WARMUPS = 2
"""Calls before the capture: kernels are compiled and chosen there, which no graph can hold."""
MAX_BATCHES = 4
"""Batch sizes that get a graph: each holds the memory of its activations for good."""

Outputs = tuple[Tensor, ...]
Capture = Callable[[Callable[[], Outputs]], tuple[Outputs, Callable[[], None]]]
"""Captures a function; returns the tensors it writes to, and what replays it."""


class Graphed:
    """A function of tensors, captured at the first call and replayed at the next ones.

    Calls may come from several threads; they wait for each other.

    Args:
        function: Takes tensors and returns a tuple of them; it must not ask the GPU for values.
        enabled: None: unless `DAC_ROCM_GRAPHS=0`, and only on a GPU.
        capture: What captures; the tests pass one for the CPU.
    """

    def __init__(
        self, function: Push, *, enabled: bool | None = None, capture: Capture | None = None
    ) -> None:
        self.function = function
        self.enabled = enabled
        self._capture = capture or capture_on_gpu
        self._lock = threading.Lock()
        self._inputs: tuple[Tensor, ...] = ()
        self._outputs: Outputs = ()
        self._replay: Callable[[], None] | None = None

    def __call__(self, *args: Tensor) -> Outputs:
        """Run the function.

        Raises:
            ShapeError: Shapes or types differ from those of the first call.
        """
        if not self._is_on(args):
            return self.function(*args)
        with self._lock, torch.cuda.device_of(args[0]):  # type: ignore[no-untyped-call]
            if self._replay is None and not self._start(args):
                return self.function(*args)
            self._check(args)
            for static, arg in zip(self._inputs, args, strict=True):
                static.copy_(arg)
            assert self._replay is not None  # `_start` has set it
            self._replay()
            return tuple(output.clone() for output in self._outputs)

    def _is_on(self, args: tuple[Tensor, ...]) -> bool:
        if self.enabled is None:
            return os.environ.get(ENVIRONMENT) != "0" and any(map(platform.on_gpu, args))
        return self.enabled

    def _start(self, args: tuple[Tensor, ...]) -> bool:
        """Warm up and capture; False, from now on, where that fails."""
        self._inputs = tuple(arg.clone() for arg in args)
        try:
            self._outputs, self._replay = self._capture(lambda: self.function(*self._inputs))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.enabled = False
            warnings.warn(
                f"graph capture failed ({str(error).splitlines()[0][:200]}); the same kernels run "
                f"without a graph. Set {ENVIRONMENT}=0 to run so without trying.",
                RuntimeWarning,
                stacklevel=3,
            )
        return self.enabled is not False

    def _check(self, args: tuple[Tensor, ...]) -> None:
        found, expected = ([(tuple(a.shape), a.dtype) for a in t] for t in (args, self._inputs))
        if found != expected:
            raise ShapeError(
                f"tensors {found} found; the graph was captured with {expected}. Keep the batch "
                f"and the push constant, make another `Graphed`, or set {ENVIRONMENT}=0."
            )


def capture_on_gpu(function: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], None]]:
    """Warm up on a stream of its own, then capture."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARMUPS):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = function()
    return outputs, graph.replay


class GraphedPerBatch:
    """A push function with one graph for each of the first `MAX_BATCHES` batch sizes.

    Args:
        function: See `Graphed`; its first tensor is [B, ...].
        enabled: See `Graphed`.
        capture: See `Graphed`.
    """

    def __init__(
        self, function: Push, *, enabled: bool | None = None, capture: Capture | None = None
    ) -> None:
        self.function, self.enabled, self.capture = function, enabled, capture
        self.graphs: dict[int, Graphed] = {}

    def __call__(self, x: Tensor, *rest: Tensor) -> Outputs:
        """Run the function; x is [B, ...]."""
        batch = x.shape[0]
        if batch not in self.graphs and len(self.graphs) < MAX_BATCHES:
            graph = Graphed(self.function, enabled=self.enabled, capture=self.capture)
            self.graphs.setdefault(batch, graph)
        return self.graphs.get(batch, self.function)(x, *rest)


def graphed_runner(
    network: GpuNetwork,
    push: int,
    *,
    enabled: bool | None = None,
    capture: Capture | None = None,
) -> FixedRunner:
    """Run a network in pushes of one length, each a graph.

    Args:
        network: Encoder or decoder.
        push: Inputs per push; see `FixedRunner`.
        enabled: See `Graphed`.
        capture: See `Graphed`.

    Raises:
        ShapeError: `push` does not fit the strides.
    """
    return FixedRunner(
        network,
        push,
        wrap=lambda function: GraphedPerBatch(function, enabled=enabled, capture=capture),
    )
