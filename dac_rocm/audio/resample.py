"""Another sample rate, block by block: the same samples however the input is divided.

torchaudio's windowed sinc with the parameters that the original codec uses (julius); soxr where the
two rates share so few divisors that its kernel would not fit. Both see the ends of the signal
replicated, and run on one fixed internal block. This file must not change level or mix channels.
"""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dac_rocm.audio.reader import MAX_SAMPLE_RATE, Planar
from dac_rocm.errors import AudioError, BackendError

if TYPE_CHECKING:
    import torch

ZEROS = 24
"""Zero crossings of the sinc on each side. Source: julius.resample_frac, as `ROLLOFF`."""

ROLLOFF = 0.945
"""Cutoff as a part of the lower Nyquist frequency."""

MAX_KERNEL_BYTES = 32 * 2**20
BLOCK = 16384
"""Input samples per internal block, about."""

MIN_LEAD = 1024
"""Replicated samples at least, that soxr sees before the first one."""


class Resampler:
    """Resample a stream of samples [C, n] from `old_rate` to `new_rate`.

    T samples in give exactly floor(T * new_rate / old_rate) out, without delay; a constant stays
    that constant. Equal rates change nothing.

    Args:
        old_rate: Of the input, in Hz.
        new_rate: Of the output, in Hz.
        channels: C.

    Raises:
        AudioError: A rate outside 1 to 1,000,000 Hz.
        BackendError: torchaudio (at the first block) or soxr cannot be imported.
    """

    def __init__(self, old_rate: int, new_rate: int, channels: int) -> None:
        if not 1 <= min(old_rate, new_rate) <= max(old_rate, new_rate) <= MAX_SAMPLE_RATE:
            raise AudioError(
                f"found {old_rate} Hz to be resampled to {new_rate} Hz; expected rates of 1 to "
                f"{MAX_SAMPLE_RATE} Hz; give the true sample rate"
            )
        divisor = math.gcd(old_rate, new_rate)
        self._old, self._new = old_rate // divisor, new_rate // divisor
        self._channels = channels
        self._reset()

    def _reset(self) -> None:
        self._engine = _engine(self._old, self._new, self._channels)
        self._buffer: Planar = np.zeros((self._channels, 0), np.float32)
        self._length = 0
        self._last = self._buffer
        self._given = -self._engine.skip

    def push(self, audio: Planar) -> Planar:
        """Take any number of samples [C, n] and return those [C, m] that are known by now."""
        if self._old == self._new or audio.shape[1] == 0:
            return audio
        parts = [self._buffer, audio]
        if self._length == 0:
            parts[0] = audio[:, :1].repeat(self._engine.lead, axis=1)
        self._length += audio.shape[1]
        self._buffer = np.concatenate(parts, axis=1)
        return self._run()

    def flush(self) -> Planar:
        """Return the rest [C, m], and start anew."""
        parts = [self._buffer[:, :0]]
        total = self._length * self._new // self._old
        while total > max(0, self._given):
            missing = total - max(0, self._given)
            short = self._engine.window - self._buffer.shape[1]
            tail = self._last.repeat(short, axis=1)
            self._buffer = np.concatenate([self._buffer, tail], axis=1)
            parts.append(self._run()[:, :missing])
        self._reset()
        return np.concatenate(parts, axis=1)

    def _run(self) -> Planar:
        """Consume every whole window of the buffer."""
        engine, buffer = self._engine, self._buffer
        self._last = buffer[:, -1:].copy()
        parts = [buffer[:, :0]]
        while buffer.shape[1] >= engine.window:
            output = engine.run(buffer[:, : engine.window])
            parts.append(output[:, max(0, -self._given) :])
            self._given += output.shape[1]
            buffer = buffer[:, engine.advance :]
        self._buffer = buffer.copy()
        return np.concatenate(parts, axis=1)


def resampled(
    blocks: Iterable[Planar], old_rate: int, new_rate: int, channels: int
) -> Iterator[Planar]:
    """Resample blocks [C, n] as they come; see `Resampler`."""
    resampler = Resampler(old_rate, new_rate, channels)
    for block in blocks:
        yield resampler.push(block)
    yield resampler.flush()


def resample(audio: Planar, old_rate: int, new_rate: int) -> Planar:
    """Resample a whole signal [C, T] to [C, floor(T * new_rate / old_rate)]; rates in Hz.

    Raises:
        AudioError: A rate outside 1 to 1,000,000 Hz.
        BackendError: torchaudio or soxr cannot be imported.
    """
    return np.concatenate([*resampled([audio], old_rate, new_rate, audio.shape[0])], axis=1)


class _Engine(Protocol):
    """One resampling algorithm on windows of a fixed size.

    Attributes:
        window: Input samples that a run takes.
        advance: Input samples by which the next window starts later.
        lead: Replicated samples before the first one.
        skip: Output samples that belong to them.
    """

    window: int
    advance: int
    lead: int
    skip: int

    def run(self, window: Planar) -> Planar:
        """Turn [C, window] into the next output samples."""


def _engine(old: int, new: int, channels: int) -> _Engine:
    """Choose the algorithm for a reduced ratio."""
    if kernel_bytes(old, new) <= MAX_KERNEL_BYTES:
        return _Sinc(old, new)
    return _Soxr(old, new, channels)


def _reach(old: int, new: int) -> int:
    """Return the input samples that the sinc kernel sees on each side."""
    return math.ceil(ZEROS * old / (min(old, new) * ROLLOFF))


def kernel_bytes(old: int, new: int) -> int:
    """Return the size of torchaudio's kernel for a reduced ratio, float32."""
    return 4 * new * (2 * _reach(old, new) + old)


class _Sinc:
    """torchaudio's kernel as one strided convolution, each phase of unit gain."""

    skip = 0

    def __init__(self, old: int, new: int) -> None:
        self._ratio = old, new
        self.lead = _reach(old, new)
        self.advance = max(1, BLOCK // old) * old
        self.window = self.advance + 2 * self.lead

    def run(self, window: Planar) -> Planar:
        import torch

        kernel = _sinc_kernel(*self._ratio)
        audio = torch.from_numpy(np.ascontiguousarray(window))[:, None]
        phases = torch.nn.functional.conv1d(audio, kernel, stride=self._ratio[0])
        output: Planar = phases.transpose(1, 2).reshape(len(window), -1).numpy()
        return output


@lru_cache(maxsize=8)
def _sinc_kernel(old: int, new: int) -> "torch.Tensor":
    """Return the kernel [new, 1, 2 * reach + old], float32, made in float64."""
    import torch

    try:
        from torchaudio.transforms import Resample
    except Exception as error:  # a build for another torch fails in many ways
        raise BackendError(
            f"found a torchaudio that cannot be imported ({error}); expected one built for torch "
            f"{torch.__version__}; install that torchaudio, or give audio at the model's rate"
        ) from error
    kernel: torch.Tensor = Resample(
        old, new, lowpass_filter_width=ZEROS, rolloff=ROLLOFF, dtype=torch.float64
    ).kernel
    return (kernel / kernel.sum(dim=-1, keepdim=True)).float()


class _Soxr:
    """soxr's streaming resampler at its best quality; see docs/decisions/0010-resampler.md."""

    def __init__(self, old: int, new: int, channels: int) -> None:
        try:
            import soxr
        except Exception as error:
            raise BackendError(
                f"found no usable soxr ({error}); expected it for the ratio {old}:{new}, whose "
                "sinc kernel would be too large; install soxr, or give audio at a common rate"
            ) from error
        periods = math.ceil(MIN_LEAD / old)
        self.lead, self.skip = periods * old, periods * new
        self.window = self.advance = BLOCK
        self._stream = soxr.ResampleStream(old, new, channels, dtype="float32", quality="VHQ")

    def run(self, window: Planar) -> Planar:
        output: Planar = self._stream.resample_chunk(np.ascontiguousarray(window.T))
        return output.T
