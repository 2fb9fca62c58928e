"""Read the packed container `.dacz`, version 1, block by block. The layout is in `docs/dacz.md`.

This file must not know models or audio.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from dac_rocm.container.packed_blocks import (
    join,
    unpack_block,
    whole_frames,
    zeros,
)
from dac_rocm.container.packed_bytes import (
    END,
    EndRecord,
    read_header,
    read_up_to,
    unpack_end,
)
from dac_rocm.encoded import EncodedAudio, Gain
from dac_rocm.errors import ContainerError, ShapeError, TruncatedFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LostBlock(NamedTuple):
    """Frames that could not be read: up to, not with, `stop_frame`; None where that is unknown."""

    block: int
    start_frame: int
    stop_frame: int | None


class PackedReader:
    """Read a `.dacz` file, at random where it can be sought, else as it arrives.

    Args:
        file: A binary file open for reading, at the start of the container. A file that can be
            sought must end with it.

    Raises:
        ContainerError: See `read_header`.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.header = read_header(file)
        self._file = file
        self._start = file.tell() if file.seekable() else None
        self._end: EndRecord | None = None

    @property
    def frames(self) -> int:
        """Number of frames; in a pipe, known after the last block."""
        return self._known_end().frames

    @property
    def length(self) -> int:
        """Samples per channel at `sample_rate`; in a pipe, known after the last block."""
        return self._known_end().length

    def read(self, start_frame: int, stop_frame: int) -> NDArray[Any]:
        """Read some frames, and only the blocks that hold them.

        Args:
            start_frame: First frame.
            stop_frame: The frame after the last one.

        Returns:
            [rows, N, stop_frame - start_frame] uint16 codes or [rows, D, ...] latents.

        Raises:
            ShapeError: Frames that the file has not.
            ChecksumError: A block is damaged.
        """
        if not 0 <= start_frame <= stop_frame <= self.frames:
            raise ShapeError(
                f"frames {start_frame} to {stop_frame} asked for; 0 to {self.frames} are expected. "
                "Ask for less."
            )
        step = self.header.block_frames
        first, last = start_frame // step, -(-stop_frame // step)
        blocks = [self._read_block(index) for index in range(first, last)]
        offset = first * step
        return join(self.header, blocks)[:, :, start_frame - offset : stop_frame - offset]

    def blocks(self, *, lost: list[LostBlock] | None = None) -> Iterator[NDArray[Any]]:
        """Yield the blocks one after the other, each as soon as it has arrived.

        Finish before `read` moves the file elsewhere.

        Args:
            lost: Salvage: damaged blocks are yielded as zeros, so that time is kept, and named
                in this list; a file that was cut short ends with what is whole.

        Yields:
            [rows, N, f] uint16 codes or [rows, D, f] latents; f is `block_frames` but at the end.

        Raises:
            ChecksumError: A block or the end record is damaged.
            TruncatedFileError: There is no end record.
        """
        if self._start is not None:
            self._file.seek(self._start)
        size = self.header.block_size(self.header.block_frames)
        index, held = 0, b""
        while True:
            held += read_up_to(self._file, size + END.size + 1 - len(held))
            if len(held) <= size + END.size:
                break  # nothing follows: this is the last block and the end record
            yield self._decode(index, held[:size], self.header.block_frames, lost)
            index, held = index + 1, held[size:]
        yield from self._last_block(index, held, lost)

    def _last_block(
        self, index: int, held: bytes, lost: list[LostBlock] | None
    ) -> Iterator[NDArray[Any]]:
        try:
            end = self._end_of(held[-END.size :], len(held) - END.size, index)
        except ContainerError:
            if lost is None:
                raise
            yield from self._salvage_tail(index, held, lost)
            return
        if count := end.frames - index * self.header.block_frames:
            yield self._decode(index, held[: -END.size], count, lost)
        self._end = end

    def _salvage_tail(
        self, index: int, held: bytes, lost: list[LostBlock]
    ) -> Iterator[NDArray[Any]]:
        """The end record is gone: yield the blocks that are whole up to there."""
        frames = index * self.header.block_frames
        while count := whole_frames(self.header, index, held):
            size = self.header.block_size(count)
            yield self._decode(index, held[:size], count, lost)
            index, frames, held = index + 1, frames + count, held[size:]
        lost.append(LostBlock(index, frames, None))
        self._end = EndRecord(frames, self.header.samples(frames))

    def _decode(
        self, index: int, block: bytes, count: int, lost: list[LostBlock] | None
    ) -> NDArray[Any]:
        """One block as an array; as zeros, and named in `lost`, if it is damaged."""
        try:
            return unpack_block(self.header, index, block, count)
        except ContainerError:
            if lost is None:
                raise
            start = index * self.header.block_frames
            lost.append(LostBlock(index, start, start + count))
            return zeros(self.header, count)

    def _read_block(self, index: int) -> NDArray[Any]:
        full = self.header.block_frames
        count = min(full, self.frames - index * full)
        self._file.seek((self._start or 0) + index * self.header.block_size(full))
        block = read_up_to(self._file, self.header.block_size(count))
        return unpack_block(self.header, index, block, count)

    def _known_end(self) -> EndRecord:
        if self._end is None:
            self._end = self._seek_end()
        return self._end

    def _seek_end(self) -> EndRecord:
        if self._start is None:
            raise ContainerError(
                "the number of frames was asked for while the stream arrives; it is known after "
                "its last block. Read all `blocks()` first."
            )
        position = self._file.tell()
        body = self._file.seek(0, 2) - self._start - END.size
        self._file.seek(self._start + max(body, 0))
        data = read_up_to(self._file, END.size)
        self._file.seek(position)
        return self._end_of(data, body)

    def _end_of(self, data: bytes, body: int, index: int = 0) -> EndRecord:
        """Read the end record and hold it against `body`, the bytes after block `index`'s start."""
        end = unpack_end(data)
        frames = end.frames - index * self.header.block_frames
        if frames < 0 or self.header.body_size(frames) != body:
            raise TruncatedFileError(
                f"{body} bytes of blocks found where {end.frames} frames are declared; as many "
                "bytes as the frames need are expected. Fetch the file again, or decode what is "
                "whole with `--salvage`."
            )
        self.header.check_length(end.frames, end.length)
        return end


def read_packed(file: BinaryIO) -> EncodedAudio:
    """Read a whole `.dacz` file.

    Args:
        file: A binary file open for reading, at its start.

    Raises:
        ContainerError: It cannot be used; see `PackedReader`.
    """
    reader = PackedReader(file)
    header = reader.header
    data = join(header, list(reader.blocks()))
    return EncodedAudio(
        data=data,
        sample_rate=header.sample_rate,
        channels=header.channels,
        length=reader.length,
        model_rate=header.model_rate,
        hop_length=header.hop_length,
        codebook_size=header.codebook_size,
        level=Gain(float(header.gain_db)),
        model=header.model,
        source_subtype=header.source_subtype,
    )
