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

from dac_rocm.errors import BackendError, ShapeError
from dac_rocm.geometry import step_length
from dac_rocm.lowering import Close, Conv, Open, Step, Steps, Tanh, Transposed
from dac_rocm.ops.platform import float32_precision


class Kernel(Protocol):
    """The maths of one convolution step, on tensors in the network's memory order."""

    def activate(self, x: Tensor) -> Tensor:
        """Apply the snake that stands before the convolution, or return `x`."""

    def convolve(self, x: Tensor) -> Tensor:
        """Convolve without padding.

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
        self.tail: Tensor | None = None
        self.done = 0

    def push(self, x: Tensor, end: bool) -> Tensor:
        step = self.step
        x = _joined(
            self.tail, self.kernel.activate(x), self.time, step.pad_left, end * step.pad_right
        )
        n = x.shape[self.time]
        count = max(0, (n - step.span) // step.stride + 1)
        used = count * step.stride
        self.tail = x.narrow(self.time, used, n - used).clone() if not end else None
        if count == 0:
            return _empty(x, step.out_channels, self.time)
        y = self.kernel.convolve(x.narrow(self.time, 0, used - step.stride + step.span))
        self.done += y.shape[self.time]
        return _masked(y, self.lengths, self.done, self.time)


class _TransposedNode:
    """Keeps the last `taps - 1` activated inputs, and counts the samples still to be trimmed."""

    def __init__(
        self, kernel: Kernel, step: Transposed, time: int, lengths: Sequence[int] | None
    ) -> None:
        self.kernel, self.step, self.time, self.lengths = kernel, step, time, lengths
        self.tail: Tensor | None = None
        self.skip = step.trim_left
        self.done = 0

    def push(self, x: Tensor, end: bool) -> Tensor:
        step, past = self.step, self.step.taps - 1
        x = _joined(self.tail, self.kernel.activate(x), self.time, past, end * past)
        n = x.shape[self.time]
        self.tail = x.narrow(self.time, n - past, past).clone() if not end else None
        if n == past:
            return _empty(x, step.out_channels, self.time)
        y = self.kernel.convolve(x)
        start = min(self.skip, y.shape[self.time])
        self.skip -= start
        stop = y.shape[self.time]
        if end:
            stop -= step.trim_right + step.taps * step.stride - step.kernel
        y = y.narrow(self.time, start, max(0, stop - start))
        self.done += y.shape[self.time]
        return _masked(y, self.lengths, self.done, self.time)


class _OpenNode:
    """Hands the signal to the unit and keeps it for the matching close."""

    def __init__(self, time: int) -> None:
        self.time = time
        self.held: Tensor | None = None

    def push(self, x: Tensor, end: bool) -> Tensor:
        self.held = x if self.held is None else torch.cat((self.held, x), self.time)
        return x


class _CloseNode:
    """Adds the kept signal, which is ahead by what the unit's convolution looks ahead."""

    def __init__(self, opened: _OpenNode, crop: int) -> None:
        self.opened, self.crop = opened, crop

    def push(self, y: Tensor, end: bool) -> Tensor:
        time, held = self.opened.time, self.opened.held
        assert held is not None  # `Open` ran before
        n = y.shape[time]
        skip = min(self.crop, held.shape[time])
        self.crop -= skip
        y = y.add_(held.narrow(time, skip, n)) if n else y
        rest = held.shape[time] - skip - n
        self.opened.held = held.narrow(time, skip + n, rest).clone() if not end else None
        return y


class _TanhNode:
    def push(self, x: Tensor, end: bool) -> Tensor:
        return torch.tanh(x)


def _nodes(network: Network, lengths: Sequence[int] | None) -> list[_Node]:
    nodes: list[_Node] = []
    opened: list[_OpenNode] = []
    for step, kernel in zip(network.steps, network.kernels, strict=True):
        if lengths is not None:
            lengths = [step_length(step, length) for length in lengths]
        nodes.append(_node(step, kernel, network.time, lengths, opened))
    return nodes


def _node(
    step: Step,
    kernel: Kernel | None,
    time: int,
    lengths: Sequence[int] | None,
    opened: list[_OpenNode],
) -> _Node:
    match step, kernel:
        case Conv(), kernel if kernel is not None:
            return _ConvNode(kernel, step, time, lengths)
        case Transposed(), kernel if kernel is not None:
            return _TransposedNode(kernel, step, time, lengths)
        case Open(), _:
            opened.append(_OpenNode(time))
            return opened[-1]
        case Close(crop), _:
            return _CloseNode(opened.pop(), crop)
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


def _joined(tail: Tensor | None, x: Tensor, time: int, left: int, right: int) -> Tensor:
    """Put the past (or `left` zeros at the start) before `x` and `right` zeros after it."""
    parts = [_zeros(x, left, time) if tail is None else tail, x, _zeros(x, right, time)]
    parts = [part for part in parts if part.shape[time]]
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts, time) if parts else x


def _zeros(x: Tensor, n: int, time: int) -> Tensor:
    shape = list(x.shape)
    shape[time] = n
    return x.new_zeros(shape)


def _empty(x: Tensor, channels: int, time: int) -> Tensor:
    shape = [x.shape[0], 0, channels] if time == 1 else [x.shape[0], channels, 0]
    return x.new_empty(shape)
