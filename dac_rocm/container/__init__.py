"""Bytes <-> EncodedAudio: the packed `.dacz` and Descript's `.dac`.

This room must not import torch or know models, and imports numpy only to hand out arrays. What it
reads may come from strangers: sizes are checked before anything is allocated, and nothing in a
file is run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, cast

from dac_rocm.atomic import atomic_write
from dac_rocm.container.dac import check_dac, read_dac, write_dac
from dac_rocm.container.packed_bytes import MAGIC
from dac_rocm.container.packed_header import PackedHeader, header_of
from dac_rocm.container.packed_reader import LostBlock, PackedReader, read_packed
from dac_rocm.container.packed_writer import PackedWriter, write_packed
from dac_rocm.container.safe_npy import NPY_MAGIC
from dac_rocm.encoded import EncodedAudio, Gain, Loudness, ModelStamp
from dac_rocm.errors import SourceError, UnknownContainerError

__all__ = [
    "FileInfo",
    "LostBlock",
    "PackedHeader",
    "PackedReader",
    "PackedWriter",
    "container_format",
    "container_of",
    "header_of",
    "read_encoded",
    "read_info",
    "write_encoded",
]

Format = Literal["dacz", "dac"]
Path_ = str | os.PathLike[str]

_WRITERS: dict[str, Callable[[BinaryIO, EncodedAudio], None]] = {
    "dacz": write_packed,
    "dac": write_dac,
}


@dataclass(frozen=True, kw_only=True)
class FileInfo:
    """What an encoded file says about itself; None where it does not.

    Args:
        container: `dacz` or `dac`.
        version: Version of the container.
        kind: `codes` or `latents`.
        model: Which model made it.
        model_rate: Rate of the model in Hz.
        sample_rate: Rate of the original audio in Hz.
        hop_length: Samples at `model_rate` per frame.
        channels: Channels of the original audio.
        rows: Rows of codes or latents.
        width: Codebooks, or channels of latents.
        codebook_size: Entries of a codebook.
        dtype: Type of a value: `uint16`, `float16` or `float32`.
        frames: Number of frames.
        length: Samples per channel of the original audio.
        seconds: Its duration; None in `.dac` before 1.0, where only the model could tell.
        file_bytes: Size of the file.
        kbps: 8 * file_bytes / seconds / 1000.
        level: What decoding does to the level.
        chunk_frames: Frames per chunk of a chunked `.dac`.
        source_subtype: Sample format of the source.
    """

    container: Format
    version: str
    kind: Literal["codes", "latents"]
    model: ModelStamp = field(default_factory=ModelStamp)
    model_rate: int | None = None
    sample_rate: int
    hop_length: int | None = None
    channels: int
    rows: int
    width: int
    codebook_size: int | None = None
    dtype: str
    frames: int
    length: int
    seconds: float | None
    file_bytes: int
    level: Gain | Loudness
    chunk_frames: int | None = None
    source_subtype: str | None = None

    @property
    def kbps(self) -> float | None:
        """Real bitrate of the file, everything included."""
        return 8e-3 * self.file_bytes / self.seconds if self.seconds else None


def read_encoded(path: Path_) -> EncodedAudio:
    """Read an encoded file of either container, told by its content.

    Args:
        path: The file.

    Returns:
        The recording.

    Raises:
        SourceError: The file cannot be opened or read.
        ContainerError: It cannot be used.
    """
    with _opened(path) as (file, form):
        return read_packed(file) if form == "dacz" else read_dac(file)


def container_of(path: Path_) -> Format:
    """Name the container of a file, told by its first bytes.

    Args:
        path: The file.

    Raises:
        SourceError: The file cannot be opened or read.
        UnknownContainerError: It is neither.
    """
    with _opened(path) as (_, form):
        return form


def write_encoded(
    path: Path_,
    encoded: EncodedAudio,
    *,
    format: Format | None = None,  # noqa: A002 - the word everybody uses for it
    overwrite: bool = False,
) -> None:
    """Write an encoded file, whole or not at all.

    Args:
        path: Where to write.
        encoded: The recording.
        format: `dacz` or `dac`; None takes it from the suffix.
        overwrite: Replace an existing file.

    Raises:
        UnknownContainerError: Another format, or a suffix that tells none.
        OutputError: The file exists, or cannot be written.
        ContainerError: The container cannot hold the recording.
    """
    writer = _WRITERS[container_format(path, format)]
    with atomic_write(path, overwrite=overwrite) as file:
        writer(file, encoded)


def container_format(path: Path_, wanted: str | None = None) -> Format:
    """Name the container for a path.

    Args:
        path: Where to write; its suffix tells, unless `wanted` does.
        wanted: `dacz`, `dac` or None.

    Raises:
        UnknownContainerError: Neither tells.
    """
    name = Path(path).suffix[1:].lower() if wanted is None else wanted
    if name in _WRITERS:
        return cast(Format, name)
    raise UnknownContainerError(
        f"container {name!r} found for {path}; `dacz` or `dac` is expected. Give the path one of "
        "these suffixes, or choose with `format`."
    )


def read_info(path: Path_) -> FileInfo:
    """Read what an encoded file says about itself; needs neither torch nor numpy.

    Args:
        path: The file.

    Raises:
        SourceError: The file cannot be opened or read.
        ContainerError: It cannot be used.
    """
    with _opened(path) as (file, form):
        size = os.fstat(file.fileno()).st_size
        return _packed_info(file, size) if form == "dacz" else _dac_info(file, size)


def _packed_info(file: BinaryIO, size: int) -> FileInfo:
    reader = PackedReader(file)
    header = reader.header
    return FileInfo(
        container="dacz",
        version="1",
        kind=header.kind,
        model=header.model,
        model_rate=header.model_rate,
        sample_rate=header.sample_rate,
        hop_length=header.hop_length,
        channels=header.channels,
        rows=header.rows,
        width=header.width,
        codebook_size=header.codebook_size,
        dtype=header.dtype or "uint16",
        frames=reader.frames,
        length=reader.length,
        seconds=reader.length / header.sample_rate,
        file_bytes=size,
        level=Gain(float(header.gain_db)),
        source_subtype=header.source_subtype,
    )


def _dac_info(file: BinaryIO, size: int) -> FileInfo:
    dac = check_dac(file)
    rows, width, frames = dac.codes.shape
    return FileInfo(
        container="dac",
        version=dac.version,
        kind="codes",
        sample_rate=dac.sample_rate,
        channels=dac.channels,
        rows=rows,
        width=width,
        dtype="uint16",
        frames=frames,
        length=dac.length,
        seconds=None if dac.is_old else dac.length / dac.sample_rate,
        file_bytes=size,
        level=Loudness(dac.loudness_db),
        chunk_frames=dac.chunk_frames,
    )


@contextmanager
def _opened(path: Path_) -> Iterator[tuple[BinaryIO, Format]]:
    """Open a file and tell its container by its first bytes."""
    try:
        with Path(path).open("rb") as file:
            form = _container_of(file.read(len(MAGIC)), path)
            file.seek(0)
            yield file, form
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read: {error.strerror or error}; an encoded file is expected. "
            "Check the path and its permissions."
        ) from error


def _container_of(front: bytes, path: Path_) -> Format:
    if front == MAGIC:
        return "dacz"
    if front.startswith(NPY_MAGIC):
        return "dac"
    raise UnknownContainerError(
        f"{path} is neither a `.dacz` nor a `.dac` file; one of them is expected. Check the path, "
        "or encode the audio first."
    )
