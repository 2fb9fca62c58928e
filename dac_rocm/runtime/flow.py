"""Signals of any length, run as pushes of one fixed length: what `engine.Flow` and `run` do, fixed.

A runner belongs to a network and holds what was captured or compiled for it; a flow belongs to
one signal and holds its state, and the inputs that do not fill a push yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dac_rocm.errors import BackendError
from dac_rocm.geometry import output_length, ratio, step_length
from dac_rocm.ops.platform import float32_precision
from dac_rocm.runtime.fixed import FixedPush, Push, canonical
from dac_rocm.runtime.gpu import GpuNetwork

ENDLESS = 1 << 60
"""Length of a signal whose end is not known yet."""


class FixedRunner:
    """Runs signals through a network in pushes of one length.

    It is an `engine.Network` itself, the one that it was made of: its flows are what is fast.

    Args:
        network: Shared and never changed.
        push: Inputs per push: samples, a multiple of the hop (encoder), or frames (decoder).
        wrap: Makes a push function fast: captures or compiles it.
        always_edge: Use one function for all pushes, so that only one is compiled.

    Raises:
        ShapeError: `push` does not fit the strides.
    """

    def __init__(
        self,
        network: GpuNetwork,
        push: int,
        *,
        wrap: Callable[[Push], Push] | None = None,
        always_edge: bool = False,
    ) -> None:
        self.steps, self.kernels = network.steps, network.kernels
        self.time, self.tf32, self.cached = network.time, network.tf32, network.cached
        self.enter, self.leave = network.enter, network.leave
        self.fixed = FixedPush(network, push)
        self.edge: Push = wrap(self.fixed.edge) if wrap else self.fixed.edge
        self.steady: Push | None = None
        if not always_edge:
            self.steady = wrap(self.fixed.steady) if wrap else self.fixed.steady

    @property
    def lookahead(self) -> int:
        """Inputs that must follow before an output is known, at most; see `geometry.lookahead`."""
        down, up = ratio(self.steps)
        delay = -(-self.fixed.stages[-1].delay * down // up)
        return self.fixed.push - down + delay

    def flow(self, *, lengths: Sequence[int] | None = None) -> FixedFlow:
        """Open a flow for one signal; see `FixedFlow`."""
        return FixedFlow(self, lengths=lengths)

    def run(self, x: Tensor, *, lengths: Sequence[int] | None = None) -> Tensor:
        """Run a whole signal [B, C, T], T ≥ 1; returns [B, C', T'] as `engine.run` does."""
        return self.flow(lengths=lengths).push(x, end=True)


class FixedFlow:
    """One signal (a batch of them) on its way through a network, in pushes of one length.

    Args:
        runner: Shared; several flows may run on it at once.
        lengths: True input length of each item, where they differ.
    """

    def __init__(self, runner: FixedRunner, *, lengths: Sequence[int] | None = None) -> None:
        self.runner, self.fixed = runner, runner.fixed
        self.lengths = lengths
        self._number, self._taken, self._ended = 0, 0, False
        self._state: tuple[Tensor, ...] = ()
        self._rest: Tensor | None = None
        self._limits = torch.empty(0, dtype=torch.int64)
        self._shortest: list[int] = []

    @torch.no_grad()
    def push(self, x: Tensor, *, end: bool = False) -> Tensor:
        """Take the next inputs and return all outputs that are known by now.

        Whatever a push raises, the flow is as it was before it.

        Args:
            x: [B, C, n], n ≥ 0; what does not fill a push waits for the next ones.
            end: These are the last inputs.

        Returns:
            [B, C', m], m ≥ 0.

        Raises:
            BackendError: The flow has ended.
        """
        if self._ended:
            raise BackendError("push after the end found; an open flow is expected. Open another.")
        before = self.snapshot()
        try:
            with float32_precision(tf32=self.runner.tf32):
                parts = list(self._parts(x, end))
        except BaseException:
            self.restore(before)
            raise
        self._ended = end
        return torch.cat(parts, -1)

    def snapshot(self) -> Any:
        """Return the present state: references, since a flow replaces what it keeps."""
        return dict(vars(self))

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` returned."""
        vars(self).update(state)

    def _parts(self, x: Tensor, end: bool) -> Iterator[Tensor]:
        batch, push = x.shape[0], self.fixed.push
        if not self._number:
            self._state = self.fixed.start(batch)
            self._limit(self.lengths or [ENDLESS] * batch)
        self._taken += x.shape[-1]
        if end:
            self._limit(self.lengths or [self._taken] * batch)
        total = output_length(self.fixed.network.steps, self._taken) if end else ENDLESS
        x = x if self._rest is None else torch.cat((self._rest, x.to(self._rest)), -1)
        pieces = -(-x.shape[-1] // push) if end else x.shape[-1] // push
        self._rest = x[..., pieces * push :].clone()
        i = 0
        while i < pieces or (end and self._known() < total):
            piece = x[..., i * push : (i + 1) * push]
            start = max(0, self._known())
            y = self._one(F.pad(piece, (0, push - piece.shape[-1])))
            yield y[..., y.shape[-1] - self._known() + start : y.shape[-1] - self._known() + total]
            i += 1
        if not i:
            yield self._nothing(x)

    def _known(self) -> int:
        """Outputs so far; negative while the delay lasts."""
        last = self.fixed.stages[-1]
        return self._number * last.size - last.delay

    def _one(self, x: Tensor) -> Tensor:
        network, runner = self.fixed.network, self.runner
        inputs = canonical(network.enter(x))
        if runner.steady is not None and not self._touches_an_edge():
            y, *state = runner.steady(inputs, *self._state)
        else:
            number = torch.tensor(self._number, device=network.device)
            y, *state = runner.edge(inputs, number, self._limits, *self._state)
        self._state = tuple(state)
        self._number += 1
        return network.leave(y)

    def _limit(self, lengths: Sequence[int]) -> None:
        """Note the true length of every item after every step."""
        rows = []
        for step in self.fixed.network.steps:
            lengths = [n if n >= ENDLESS else step_length(step, n) for n in lengths]
            rows.append(lengths)
        self._limits = torch.tensor(rows, device=self.fixed.network.device)
        self._shortest = [min(row) for row in rows]

    def _touches_an_edge(self) -> bool:
        ends = ((self._number + 1) * stage.size - stage.delay for stage in self.fixed.stages)
        beyond = any(end > n for end, n in zip(ends, self._shortest, strict=True))
        return beyond or self._number < self.fixed.warm

    def _nothing(self, x: Tensor) -> Tensor:
        network = self.fixed.network
        channels = next(
            s.out_channels for s in reversed(network.steps) if hasattr(s, "out_channels")
        )
        return torch.zeros(x.shape[0], channels, 0, device=network.device, dtype=network.dtype)
