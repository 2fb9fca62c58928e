"""`torch.compile` for a half of a codec: at most three graphs, whatever the files.

All pushes have one length and go through one function, so that a graph differs only in the batch;
the fourth batch size runs the same function without compilation. The snakes are eager in there:
the compiler fuses them itself, also on ROCm in bfloat16, where that is said once.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dac_rocm.ops import platform
from dac_rocm.ops.snake import ROCM_BF16
from dac_rocm.runtime.fixed import Push
from dac_rocm.runtime.flow import FixedRunner
from dac_rocm.runtime.gpu import GpuNetwork

MAX_GRAPHS = 3
"""Each takes the compiler minutes on a large model, and memory for good."""


class CompiledPush:
    """A push function, compiled for the first `MAX_GRAPHS` batch sizes.

    Args:
        function: Takes x [B, ...] and more tensors, and returns tensors.
        backend: Of `torch.compile`.
    """

    def __init__(self, function: Push, *, backend: str | Callable[..., Any] = "inductor") -> None:
        self.function = function
        self._compiled: Push = torch.compile(
            function, fullgraph=True, dynamic=False, backend=backend
        )
        self._batches: set[int] = set()
        self._lock = threading.Lock()

    def __call__(self, x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """Run the function."""
        with self._lock:
            if len(self._batches) < MAX_GRAPHS:
                self._batches.add(x.shape[0])
            known = x.shape[0] in self._batches
        return self._compiled(x, *rest) if known else self.function(x, *rest)


def compiled_runner(
    network: GpuNetwork, push: int, *, backend: str | Callable[..., Any] = "inductor"
) -> FixedRunner:
    """Run a network in compiled pushes of one length; compilation happens at the first one.

    Args:
        network: Encoder or decoder, with `backend="eager"` for its snakes.
        push: Inputs per push; see `FixedRunner`.
        backend: Of `torch.compile`.

    Raises:
        ShapeError: `push` does not fit the strides.

    Warns:
        RuntimeWarning: The model is in bfloat16 on ROCm: compiled against the rule, as asked.
    """
    if platform.is_rocm() and network.device.type == "cuda" and network.dtype == torch.bfloat16:
        warnings.warn(
            f"torch.compile was asked for and builds bfloat16 snakes, though {ROCM_BF16}. "
            "Use the plain profile if it fails.",
            RuntimeWarning,
            stacklevel=2,
        )
    return FixedRunner(
        network,
        push,
        wrap=lambda function: CompiledPush(function, backend=backend),
        always_edge=True,
    )
