"""The nodes of the engine: what each step still needs, kept from push to push.

A node knows nothing of the code that computes its step: that is its `Kernel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from dac_rocm.buffers import Buffers
from dac_rocm.errors import ShapeError
from dac_rocm.geometry import step_length
from dac_rocm.lowering import Close, Conv, Open, Step, Steps, Tanh, Transposed


class Kernel(Protocol):
    """The maths of one convolution step, on tensors in the network's memory order."""

    def extend(self, past: Tensor, x: Tensor, after: int) -> Tensor:
        """Return `past`, the activated `x`, and `after` zeros, in one tensor.

        The snake that stands before the convolution, if any, is applied to `x`; `past` went
        through it before.
        """

    def convolve(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """Convolve without padding, and add `onto` where it is given.

        A transposed step gets `taps - 1` inputs of the past in front and returns the
        `stride` outputs that belong to each input after them.
        """


class Node(Protocol):
    """A step on the way of one signal; it replaces what it keeps, and never changes it."""

    def push(self, x: Tensor, end: bool) -> Tensor:
        """Take the next inputs, in memory order, and return the outputs that are known by now."""


class ConvNode:
    """Keeps the activated inputs that outputs to come will see."""

    def __init__(
        self, kernel: Kernel, step: Conv, time: int, lengths: Sequence[int] | None
    ) -> None:
        self.kernel, self.step, self.time, self.lengths = kernel, step, time, lengths
        self.opened: OpenNode | None = None
        self.buffers = Buffers()
        self.tail: Tensor | None = None
        self.done = 0

    def push(self, x: Tensor, end: bool) -> Tensor:
        """See `Node`."""
        step, time = self.step, self.time
        past = _zeros(x, step.pad_left, time) if self.tail is None else self.tail
        x = self.kernel.extend(past, x, end * step.pad_right)
        n = x.shape[time]
        count = max(0, (n - step.span) // step.stride + 1)
        used = count * step.stride
        self.tail = self.buffers.keep(x.narrow(time, used, n - used)) if not end else None
        onto = None if self.opened is None else self.opened.take(count, end)
        if count == 0:
            return _empty(x, step.out_channels, time)
        y = self.kernel.convolve(x.narrow(time, 0, used - step.stride + step.span), onto)
        self.done += count
        return _masked(y, self.lengths, self.done, time)


class TransposedNode:
    """Keeps the last `taps - 1` activated inputs, and counts the samples still to be trimmed."""

    def __init__(
        self, kernel: Kernel, step: Transposed, time: int, lengths: Sequence[int] | None
    ) -> None:
        self.kernel, self.step, self.time, self.lengths = kernel, step, time, lengths
        self.buffers = Buffers()
        self.tail: Tensor | None = None
        self.skip = step.trim_left
        self.done = 0

    def push(self, x: Tensor, end: bool) -> Tensor:
        """See `Node`."""
        step, time, reach = self.step, self.time, self.step.taps - 1
        past = _zeros(x, reach, time) if self.tail is None else self.tail
        x = self.kernel.extend(past, x, end * reach)
        n = x.shape[time]
        self.tail = self.buffers.keep(x.narrow(time, n - reach, reach)) if not end else None
        if n == reach:
            return _empty(x, step.out_channels, time)
        y = self.kernel.convolve(x)
        start = min(self.skip, y.shape[time])
        self.skip -= start
        stop = y.shape[time]
        if end:
            stop -= step.trim_right + step.taps * step.stride - step.kernel
        y = y.narrow(time, start, max(0, stop - start))
        self.done += y.shape[time]
        return _masked(y, self.lengths, self.done, time)


class OpenNode:
    """Hands the signal to a residual unit, and keeps it for the convolution that closes it."""

    def __init__(self, time: int) -> None:
        self.time = time
        self.buffers = Buffers()
        self.held: Tensor | None = None
        self.skip = 0

    def push(self, x: Tensor, end: bool) -> Tensor:
        """See `Node`."""
        self.held = x if self.held is None else torch.cat((self.held, x), self.time)
        return x

    def take(self, n: int, end: bool) -> Tensor:
        """Hand out the next `n` positions; the rest, which is ahead of the unit, stays."""
        held, time = self.held, self.time
        assert held is not None  # `push` ran before
        skip = min(self.skip, held.shape[time])
        self.skip -= skip
        rest = held.shape[time] - skip - n
        ahead = held.narrow(time, skip + n, rest)
        self.held = self.buffers.keep(ahead) if not end else None
        return held.narrow(time, skip, n)


class TanhNode:
    """Keeps nothing."""

    def push(self, x: Tensor, end: bool) -> Tensor:
        """See `Node`."""
        return torch.tanh(x)


def build_nodes(
    steps: Steps, kernels: Sequence[Kernel | None], time: int, lengths: Sequence[int] | None
) -> list[Node]:
    """Build the nodes of `steps`, at the start of a signal.

    Args:
        steps: Whole residual units.
        kernels: The kernel of each convolution step; None for the other steps.
        time: Axis of time.
        lengths: True input length of each item, where they differ.
    """
    nodes: list[Node] = []
    opened: list[OpenNode] = []
    for step, kernel in zip(steps, kernels, strict=True):
        if lengths is not None:
            lengths = [step_length(step, length) for length in lengths]
        if isinstance(step, Close):  # the convolution before it adds what the unit was opened with
            last = nodes[-1]
            assert isinstance(last, ConvNode)
            last.opened = opened.pop()
            last.opened.skip = step.crop
            continue
        nodes.append(_node(step, kernel, time, lengths))
        if isinstance(nodes[-1], OpenNode):
            opened.append(nodes[-1])
    return nodes


def _node(step: Step, kernel: Kernel | None, time: int, lengths: Sequence[int] | None) -> Node:
    match step, kernel:
        case Conv(), kernel if kernel is not None:
            return ConvNode(kernel, step, time, lengths)
        case Transposed(), kernel if kernel is not None:
            return TransposedNode(kernel, step, time, lengths)
        case Open(), _:
            return OpenNode(time)
        case Tanh(), _:
            return TanhNode()
    raise ShapeError(f"step {step} without a kernel found; a network with one is expected.")


def _masked(y: Tensor, lengths: Sequence[int] | None, done: int, time: int) -> Tensor:
    """Zero what lies after the true end of each item; `y` ends at output number `done`."""
    n = y.shape[time]
    for i, length in enumerate(lengths or ()):
        if length < done:
            keep = max(0, length - done + n)
            y[i].narrow(time - 1, keep, n - keep).zero_()
    return y


def _zeros(x: Tensor, n: int, time: int) -> Tensor:
    shape = list(x.shape)
    shape[time] = n
    return x.new_zeros(shape)


def _empty(x: Tensor, channels: int, time: int) -> Tensor:
    shape = [x.shape[0], 0, channels] if time == 1 else [x.shape[0], channels, 0]
    return x.new_empty(shape)
