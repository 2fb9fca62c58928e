"""The engine: runs lowered steps push by push, and keeps what each step still needs.

Whole file, chunks and live streaming are the same run with larger or smaller pushes. A step keeps
the few inputs that outputs to come will see; nothing is computed twice, and nothing depends on how
the signal was divided. Which code computes a step is the `Network`'s business, not the engine's.

Source: the maths is that of `nn`, the slow twin; `tests/laws` ties the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any, Protocol

import torch
from torch import Tensor

from dac_rocm.errors import BackendError
from dac_rocm.geometry import output_length, part_length, stages
from dac_rocm.lowering import Steps
from dac_rocm.nodes import Kernel, Node, build_nodes
from dac_rocm.ops.platform import float32_precision


class Network(Protocol):
    """A half of a codec, ready to run: steps, their kernels, and the order of its memory."""

    steps: Steps
    time: int
    """Axis of time in memory order: 2 for [B, C, T], 1 for [B, T, C]."""
    tf32: bool
    """Let float32 products on NVIDIA round to TF32."""

    @property
    def cached(self) -> int | None:
        """Elements of an activation that stay in the cache; None where it does not matter."""

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
        self._stages = _stages(network, lengths)
        self._nodes = [node for stage in self._stages for node in stage.nodes]
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
        x = self.network.enter(x)
        parts = iter([x])
        for stage in self._stages:
            parts = stage.through(parts, end)
        with float32_precision(tf32=self.network.tf32) if x.is_cuda else nullcontext():
            return self.network.leave(_joined(list(parts), self.network.time))

    def snapshot(self) -> Snapshot:
        """Return the present state: references, since nodes replace what they keep."""
        return self._ended, [dict(vars(node)) for node in self._nodes]

    def restore(self, state: Snapshot) -> None:
        """Go back to a state that `snapshot` returned."""
        self._ended, nodes = state
        for node, attributes in zip(self._nodes, nodes, strict=True):
            vars(node).update(attributes)


class _Stage:
    """Steps of one rate, through which a push goes in parts that stay in the cache."""

    def __init__(self, network: Network, steps: Steps, nodes: list[Node]) -> None:
        self.steps, self.nodes = steps, nodes
        self.time, self.cached = network.time, network.cached
        self._part: int | None = None

    def through(self, parts: Iterator[Tensor], end: bool) -> Iterator[Tensor]:
        """Take the parts of a push, joined or divided to the length that suits, one by one."""
        for part, last in self._regrouped(parts):
            x = part
            for node in self.nodes:
                x = node.push(x, end and last)
            yield x

    def _regrouped(self, parts: Iterator[Tensor]) -> Iterator[tuple[Tensor, bool]]:
        """Give each part, and whether it is the last one of the push."""
        held: list[Tensor] = []
        for x in parts:
            held.append(x)
            if self.cached is None:
                continue
            if self._part is None:  # the batch is known from here on
                self._part = part_length(self.steps, x.shape[0], self.cached)
            if sum(y.shape[self.time] for y in held) > self._part:
                *some, rest = torch.split(_joined(held, self.time), self._part, self.time)
                held = [rest]
                for y in some:
                    yield y, False
        yield _joined(held, self.time), True


def _joined(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


def _stages(network: Network, lengths: Sequence[int] | None) -> list[_Stage]:
    found, kernels = [], iter(network.kernels)
    for steps in stages(network.steps):
        nodes = build_nodes(steps, list(islice(kernels, len(steps))), network.time, lengths)
        found.append(_Stage(network, steps, nodes))
        if lengths is not None:
            lengths = [output_length(steps, length) for length in lengths]
    return found


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
