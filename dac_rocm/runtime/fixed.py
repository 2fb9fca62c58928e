"""Pushes of one fixed length: the engine's run as a function of tensors that never change shape.

Compilers, graphs and MIOpen like constant shapes. A signal of any length is a row of equal
pushes; each step lags by a fixed delay, keeps a fixed number of past inputs, and zeroes what lies
before the start or after the end of each item, which is its padding. Nothing is computed twice.
`engine.Flow` is the slow twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dac_rocm.errors import ShapeError
from dac_rocm.lowering import Close, Conv, Open, Step, Steps, Tanh, Transposed
from dac_rocm.runtime.gpu import GpuKernel, GpuNetwork

Push = Callable[..., tuple[Tensor, ...]]
"""Takes x, for an edge also the number of the push and the lengths, and the state; returns y and
the new state."""


@dataclass(frozen=True)
class Stage:
    """What a step does in one push.

    Args:
        past: Inputs kept from the pushes before.
        window: Inputs that are convolved, the past ones included.
        size: Outputs per push.
        delay: Push number j gives outputs j · size - delay and the `size - 1` after it.
    """

    past: int
    window: int
    size: int
    delay: int


def plan(steps: Steps, push: int) -> tuple[Stage, ...]:
    """Work out every step's part in a push of `push` inputs.

    Raises:
        ShapeError: `push` is not a multiple of the stride of the network.
    """
    size, delay, opened = push, 0, [0]
    stages = []
    for step in steps:
        past = window = 0
        if isinstance(step, Conv):
            if size < 1 or size % step.stride:
                raise ShapeError(
                    f"pushes of {push} found, which the strides do not divide; a multiple of the "
                    "hop is expected. Round it."
                )
            lag = -((step.pad_left - step.span - delay) // step.stride) - 1
            past = lag * step.stride + step.pad_left - delay
            size, delay = size // step.stride, lag
            window = (size - 1) * step.stride + step.span
        elif isinstance(step, Transposed):
            past, window = step.taps - 1, size + step.taps - 1
            size, delay = size * step.stride, delay * step.stride + step.trim_left
        elif isinstance(step, Open):
            opened.append(delay)
        elif isinstance(step, Close):
            past = delay - step.crop - opened.pop()
        stages.append(Stage(past, window, size, delay))
    return tuple(stages)


class FixedPush:
    """One push through a network, as two functions of tensors.

    Args:
        network: Shared and never changed.
        push: Inputs per push: a multiple of the hop (encoder), or any number of frames (decoder).

    Raises:
        ShapeError: `push` does not fit the strides.
    """

    def __init__(self, network: GpuNetwork, push: int) -> None:
        self.network, self.push = network, push
        self.stages = plan(network.steps, push)
        self.warm = max(-(-stage.delay // stage.size) for stage in self.stages)
        """Pushes until no step sees what lies before the start."""

    def start(self, batch: int) -> tuple[Tensor, ...]:
        """Return the state before the first push."""
        network, state = self.network, []
        for stage, channels in zip(self.stages, _widths(network.steps), strict=True):
            shape = [batch, channels, channels]
            shape[network.time] = stage.past
            if stage.past:
                state.append(torch.zeros(shape, device=network.device, dtype=network.dtype))
        return tuple(state)

    def edge(
        self, x: Tensor, number: Tensor, lengths: Tensor, *state: Tensor
    ) -> tuple[Tensor, ...]:
        """Run a push that may touch the start or the end of an item.

        Args:
            x: The inputs in memory order; zeros after the end.
            number: Pushes before this one, an int64 scalar.
            lengths: True output length of each step and item, [steps, B], int64.
            state: From the push before.

        Returns:
            The outputs in memory order, and the state after it.
        """
        return self._run(x, state, number, lengths)

    def steady(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Run a push that touches neither start nor end; see `edge`."""
        return self._run(x, state, None, None)

    def _run(
        self, x: Tensor, state: Sequence[Tensor], number: Tensor | None, lengths: Tensor | None
    ) -> tuple[Tensor, ...]:
        time, pasts = self.network.time, iter(state)
        after: list[Tensor] = []
        held: list[Tensor] = []
        for i, (step, stage) in enumerate(zip(self.network.steps, self.stages, strict=True)):
            past = next(pasts) if stage.past else None
            kernel = self.network.kernels[i]
            if kernel is not None:
                both = _extend(kernel, past, x)
                x = kernel.convolve(both.narrow(time, 0, stage.window))
            elif isinstance(step, Open):
                held.append(x)
                continue
            elif isinstance(step, Close):
                both = held.pop() if past is None else torch.cat((past, held.pop()), time)
                x = x + both.narrow(time, 0, stage.size)
            elif isinstance(step, Tanh):
                x = torch.tanh(x)
            if number is not None and lengths is not None and _leaks(step):
                x = _inside(x, number * stage.size - stage.delay, lengths[i], time)
            if past is not None:
                rest = both.narrow(time, both.shape[time] - stage.past, stage.past)
                after.append(canonical(rest))
        return (x, *after)


def canonical(x: Tensor) -> Tensor:
    """Copy `x` to new memory; its strides then follow from its shape, also along axes of 1."""
    return x.clone(memory_format=torch.contiguous_format)


def _extend(kernel: GpuKernel, past: Tensor | None, x: Tensor) -> Tensor:
    return kernel.activate(x) if past is None else kernel.extend(past, x)


def _leaks(step: Step) -> bool:
    """A step that can make something of nothing: by its bias, or by a signal that is longer."""
    return step.crop > 0 if isinstance(step, Close) else isinstance(step, Conv | Transposed)


def _inside(y: Tensor, first: Tensor, lengths: Tensor, time: int) -> Tensor:
    """Zero the outputs before 0 and from each item's length on; `y` begins at number `first`."""
    position = first + torch.arange(y.shape[time], device=y.device)
    inside = (position >= 0) & (position < lengths[:, None])
    return torch.where(inside.unsqueeze(3 - time), y, 0)


def _widths(steps: Steps) -> list[int]:
    """Channels of what each step keeps."""
    widths, width = [], 0
    for step in steps:
        if isinstance(step, Conv | Transposed):
            widths.append(step.in_channels)
            width = step.out_channels
        else:
            widths.append(width)
    return widths
