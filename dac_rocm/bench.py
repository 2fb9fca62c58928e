"""How fast a model is on this machine: by device, by type of number, and by length of a push.

Everything runs through the same calls that users make. A type that rounds more than float32 is
compared with float32 on the CPU, so that no speed is read without what it costs. Nothing here
changes the machine or the process.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dac_rocm.choice import Choice
from dac_rocm.codec import Codec
from dac_rocm.doctor import choices, dtypes_of
from dac_rocm.errors import ShapeError
from dac_rocm.model import load
from dac_rocm.ops import platform
from dac_rocm.runtime.select import choose_device
from dac_rocm.streaming import stream_decoder, stream_encoder

PUSHES = (0.1, 1.0)
"""Seconds per push that are tried beside the whole signal: a live stream, and a piece of a file."""
MOST_PUSHES = 20
MOST_RUNS = 3
ENOUGH_SECONDS = 1.0
"""A call is repeated up to `MOST_RUNS` times, but not beyond this long."""
SLOW_SECONDS = 5.0
"""A first call that takes this long is counted, and is the only one."""


@dataclass(frozen=True)
class Speed:
    """Encode and decode in one way.

    Args:
        device: As torch names it.
        dtype: Type of number.
        push_seconds: Audio per push; None where the whole signal goes in and the model divides it.
        encode: Seconds of audio per second of work.
        decode: The same for decoding.
    """

    device: str
    dtype: str
    push_seconds: float | None
    encode: float
    decode: float

    @property
    def round_trip(self) -> float:
        """Seconds of audio per second of work, there and back."""
        return 1 / (1 / self.encode + 1 / self.decode)


@dataclass(frozen=True)
class Accuracy:
    """One device and type beside float32 on the CPU.

    Args:
        device: As torch names it.
        dtype: Type of number.
        equal_codes: Share of codes that are the same; None for a VAE.
        latents_db: Signal to noise ratio of the latents in dB; None for codes.
        audio_db: Signal to noise ratio of the audio, decoded from the same codes or latents, in dB.
    """

    device: str
    dtype: str
    equal_codes: float | None
    latents_db: float | None
    audio_db: float


@dataclass(frozen=True)
class Report:
    """What was measured.

    Args:
        model: Name or path.
        seconds: Length of the audio.
        devices: Each device in words.
        choices: What is chosen on this machine, and why.
        speeds: One for each way.
        accuracies: One for each device and type but the one that is compared with.
        findings: What a user should know, one sentence each.
    """

    model: str
    seconds: float
    devices: Mapping[str, str]
    choices: Mapping[str, Choice]
    speeds: tuple[Speed, ...]
    accuracies: tuple[Accuracy, ...]
    findings: tuple[str, ...]


def measure(
    source: str | os.PathLike[str] = "tiny",
    *,
    devices: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    pushes: Sequence[float] = PUSHES,
    seconds: float = 5.0,
    **where: Any,
) -> Report:
    """Measure a model on this machine.

    Args:
        source: See `load`.
        devices: As torch names them; default: all that are there.
        dtypes: Types of number; default: those that each device computes in.
        pushes: Seconds of audio per push, beside the whole signal.
        seconds: Length of the audio, which is noise.
        **where: What else `load` takes to find the model.

    Raises:
        BackendError: A device or type is unknown or not to be had.
        ShapeError: A length is not positive.
    """
    _check_positive("seconds", seconds)
    for push in pushes:
        _check_positive("pushes", push)
    names = [choose_device(name).name for name in devices or platform.devices()]
    pairs = [(name, dtype) for name in names for dtype in dtypes or dtypes_of(name)]
    twin = load(source, device="cpu", dtype="float32", **where)
    audio, data, heard = _reference(twin, seconds)
    chosen = dict(choices(pairs))
    speeds: list[Speed] = []
    accuracies: list[Accuracy] = []
    tried: list[float | None] = [None, *(push for push in pushes if push < seconds)]
    for pair in pairs:
        model = load(source, device=pair[0], dtype=pair[1], **where)
        chosen |= _pushes(model, pair)
        if pair != ("cpu", "float32"):
            accuracies.append(_accuracy(model, pair, audio, data, heard))
        speeds += [_speed(model, pair, push, audio, data) for push in tried]
    about = {name: text for name, text in platform.devices().items() if _is_used(name, names)}
    found = tuple(_findings(speeds))
    return Report(str(source), seconds, about, chosen, tuple(speeds), tuple(accuracies), found)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ShapeError(f"{name}: {value} s found; a positive length is expected. Give one.")


def _is_used(name: str, names: Sequence[str]) -> bool:
    return any(name == used or name.startswith(f"{used}:") for used in names)


def _reference(model: Codec, seconds: float) -> tuple[Tensor, Tensor, Tensor]:
    """Make noise [1, A, T], and return it with its codes or latents, and what they decode to."""
    frames = max(1, round(seconds * model.config.frame_rate))
    generator = torch.Generator().manual_seed(0)
    shape = 1, model.config.audio_channels, frames * model.hop_length
    audio = 0.1 * torch.randn(shape, generator=generator)
    data = _data(_encode(model, audio))
    return audio, data, _decode(model, data)


def _pushes(model: Codec, pair: tuple[str, str]) -> dict[str, Choice]:
    """Return how much of a signal goes through each half at once, and why."""
    where = f"on {pair[0]} in {pair[1]}"
    halves = ("encoder", "decoder")
    return {f"{half} push {where}": model.choose_tile(half, 1)[1] for half in halves}


def _encode(model: Codec, audio: Tensor, push: float | None = None) -> Any:
    """Encode; `push` in seconds divides the audio."""
    if push is None:
        return model.encode(audio)  # type: ignore[operator]
    size = max(1, round(push * model.config.frame_rate)) * model.hop_length
    with stream_encoder(model) as stream:
        parts = [_data(stream.push(piece)) for piece in torch.split(audio, size, -1)]
        return torch.cat([*parts, _data(stream.flush())], -1)


def _decode(model: Codec, data: Tensor, push: float | None = None) -> Tensor:
    """Decode; `push` in seconds divides the codes or latents."""
    if push is None:
        whole: Tensor = model.decode(data)  # type: ignore[operator]
        return whole.cpu()
    size = max(1, round(push * model.config.frame_rate))
    with stream_decoder(model) as stream:
        parts = [stream.push(piece) for piece in torch.split(data, size, -1)]
        return torch.cat([*parts, stream.flush()], -1).cpu()


def _data(found: Any) -> Tensor:
    """Return codes, or the mean of a Gaussian, on the CPU."""
    data: Tensor = found if isinstance(found, Tensor) else found.mean
    return data.cpu()


def _speed(
    model: Codec, pair: tuple[str, str], push: float | None, audio: Tensor, data: Tensor
) -> Speed:
    if push is not None:  # enough pushes to see their cost, whatever the length of the audio
        frames = round(MOST_PUSHES * push * model.config.frame_rate) + 1
        audio, data = audio[..., : frames * model.hop_length], data[..., :frames]
    seconds = audio.shape[-1] / model.sample_rate
    encode = _seconds_of(lambda: _data(_encode(model, audio, push)))
    decode = _seconds_of(lambda: _decode(model, data, push))
    return Speed(*pair, push, seconds / encode, seconds / decode)


def _seconds_of(run: Callable[[], Tensor]) -> float:
    """Return the median time of a call whose result is on the CPU, after one that warms up."""
    first = _once(run)
    if first > SLOW_SECONDS:
        return first
    times: list[float] = []
    while len(times) < MOST_RUNS and sum(times) < ENOUGH_SECONDS:
        times.append(_once(run))
    return statistics.median(times)


def _once(run: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _accuracy(
    model: Codec, pair: tuple[str, str], audio: Tensor, data: Tensor, heard: Tensor
) -> Accuracy:
    found = _data(_encode(model, audio))
    audio_db = snr_db(_decode(model, data), heard)
    if data.is_floating_point():
        return Accuracy(*pair, None, snr_db(found, data), audio_db)
    return Accuracy(*pair, float((found == data).double().mean()), None, audio_db)


def snr_db(found: Tensor, truth: Tensor) -> float:
    """Return the signal to noise ratio in dB; infinite where nothing differs."""
    noise = (found.double() - truth.double()).square().sum()
    if noise == 0:
        return math.inf
    return float(10 * torch.log10(truth.double().square().sum() / noise))


def _findings(speeds: Sequence[Speed]) -> list[str]:
    """Say where float32 would be faster, and what is slower than real time."""
    whole = {(s.device, s.dtype): s for s in speeds if s.push_seconds is None}
    found = []
    for (device, dtype), speed in whole.items():
        base = whole.get((device, "float32"))
        if base is not None and speed.round_trip < base.round_trip:
            found.append(
                f"{dtype} is slower than float32 on {device} ({speed.round_trip:.2f} to "
                f"{base.round_trip:.2f} times real time) and less exact; use float32 there"
            )
    return found + [
        f"decoding on {s.device} in {s.dtype}, {s.push_seconds:g} s per push, is slower than real "
        f"time ({s.decode:.2f}): a live stream would stutter; push more at once"
        for s in speeds
        if s.push_seconds is not None and s.decode < 1
    ]
