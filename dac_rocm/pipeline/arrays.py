"""Arrays as audio that is read block by block, so that they take the path of files."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from dac_rocm.audio.reader import AudioReader, Planar
from dac_rocm.errors import ShapeError


class _Array:
    """Samples [C, T] in memory."""

    def __init__(self, audio: Planar) -> None:
        self._audio = audio
        self._position = 0

    def read(self, n: int) -> Planar:
        block = self._audio[:, self._position : self._position + n]
        self._position += block.shape[1]
        return block

    def close(self) -> None:
        pass


def array_reader(audio: Any, sample_rate: int) -> AudioReader:
    """Open an array for reading.

    Args:
        audio: [T] or [C, T], numpy or torch, float, any device.
        sample_rate: Hz.

    Raises:
        ShapeError: Another rank or type.
        AudioError: No samples, too many channels, or an impossible rate.
    """
    if isinstance(audio, torch.Tensor):
        audio = audio.detach().cpu()
        audio = (audio.float() if audio.is_floating_point() else audio).numpy()
    samples = np.asarray(audio)
    if samples.dtype.kind != "f" or samples.ndim not in (1, 2):
        raise ShapeError(
            f"audio of {samples.dtype} and shape {samples.shape} found; a float array [samples] or "
            "[channels, samples] is expected. Scale integers to ±1."
        )
    samples = np.atleast_2d(samples).astype(np.float32, copy=False)
    return AudioReader(
        source=_Array(samples),
        name="the array",
        sample_rate=sample_rate,
        channels=samples.shape[0],
        length=samples.shape[1],
        subtype="FLOAT",
    )
