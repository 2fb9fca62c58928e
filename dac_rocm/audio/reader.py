"""The reader that files and streams share: blocks of finite samples, and a word where some lack.

It must not know any format: a `Source` gives it samples.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dac_rocm.errors import AudioError

Planar = npt.NDArray[np.float32]
"""Samples [C, n], float32, full scale is ±1."""

BLOCK = 65536
"""Samples per channel read at once."""

MAX_CHANNELS = 8
MAX_SAMPLE_RATE = 1_000_000
"""Hz. No recorder reaches it; a damaged header may."""


class Source(Protocol):
    """Where a reader takes its samples from."""

    def read(self, n: int) -> Planar:
        """Return the next samples [C, n], fewer only at the end, none after it."""

    def close(self) -> None:
        """Release what is held open."""


@dataclass(frozen=True, kw_only=True)
class AudioReader:
    """Audio that is read once, from its start to its end; a context manager.

    Attributes:
        name: What messages call it, a path or `<stdin>`.
        sample_rate: In Hz.
        channels: 1 to 8.
        length: Samples per channel as the header states them, None where it does not.
        subtype: Encoding of a sample in libsndfile's words, as `PCM_16`.
    """

    source: Source
    name: str
    sample_rate: int
    channels: int
    length: int | None
    subtype: str

    def __post_init__(self) -> None:
        found = f"{self.channels} channels at {self.sample_rate} Hz in {self.name}"
        if not 1 <= self.channels <= MAX_CHANNELS:
            raise AudioError(f"found {found}; expected 1 to {MAX_CHANNELS} channels; mix it down")
        if not 1 <= self.sample_rate <= MAX_SAMPLE_RATE:
            raise AudioError(
                f"found {found}; expected 1 to {MAX_SAMPLE_RATE} Hz; mend the header of the file"
            )
        if self.length == 0:
            self._refuse_empty()

    def __enter__(self) -> "AudioReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.source.close()

    def blocks(self, block: int = BLOCK) -> Iterator[Planar]:
        """Yield all samples in order, [C, block] each, the last one shorter.

        Args:
            block: Samples per channel; it changes no value.

        Raises:
            AudioError: A sample is NaN or infinite, there is none, or decoding fails.

        Warns:
            UserWarning: The audio ends before the length that its header states.
        """
        position = 0
        while (audio := self.source.read(block)).shape[1]:
            self._refuse_nonfinite(audio, position)
            position += audio.shape[1]
            yield audio
        self._check_end(position)

    def _refuse_empty(self) -> None:
        raise AudioError(f"found no samples in {self.name}; expected at least one; check the file")

    def _refuse_nonfinite(self, audio: Planar, position: int) -> None:
        bad = ~np.isfinite(audio).all(axis=0)
        if bad.any():
            index = position + int(bad.argmax())
            raise AudioError(
                f"found NaN or infinity at sample {index} ({index / self.sample_rate:.6f} s) of "
                f"{self.name}; expected finite samples; replace them and try again"
            )

    def _check_end(self, position: int) -> None:
        if position == 0:
            self._refuse_empty()
        if self.length is not None and position < self.length:
            warn_truncated(self.name, f"{position} of {self.length} samples")


def warn_truncated(name: str, found: str) -> None:
    """Say that audio ends too early, and that what is there is used."""
    warnings.warn(
        f"found {found} in {name}; expected all of them; the file is cut short, get it again "
        "unless this part is all you need",
        stacklevel=3,
    )
