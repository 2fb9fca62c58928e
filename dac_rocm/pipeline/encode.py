"""Encode files, streams and arrays in bounded memory."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, overload

import numpy as np

from dac_rocm.atomic import atomic_write
from dac_rocm.audio.files import open_audio
from dac_rocm.audio.reader import AudioReader
from dac_rocm.codec import Codec
from dac_rocm.container import PackedWriter, container_format, header_of, write_encoded
from dac_rocm.encoded import EncodedAudio, Gain
from dac_rocm.pipeline.arrays import array_reader
from dac_rocm.pipeline.encoding import Encoding, Open, Options, choose_level
from dac_rocm.pipeline.level import Leveling


@dataclass(frozen=True, kw_only=True)
class EncodeSummary:
    """What encoding a file did.

    Args:
        source: What was read.
        target: What was written.
        seconds: Duration of the audio.
        frames: Frames written.
        file_bytes: Size of the target.
        gain_db: Change of level before encoding; None in `.dac`, which keeps the loudness.
        elapsed: Seconds that it took.
    """

    source: str
    target: str
    seconds: float
    frames: int
    file_bytes: int
    gain_db: float | None
    elapsed: float

    @property
    def kbps(self) -> float:
        """Real bitrate of the target."""
        return 8e-3 * self.file_bytes / self.seconds


def encode_audio(
    model: Codec,
    audio: Any,
    sample_rate: int,
    *,
    n_codebooks: int | None = None,
    loudness: bool = True,
    gain_db: float | None = None,
    latents_dtype: str = "float32",
) -> EncodedAudio:
    """Encode audio of any rate, as `encode_file` does.

    Args:
        model: DAC or DACVAE with an encoder.
        audio: [T] or [C, T], numpy or torch, float around ±1.
        sample_rate: Its rate in Hz.
        n_codebooks: Codebooks to use, 1..N; None for all.
        loudness: Bring codebook models' input to −16 LUFS.
        gain_db: A gain to use instead; None measures.
        latents_dtype: `float32` or `float16`, for continuous models.

    Returns:
        Codes or latents with all that is needed to decode them.

    Raises:
        ShapeError: Wrong rank, type, number of channels or of codebooks.
        AudioError: No samples, NaN or infinite ones.
    """
    options = Options(
        n_codebooks=n_codebooks, loudness=loudness, gain_db=gain_db, latents_dtype=latents_dtype
    )
    return encode_whole(model, lambda: array_reader(audio, sample_rate), options)


@overload
def encode_file(
    model: Codec, source: str | os.PathLike[str], target: None = None, **options: Any
) -> EncodedAudio: ...


@overload
def encode_file(
    model: Codec, source: str | os.PathLike[str], target: str | os.PathLike[str], **options: Any
) -> EncodeSummary: ...


def encode_file(  # type: ignore[misc] # the overloads name the options only here
    model: Codec,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    n_codebooks: int | None = None,
    loudness: bool = True,
    gain_db: float | None = None,
    latents_dtype: str = "float32",
    format: str | None = None,  # noqa: A002 - the word everybody uses for it
    overwrite: bool = False,
    tile: int | None = None,
    max_memory: int | None = None,
) -> EncodedAudio | EncodeSummary:
    """Encode an audio file of any length in bounded memory.

    Args:
        model: DAC or DACVAE with an encoder.
        source: Any file that libsndfile reads, 1 to 8 channels, any rate.
        target: `.dacz` or `.dac` to write; None returns the codes.
        n_codebooks: Codebooks to use, 1..N; None for all.
        loudness: Bring codebook models' input to −16 LUFS.
        gain_db: A gain to use instead; None measures.
        latents_dtype: `float32` or `float16`, for continuous models.
        format: `dacz` or `dac`; None takes it from the suffix of `target`.
        overwrite: Replace an existing target.
        tile: Samples at the model's rate per push of the engine; None lets the model choose.
        max_memory: Bytes that activations may take, where `tile` is None.

    Returns:
        `EncodedAudio` without a target, else `EncodeSummary`.

    Raises:
        SourceError, AudioError: The source cannot be used.
        ShapeError: The model does not take so many channels, or has not so many codebooks.
        OutputError: The target exists, or cannot be written.
    """
    chosen = Options(
        n_codebooks=n_codebooks,
        loudness=loudness,
        gain_db=gain_db,
        latents_dtype=latents_dtype,
        tile=tile,
        max_memory=max_memory,
    )
    if target is None:
        return encode_whole(model, lambda: open_audio(source), chosen)
    if container_format(target, format) == "dac":
        return _to_dac(model, source, target, overwrite, chosen)
    started = time.perf_counter()
    with ExitStack() as stack:
        leveling = choose_level(model, lambda: open_audio(source), chosen)
        reader = stack.enter_context(open_audio(source))
        file = stack.enter_context(atomic_write(target, overwrite=overwrite))
        frames, length = encode_reader(model, reader, file, leveling, chosen)
    gain = leveling.level.db if isinstance(leveling.level, Gain) else None
    return _summary(source, target, frames, length / reader.sample_rate, gain, started)


def encode_reader(
    model: Codec, reader: AudioReader, file: BinaryIO, leveling: Leveling, options: Options
) -> tuple[int, int]:
    """Encode audio that is read once, and write `.dacz` as it goes; a pipe will do.

    Args:
        model: DAC or DACVAE with an encoder.
        reader: Open audio.
        file: Where to write.
        leveling: What to do to the level.
        options: See `Options`.

    Returns:
        Frames, and samples per channel at the reader's rate.
    """
    encoding = Encoding(model, reader, leveling, options)
    writer: PackedWriter | None = None
    for data in encoding.pieces():
        if writer is None:
            writer = PackedWriter(file, header_of(encoding.about(data)))
        writer.write(data)
    assert writer is not None  # a reader yields samples or raises
    writer.close(encoding.length)
    return writer.frames, encoding.length


def encode_whole(
    model: Codec, open_reader: Open, options: Options, *, to_dac: bool = False
) -> EncodedAudio:
    """Encode audio into memory.

    Args:
        model: DAC or DACVAE with an encoder.
        open_reader: Opens the audio from its start.
        options: See `Options`.
        to_dac: Follow Descript's rules of level and frames.
    """
    leveling = choose_level(model, open_reader, options, to_dac=to_dac)
    with open_reader() as reader:
        encoding = Encoding(model, reader, leveling, options, to_dac=to_dac)
        return encoding.about(np.concatenate(list(encoding.pieces()), axis=-1))


def _to_dac(
    model: Codec, source: Any, target: Any, overwrite: bool, options: Options
) -> EncodeSummary:
    started = time.perf_counter()
    encoded = encode_whole(model, lambda: open_audio(source), options, to_dac=True)
    write_encoded(target, encoded, format="dac", overwrite=overwrite)
    return _summary(source, target, encoded.frames, encoded.seconds, None, started)


def _summary(
    source: Any, target: Any, frames: int, seconds: float, gain_db: float | None, started: float
) -> EncodeSummary:
    return EncodeSummary(
        source=str(source),
        target=str(target),
        seconds=seconds,
        frames=frames,
        file_bytes=Path(target).stat().st_size,
        gain_db=gain_db,
        elapsed=time.perf_counter() - started,
    )
