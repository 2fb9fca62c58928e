"""Audio from a pipe, which cannot be sought: WAV, or raw samples that the caller describes.

This file must not read files (libsndfile does) or guess what raw samples are.
"""

from typing import BinaryIO

from dac_rocm.audio import pcm, wav
from dac_rocm.audio.reader import AudioReader, Planar, warn_truncated
from dac_rocm.errors import AudioError

RAW_FORMATS = ("s16", "s24", "s32", "f32")
"""Little-endian, interleaved."""


def open_stream(
    file: BinaryIO,
    *,
    sample_rate: int | None = None,
    channels: int | None = None,
    sample_format: str | None = None,
    name: str = "<stdin>",
) -> AudioReader:
    """Open a binary stream: raw samples if they are described, else WAV.

    Args:
        file: Left open.
        sample_rate: Of raw samples, in Hz.
        channels: Of raw samples.
        sample_format: Of raw samples, one of `RAW_FORMATS`.
        name: What messages call the stream.

    Raises:
        AudioError: Not WAV, an incomplete description, or an impossible one.
    """
    if sample_rate is None and channels is None and sample_format is None:
        header = wav.read_header(file, name)
    elif sample_rate is None or channels is None or sample_format not in RAW_FORMATS:
        raise AudioError(
            f"found raw samples of {sample_rate} Hz, {channels} channels, format {sample_format}; "
            f"expected all three, the format one of {', '.join(RAW_FORMATS)}; give what is missing"
        )
    else:
        header = wav.WavHeader(sample_rate, channels, sample_format, None)
    return AudioReader(
        source=_Pcm(file, header, name),
        name=name,
        sample_rate=header.sample_rate,
        channels=header.channels,
        length=header.length,
        subtype=pcm.FORMATS[header.sample_format].subtype,
    )


class _Pcm:
    """Interleaved samples of a stream, as many as the header says or there are."""

    def __init__(self, file: BinaryIO, header: wav.WavHeader, name: str) -> None:
        self._file = file
        self._header = header
        self._name = name
        self._position = 0

    def read(self, n: int) -> Planar:
        header = self._header
        if header.length is not None:
            n = min(n, header.length - self._position)
        size = pcm.FORMATS[header.sample_format].size * header.channels
        data = _read_fully(self._file, n * size)
        if extra := len(data) % size:
            warn_truncated(self._name, f"{extra} of {size} bytes of the last sample")
            data = data[:-extra]
        self._position += len(data) // size
        return pcm.decode(data, header.sample_format, header.channels)

    def close(self) -> None:
        """Leave the stream to its owner."""


def _read_fully(file: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end: an unbuffered pipe gives what it has."""
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
