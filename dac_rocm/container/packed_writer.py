"""Write the packed container `.dacz`, version 1, block by block. The layout is in `docs/dacz.md`.

This file must not know models or audio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from dac_rocm.container.packed_blocks import check_shape, check_values, pack_block
from dac_rocm.container.packed_bytes import EndRecord, pack_end, pack_header
from dac_rocm.container.packed_header import PackedHeader, header_of
from dac_rocm.encoded import EncodedAudio

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PackedWriter:
    """Write a `.dacz` file as its frames arrive; a pipe will do.

    Args:
        file: A binary file open for writing.
        header: What the file is to say about itself.
    """

    def __init__(self, file: BinaryIO, header: PackedHeader) -> None:
        import numpy as np

        self.header = header
        self.frames = 0
        self._file = file
        self._index = 0
        dtype = np.dtype(header.dtype or "uint16")
        self._pending = np.empty((header.rows, header.width, 0), dtype)
        file.write(pack_header(header))

    def write(self, data: NDArray[Any]) -> None:
        """Append frames.

        Args:
            data: [rows, N, f] codes or [rows, D, f] latents, of any f.

        Raises:
            ShapeError: Other rows, codebooks or width than the header says.
            ContainerError: Codes beyond the codebook, or latents that are not finite.
        """
        import numpy as np

        check_shape(self.header, data)
        check_values(self.header, data)
        with np.errstate(over="ignore"):
            stored = data.astype(self._pending.dtype)
        check_values(self.header, stored)  # float16 may have overflowed
        self.frames += data.shape[-1]
        waiting = np.concatenate([self._pending, stored], axis=-1)
        step = self.header.block_frames
        whole = waiting.shape[-1] // step * step
        for start in range(0, whole, step):
            self._write_block(waiting[:, :, start : start + step])
        self._pending = waiting[:, :, whole:].copy()

    def close(self, length: int) -> None:
        """Write what is left and the end record; `file` stays open.

        Args:
            length: Samples per channel of the original audio at `sample_rate`.

        Raises:
            ContainerError: The frames cannot hold so many samples.
        """
        self.header.check_length(self.frames, length)
        if self._pending.shape[-1]:
            self._write_block(self._pending)
        self._file.write(pack_end(EndRecord(self.frames, length)))

    def _write_block(self, data: NDArray[Any]) -> None:
        self._file.write(pack_block(self.header, self._index, data))
        self._index += 1


def write_packed(file: BinaryIO, encoded: EncodedAudio) -> None:
    """Write a whole `.dacz` file.

    Args:
        file: A binary file open for writing.
        encoded: Codes or latents; see `header_of`.

    Raises:
        ContainerError: `.dacz` cannot hold the recording.
    """
    writer = PackedWriter(file, header_of(encoded))
    writer.write(encoded.data)
    writer.close(encoded.length)
