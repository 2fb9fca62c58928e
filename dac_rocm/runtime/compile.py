"""`torch.compile` for a codec: at most three graphs, whatever the files.

All pushes have one length and go through one function, so that a graph differs only in the half
and the batch; where three are taken, the same function runs without compilation. The snakes are
eager in there: the compiler fuses them itself, also on ROCm in bfloat16, where that is said once.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any, cast

import torch
from torch import Tensor

from dac_rocm.ops import platform
from dac_rocm.ops.snake import ROCM_BF16, tell_once
from dac_rocm.runtime.fixed import Push
from dac_rocm.runtime.flow import FixedRunner
from dac_rocm.runtime.gpu import GpuNetwork

MAX_GRAPHS = 3
"""Of one model, both halves together: each takes the compiler minutes, and memory for good."""


class CompiledPush:
    """A push function, compiled for the first batch sizes.

    Args:
        function: Takes x [B, ...] and more tensors, and returns tensors.
        tickets: One is taken for each graph, that is for each batch size; without one, `function`
            runs as it is. Both halves of a model share them.
        backend: Of `torch.compile`.
    """

    def __init__(
        self,
        function: Push,
        tickets: list[int],
        *,
        backend: str | Callable[..., Any] = "inductor",
    ) -> None:
        self.function, self.tickets = function, tickets
        self._compiled: Push = torch.compile(
            with_own_code(function), fullgraph=True, dynamic=False, backend=backend
        )
        self._known: set[tuple[object, ...]] = set()
        self._failed = False
        self._lock = threading.Lock()

    def __call__(self, x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """Run the function."""
        if self._failed or not self._admits(_state_of(x)):
            return self.function(x, *rest)
        try:
            return self._compiled(x, *rest)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # compilers raise all kinds
            y = self.function(x, *rest)  # raises by itself where the tensors are at fault
            self._fall_back(error)
            return y

    def _admits(self, state: tuple[object, ...]) -> bool:
        with self._lock, suppress(IndexError):  # the other half may take the last ticket
            if state not in self._known:
                self.tickets.pop()
                self._known.add(state)
        return state in self._known

    def _fall_back(self, error: Exception) -> None:
        """From now on the function runs as it is; say so once."""
        with self._lock:
            first, self._failed = not self._failed, True
        if first:
            why = " ".join(str(error).split())[:200] or type(error).__name__
            warnings.warn(
                f"torch.compile failed ({why}); the same kernels run without it from now on. Use "
                "optimize(model) to choose that without trying.",
                RuntimeWarning,
                stacklevel=4,
            )


def _state_of(x: Tensor) -> tuple[object, ...]:
    """Return what torch compiles anew for: the batch, and what is set for the whole process."""
    return (
        x.shape[0],
        torch.is_inference_mode_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_autocast_enabled(x.device.type),
        torch.get_num_threads(),
    )


def with_own_code(function: Push) -> Push:
    """Copy a function or method, its code too.

    torch counts what it compiled by the code object, across all models, and gives up at eight.
    """
    plain = cast("FunctionType", getattr(function, "__func__", function))
    code = plain.__code__.replace()
    own = FunctionType(
        code, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__
    )
    owner = getattr(function, "__self__", None)
    return own if owner is None else MethodType(own, owner)


def warn_of_rocm(device: torch.device, dtype: torch.dtype) -> None:
    """Say once that a compiler was asked for against the ROCm rule, and is obeyed."""
    if platform.is_rocm() and device.type == "cuda" and dtype == torch.bfloat16:
        tell_once(
            "profile compile",
            f"profile 'compile' was asked for and builds bfloat16 snakes, though {ROCM_BF16}. "
            "Use the profile auto if it fails.",
        )


def compiled_runner(
    network: GpuNetwork,
    push: int,
    tickets: list[int] | None = None,
    *,
    backend: str | Callable[..., Any] = "inductor",
) -> FixedRunner:
    """Run a network in compiled pushes of one length; compilation happens at the first one.

    Args:
        network: Encoder or decoder, with `backend="eager"` for its snakes.
        push: Inputs per push; see `FixedRunner`.
        tickets: See `CompiledPush`; default: `MAX_GRAPHS` of its own.
        backend: Of `torch.compile`.

    Raises:
        ShapeError: `push` does not fit the strides.
    """
    shared = list(range(MAX_GRAPHS)) if tickets is None else tickets
    return FixedRunner(
        network,
        push,
        wrap=lambda function: CompiledPush(function, shared, backend=backend),
        always_edge=True,
    )
