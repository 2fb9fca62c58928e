"""Which network runs a model: the plain one, the fast one of its device, or one in equal pushes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dac_rocm.choice import Choice
from dac_rocm.engine import Flow, Network
from dac_rocm.errors import BackendError, ShapeError
from dac_rocm.geometry import lookahead, ratio
from dac_rocm.lowering import Steps
from dac_rocm.nn.layers import Snake1d
from dac_rocm.plain import PlainNetwork
from dac_rocm.runtime.compile import MAX_GRAPHS, compiled_runner, warn_of_rocm
from dac_rocm.runtime.convolution import choose_convolution
from dac_rocm.runtime.cpu import CpuNetwork
from dac_rocm.runtime.flow import FixedFlow, FixedRunner
from dac_rocm.runtime.gpu import GpuNetwork, choose_order
from dac_rocm.runtime.graphs import graphed_runner
from dac_rocm.runtime.segments import cut, run_in_segments

PROFILES = ("auto", "plain", "cpu", "gpu", "graphs", "compile")
"""`auto` takes the fast network of the device, never one of the last two; `plain` torch's own
operations, the slow twin. `graphs` and `compile` run equal pushes, captured or compiled."""
PUSH_SECONDS = 2.0
"""Length of those pushes: a short clip is filled up to it, a long one needs few. Not measured."""
FAST_DTYPES = (torch.float32, torch.bfloat16)
"""Types of number that oneDNN's packed convolutions take."""


def choose_profile(
    profile: str, device: torch.device, dtype: torch.dtype, snake: str = "auto"
) -> Choice:
    """Choose the network.

    Args:
        profile: One of `PROFILES`.
        device: Of the model.
        dtype: Of the model.
        snake: Snake backend that was asked for: any but `auto` needs the plain network on a CPU.

    Raises:
        BackendError: The profile is unknown, or does not fit device and type.

    Warns:
        RuntimeWarning: Once: `compile` was asked for against the ROCm rule, and is obeyed.
    """
    if profile not in PROFILES:
        raise BackendError(
            f"profile {profile!r} found; one of {', '.join(PROFILES)} is expected. Say auto."
        )
    if profile == "compile":
        return _compile(device, dtype)
    if profile in ("gpu", "graphs") or (profile == "auto" and device.type == "cuda"):
        return _gpu("gpu" if profile == "auto" else profile, device)
    return _cpu_or_plain(profile, device, dtype, snake)


def _gpu(profile: str, device: torch.device) -> Choice:
    if device.type != "cuda":
        raise BackendError(
            f"profile {profile!r} for {device} found; a CUDA or ROCm device is expected. Say auto."
        )
    equal = "equal pushes, each captured once; " if profile == "graphs" else ""
    return Choice(profile, f"{equal}fused snake; memory order {choose_order().reason}")


def _compile(device: torch.device, dtype: torch.dtype) -> Choice:
    if device.type not in ("cpu", "cuda"):  # Metal bounds the positions, which pushes pass
        raise BackendError(
            f"profile 'compile' for {device} found; a CUDA or ROCm device, or a CPU, is expected. "
            "Say auto."
        )
    warn_of_rocm(device, dtype)
    return Choice("compile", f"was asked for; {MAX_GRAPHS} graphs at most, snakes fused there")


def _cpu_or_plain(profile: str, device: torch.device, dtype: torch.dtype, snake: str) -> Choice:
    if profile == "cpu" and not in_parts(profile, device, dtype, snake):
        raise BackendError(
            f"profile 'cpu' for {dtype} on {device} found; float32 or bfloat16 on a CPU is "
            "expected. Say auto."
        )
    if in_parts(profile, device, dtype, snake):
        return Choice("cpu", f"time-major, packed weights; {choose_convolution().reason}")
    return Choice("plain", "torch's own operations, on the weights as they are")


def in_parts(profile: str, device: torch.device, dtype: torch.dtype, snake: str) -> bool:
    """Tell whether the CPU network is chosen, which takes a push in parts; see `choose_profile`."""
    asked = profile == "cpu" or (profile == "auto" and snake == "auto")
    return asked and device.type == "cpu" and dtype in FAST_DTYPES


def choose_push(profile: str, push: int | None, frame_rate: float) -> int:
    """Choose the frames per push of `graphs` and `compile`.

    Args:
        profile: One of `PROFILES`.
        push: What was asked for; None lets `PUSH_SECONDS` say.
        frame_rate: Frames per second of the model.

    Raises:
        BackendError: Pushes of one length were asked for of another profile.
        ShapeError: There are no pushes of that length.
    """
    if push is None:
        return max(1, round(PUSH_SECONDS * frame_rate))
    if profile not in ("graphs", "compile"):
        raise BackendError(
            f"push={push!r} for the profile {profile!r} found, which takes any; graphs or compile "
            "is expected. Leave the push out."
        )
    if isinstance(push, bool) or not isinstance(push, int) or push < 1:
        raise ShapeError(f"push={push!r} found; 1 or more frames are expected. Leave it out.")
    return push


class Networks(dict[tuple[str, bool], Network]):
    """The networks of one model, by half and padding; they share the graphs of `compile`."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets = list(range(MAX_GRAPHS))

    def build(
        self,
        profile: str,
        steps: Steps,
        tensors: Mapping[str, Tensor],
        snakes: Mapping[str, Snake1d],
        snake: str,
        push: int,
    ) -> Network:
        """Build what runs `steps`.

        Args:
            profile: Name of a choice of `choose_profile`.
            steps: Lowered encoder or decoder.
            tensors: Parameters by canonical name.
            snakes: The `Snake1d` modules by canonical name.
            snake: Snake backend that was asked for; `cpu` and `compile` have their own.
            push: Frames per push of `graphs` and `compile`.
        """
        if profile in ("plain", "cpu"):
            kind = CpuNetwork if profile == "cpu" else PlainNetwork
            return kind(steps, tensors, snakes)
        inputs = push * ratio(steps)[0]
        if profile == "compile":
            network = GpuNetwork(steps, tensors, snakes, backend="eager")
            return compiled_runner(network, inputs, self.tickets)
        network = GpuNetwork(steps, tensors, snakes, backend=snake)
        return graphed_runner(network, inputs) if profile == "graphs" else network


def open_flow(
    network: Network, *, tile: int | None = None, lengths: Sequence[int] | None = None
) -> Flow | FixedFlow:
    """Open a flow for one signal, of the kind that the network runs in; see `engine.Flow`.

    Args:
        network: From `Networks.build`.
        tile: Most inputs that run at once; a network of equal pushes has its own.
        lengths: True input length of each item, where they differ.
    """
    if isinstance(network, FixedRunner):
        return network.flow(lengths=lengths)
    return Flow(network, tile=tile, lengths=lengths)


def run_whole(
    network: Network, x: Tensor, *, tile: int | None = None, lengths: Sequence[int] | None = None
) -> Tensor:
    """Run a whole signal in the way that is fastest; see `engine.run`."""
    if isinstance(network, CpuNetwork):
        segments = cut(network.steps, x.shape[-1], torch.get_num_threads())
        if len(segments) > 1:
            return run_in_segments(network, x, segments, tile=tile, lengths=lengths)
    return open_flow(network, tile=tile, lengths=lengths).push(x, end=True)


def lookahead_of(network: Network) -> int:
    """Inputs that must follow before an output is known; see `geometry.lookahead`."""
    return network.lookahead if isinstance(network, FixedRunner) else lookahead(network.steps)
