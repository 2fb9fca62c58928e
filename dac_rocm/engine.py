"""The engine: runs lowered steps push by push, and keeps what each step still needs.

Whole file, chunks and live streaming are the same run with larger or smaller pushes. A step keeps
the few inputs that outputs to come will see; nothing is computed twice, and nothing depends on how
the signal was divided. Which code computes a step is the `Network`'s business, not the engine's.

Source: the maths is that of `nn`, the slow twin; `tests/laws` ties the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from dac_rocm.buffers import Buffers
from dac_rocm.errors import BackendError, ShapeError
from dac_rocm.geometry import step_length
from dac_rocm.lowering import Close, Conv, Open, Step, Steps, Tanh, Transposed
from dac_rocm.ops.platform import float32_precision


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


class Network(Protocol):
    """A half of a codec, ready to run: steps, their kernels, and the order of its memory."""

    steps: Steps
    time: int
    """Axis of time in memory order: 2 for [B, C, T], 1 for [B, T, C]."""
    tf32: bool
    """Let float32 products on NVIDIA round to TF32."""

    @property
    def kernels(self) -> Sequence[Kernel | None]:
        """The kernel of each convolution step; None for the other steps."""

    def enter(self, x: Tensor) -> Tensor:
        """Bring [B, C, T] into memory order, device and type of the weights."""

    def leave(self, x: Tensor) -> Tensor:
        """Bring a result back to [B, C, T]."""


Snapshot = tuple[bool, list[dict[str, Any]]]


class Flow:
    """One signal (a batch of them) on its way through a network.

    Args:
        network: Shared and never changed; several flows may run on it at once.
        tile: Most inputs that run at once; longer pushes are divided. Halved where memory runs out.
        lengths: True input length of each item, where they differ: every step then sees zeros
            after an item's true end, as it does alone.
    """

    def __init__(
        self,
        network: Network,
        *,
        tile: int | None = None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self.network = network
        self.tile = tile
        self._nodes = _nodes(network, lengths)
        self._ended = False

    @torch.no_grad()
    def push(self, x: Tensor, *, end: bool = False) -> Tensor:
        """Take the next inputs and return all outputs that are known by now.

        Whatever a push raises, the flow is as it was before it.

        Args:
            x: [B, C, n], n ≥ 0.
            end: These are the last inputs: pad every step at its true end.

        Returns:
            [B, C', m], m ≥ 0.

        Raises:
            BackendError: The flow has ended.
        """
        if self._ended:
            raise BackendError(
                "push after the end found; an open stream is expected. Call reset()."
            )
        before = self.snapshot()
        try:
            parts = list(self._pieces(x, end))
        except BaseException:
            self.restore(before)
            raise
        self._ended = end
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def _pieces(self, x: Tensor, end: bool) -> Iterator[Tensor]:
        start, total = 0, x.shape[-1]
        while start < total or start == 0:
            n = min(self.tile or total, total - start)
            before = self.snapshot()
            try:
                y = self._run(x[..., start : start + n], end and start + n >= total)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if n < 2:
                    raise BackendError(
                        "no memory left for even the smallest push; more is expected. Close other "
                        "programs, or use another device."
                    ) from error
                self.restore(before)
                self.tile = n // 2
                continue
            yield y
            start += max(1, n)

    def _run(self, x: Tensor, end: bool) -> Tensor:
        y = self.network.enter(x)
        with float32_precision(tf32=self.network.tf32) if y.is_cuda else nullcontext():
            for node in self._nodes:
                y = node.push(y, end)
        return self.network.leave(y)

    def snapshot(self) -> Snapshot:
        """Return the present state: references, since nodes replace what they keep."""
        return self._ended, [dict(vars(node)) for node in self._nodes]

    def restore(self, state: Snapshot) -> None:
        """Go back to a state that `snapshot` returned."""
        self._ended, nodes = state
        for node, attributes in zip(self._nodes, nodes, strict=True):
            vars(node).update(attributes)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether torch ran out of memory, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return "can't allocate memory" in str(error) or "not enough memory" in str(error)


def run(
    network: Network, x: Tensor, *, tile: int | None = None, lengths: Sequence[int] | None = None
) -> Tensor:
    """Run a whole signal through a network.

    Args:
        network: Encoder or decoder.
        x: [B, C, T], T ≥ 1.
        tile: See `Flow`.
        lengths: See `Flow`.

    Returns:
        [B, C', T'], T' as `geometry.output_length` says.
    """
    return Flow(network, tile=tile, lengths=lengths).push(x, end=True)


class _Node(Protocol):
    def push(self, x: Tensor, end: bool) -> Tensor: ...


class _ConvNode:
    """Keeps the activated inputs that outputs to come will see."""

    def __init__(
        self, kernel: Kernel, step: Conv, time: int, lengths: Sequence[int] | None
    ) -> None:
        self.kernel, self.step, self.time, self.lengths = kernel, step, time, lengths
        self.opened: _OpenNode | None = None
        self.buffers = Buffers()
        self.tail: Tensor | None = None
        self.done = 0

    def push(self, x: Tensor, end: bool) -> Tensor:
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


class _TransposedNode:
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


class _OpenNode:
    """Hands the signal to a residual unit, and keeps it for the convolution that closes it."""

    def __init__(self, time: int) -> None:
        self.time = time
        self.buffers = Buffers()
        self.held: Tensor | None = None
        self.skip = 0

    def push(self, x: Tensor, end: bool) -> Tensor:
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


class _TanhNode:
    def push(self, x: Tensor, end: bool) -> Tensor:
        return torch.tanh(x)


def _nodes(network: Network, lengths: Sequence[int] | None) -> list[_Node]:
    nodes: list[_Node] = []
    opened: list[_OpenNode] = []
    for step, kernel in zip(network.steps, network.kernels, strict=True):
        if lengths is not None:
            lengths = [step_length(step, length) for length in lengths]
        if isinstance(step, Close):  # the convolution before it adds what the unit was opened with
            last = nodes[-1]
            assert isinstance(last, _ConvNode)
            last.opened = opened.pop()
            last.opened.skip = step.crop
            continue
        nodes.append(_node(step, kernel, network.time, lengths))
        if isinstance(nodes[-1], _OpenNode):
            opened.append(nodes[-1])
    return nodes


def _node(step: Step, kernel: Kernel | None, time: int, lengths: Sequence[int] | None) -> _Node:
    match step, kernel:
        case Conv(), kernel if kernel is not None:
            return _ConvNode(kernel, step, time, lengths)
        case Transposed(), kernel if kernel is not None:
            return _TransposedNode(kernel, step, time, lengths)
        case Open(), _:
            return _OpenNode(time)
        case Tanh(), _:
            return _TanhNode()
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
