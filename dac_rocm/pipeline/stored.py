"""Encoded recordings, in memory, in a file or in a pipe, as pieces that arrive in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dac_rocm.container import LostBlock, PackedHeader, PackedReader, container_of, read_encoded
from dac_rocm.container.dac import read_dac
from dac_rocm.container.safe_npy import NPY_MAGIC
from dac_rocm.encoded import EncodedAudio, Gain

PIECE = 256
"""Frames per piece of a recording that is in memory."""


class Stored(Protocol):
    """One encoded recording."""

    about: EncodedAudio
    """All but the data, which may lack its frames."""
    lost: Sequence[LostBlock]
    """Blocks that were damaged, as far as they have been read."""

    def end(self) -> tuple[int, int] | None:
        """Frames, and samples at the original rate; None while a pipe has not told yet."""

    def pieces(self, start: int, stop: int | None) -> Iterator[NDArray[Any]]:
        """Yield frames start..stop (None: to the end) as [rows, N or D, f]."""


class InMemory:
    """A recording that was read whole."""

    lost: Sequence[LostBlock] = ()

    def __init__(self, encoded: EncodedAudio) -> None:
        self.about = encoded

    def end(self) -> tuple[int, int]:
        """Frames and length."""
        return self.about.frames, self.about.length

    def pieces(self, start: int, stop: int | None) -> Iterator[NDArray[Any]]:
        """Yield slices; a chunked `.dac` gives one stored chunk at a time."""
        step = self.about.chunk_frames or PIECE
        stop = self.about.frames if stop is None else stop
        for first in range(start, stop, step):
            yield self.about.data[..., first : min(first + step, stop)]


class Packed:
    """A `.dacz` that is read as it is decoded.

    Args:
        file: Open at the start of the container; a pipe will do.
        lost: Salvage: damaged blocks become zeros and are named here.
    """

    def __init__(self, file: BinaryIO, lost: list[LostBlock] | None = None) -> None:
        self.reader = PackedReader(file)
        self.about = _about(self.reader.header)
        self._lost = lost
        self.lost: Sequence[LostBlock] = () if lost is None else lost
        self._known = file.seekable() and lost is None

    def end(self) -> tuple[int, int] | None:
        """Frames and length, once they can be known."""
        if self._known:
            return self.reader.frames, self.reader.length
        return None

    def pieces(self, start: int, stop: int | None) -> Iterator[NDArray[Any]]:
        """Yield the blocks in order, or just those that a part needs."""
        if stop is None:
            yield from self.reader.blocks(lost=self._lost)
            self._known = True
            return
        step = self.reader.header.block_frames
        for first in range(start, stop, step):
            yield self.reader.read(first, min(first + step, stop))


@contextmanager
def opened(path: Any, lost: list[LostBlock] | None = None) -> Iterator[Stored]:
    """Open an encoded file of either container.

    Args:
        path: The file.
        lost: See `Packed`; a `.dac` has no checksums, and so nothing to salvage.

    Raises:
        SourceError: The file cannot be opened.
        ContainerError: It cannot be used.
    """
    if container_of(path) == "dac":
        yield InMemory(read_encoded(path))
        return
    with Path(path).open("rb") as file:
        yield Packed(file, lost)


@contextmanager
def opened_stream(file: BufferedReader, lost: list[LostBlock] | None = None) -> Iterator[Stored]:
    """Open an encoded recording that arrives in a pipe: `.dacz` as it comes, `.dac` read whole.

    Args:
        file: Left open.
        lost: See `Packed`.

    Raises:
        ContainerError: It cannot be used.
    """
    if file.peek(1)[:1] == NPY_MAGIC[:1]:
        yield InMemory(read_dac(BytesIO(file.read())))
    else:
        yield Packed(cast("BinaryIO", file), lost)


def _about(header: PackedHeader) -> EncodedAudio:
    return EncodedAudio(
        data=np.empty((header.rows, header.width, 0), header.dtype or "uint16"),
        sample_rate=header.sample_rate,
        channels=header.channels,
        length=0,
        model_rate=header.model_rate,
        hop_length=header.hop_length,
        codebook_size=header.codebook_size,
        level=Gain(header.gain_db),
        model=header.model,
        source_subtype=header.source_subtype,
    )
