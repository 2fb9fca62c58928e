"""Audio files and streams, written block by block; a file appears whole or not at all.

This file must not change level: what does not fit into integers is clipped and counted.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dac_rocm.atomic import atomic_write
from dac_rocm.audio import pcm, wav
from dac_rocm.audio.reader import Planar
from dac_rocm.errors import AudioError, OutputError, ShapeError

SUBTYPES = {"pcm16": "s16", "pcm24": "s24", "float32": "f32"}
"""Names of what can be written, and of its sample format."""


class AudioWriter:
    """Takes blocks of samples; made by `create_audio` and `create_stream`.

    Attributes:
        length: Samples per channel written so far.
        peak: Largest absolute sample so far; full scale is 1.
        clipped: Samples, of all channels, beyond full scale that integers could not hold.
    """

    def __init__(self, put: Callable[[Planar], object], channels: int, clips: bool) -> None:
        self._put = put
        self._channels = channels
        self._clips = clips
        self.length = 0
        self.peak = 0.0
        self.clipped = 0

    def write(self, audio: Planar) -> None:
        """Append samples [C, n], float32.

        Raises:
            ShapeError: Another number of channels.
            AudioError: A sample is NaN or infinite; nothing of this block is written.
        """
        if audio.ndim != 2 or audio.shape[0] != self._channels:
            raise ShapeError(
                f"found audio of shape {audio.shape}; expected [{self._channels}, n]; "
                "give one row per channel"
            )
        level = np.abs(audio)
        if not np.isfinite(level).all():
            raise AudioError(
                f"found NaN or infinity in the {audio.shape[1]} samples from {self.length} on; "
                "expected finite samples; this must not be written, report how they came about"
            )
        self._put(audio)
        self.length += audio.shape[1]
        self.peak = max(self.peak, float(level.max(initial=0)))
        self.clipped += int((level > 1).sum()) if self._clips else 0


@contextmanager
def create_audio(
    path: str | os.PathLike[str],
    sample_rate: int,
    channels: int,
    *,
    subtype: str = "pcm16",
    overwrite: bool = False,
) -> Iterator[AudioWriter]:
    """Create a `.wav` or `.flac` file that appears when the block ends without an error.

    Args:
        path: Where to.
        sample_rate: In Hz.
        channels: 1 to 8.
        subtype: `pcm16`, `pcm24` or, for WAV only, `float32`.
        overwrite: Replace an existing file.

    Raises:
        AudioError: Another suffix or subtype.
        OutputError: The file exists, or cannot be written.
    """
    sample_format = _sample_format(subtype)
    make = {".wav": _wav_file, ".flac": _flac_file}.get(Path(path).suffix.lower())
    if make is None or (make is _flac_file and sample_format == "f32"):
        raise AudioError(
            f"found {path} to be written as {subtype}; expected .wav, or .flac with pcm16 or "
            "pcm24; choose another suffix or subtype"
        )
    header = wav.WavHeader(sample_rate, channels, sample_format, 0)
    with atomic_write(path, overwrite=overwrite) as file, make(file, header) as writer:
        yield writer


def create_stream(
    file: BinaryIO, sample_rate: int, channels: int, *, subtype: str = "pcm16", raw: bool = False
) -> AudioWriter:
    """Start WAV of unknown length, or raw little-endian samples, on a stream; it is left open."""
    sample_format = _sample_format(subtype)
    if not raw:
        file.write(wav.make_header(wav.WavHeader(sample_rate, channels, sample_format, None)))
    return _pcm_writer(file, channels, sample_format)


def _sample_format(subtype: str) -> str:
    if subtype not in SUBTYPES:
        raise AudioError(
            f"found subtype {subtype!r}; expected one of {', '.join(SUBTYPES)}; choose one"
        )
    return SUBTYPES[subtype]


def _pcm_writer(file: BinaryIO, channels: int, sample_format: str) -> AudioWriter:
    return AudioWriter(
        lambda audio: file.write(pcm.encode(audio, sample_format)),
        channels,
        clips=pcm.FORMATS[sample_format].bits > 0,
    )


@contextmanager
def _wav_file(file: BinaryIO, header: wav.WavHeader) -> Iterator[AudioWriter]:
    """Write WAV; the header is written again when the length is known."""
    file.write(wav.make_header(header))
    writer = _pcm_writer(file, header.channels, header.sample_format)
    yield writer
    size = pcm.FORMATS[header.sample_format].size * header.channels
    file.write(bytes(writer.length * size % 2))
    file.seek(0)
    file.write(wav.make_header(header._replace(length=writer.length)))


@contextmanager
def _flac_file(file: BinaryIO, header: wav.WavHeader) -> Iterator[AudioWriter]:
    """Write FLAC through libsndfile, which takes integers in the upper bits."""
    import soundfile

    kind = pcm.FORMATS[header.sample_format]
    left = 32 - kind.bits
    try:
        with soundfile.SoundFile(
            file.fileno(),
            "w",
            header.sample_rate,
            header.channels,
            kind.subtype,
            format="FLAC",
            closefd=False,
        ) as flac:
            yield AudioWriter(
                lambda audio: flac.write(pcm.quantize(audio, kind.bits) << left),
                header.channels,
                clips=True,
            )
    except soundfile.LibsndfileError as error:
        raise OutputError(
            f"found that FLAC cannot be written ({error.error_string}); expected a rate and a disk "
            "that take it; write .wav, or free some space"
        ) from error
