"""Encode files, streams and arrays in bounded memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from dac_rocm import checks
from dac_rocm.atomic import atomic_write
from dac_rocm.audio.files import open_audio
from dac_rocm.audio.reader import AudioReader, Planar
from dac_rocm.audio.resample import Resampler
from dac_rocm.codec import Codec
from dac_rocm.container import PackedHeader, PackedWriter, container_format, write_encoded
from dac_rocm.dac import DAC
from dac_rocm.encoded import EncodedAudio, Gain
from dac_rocm.errors import ShapeError
from dac_rocm.geometry import descript_frames, frames_for, lost_frames
from dac_rocm.nn.gaussian import Gaussian
from dac_rocm.pipeline.arrays import array_reader
from dac_rocm.pipeline.level import Leveling, descript, fixed_gain, normalizing
from dac_rocm.streaming import StreamEncoder

Open = Callable[[], AudioReader]
"""Opens the same audio from its start, each time it is called."""


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


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to encode, beyond what.

    Args:
        n_codebooks: Codebooks to use, 1..N; None for all.
        loudness: Bring codebook models' input to −16 LUFS.
        gain_db: A gain to use instead; None measures.
        latents_dtype: `float32` or `float16`, for continuous models.
        tile: Samples at the model's rate per push of the engine; None lets the model choose.
        max_memory: Bytes that activations may take, where `tile` is None.
    """

    n_codebooks: int | None = None
    loudness: bool = True
    gain_db: float | None = None
    latents_dtype: str = "float32"
    tile: int | None = None
    max_memory: int | None = None


def encode_audio(model: Codec, audio: Any, sample_rate: int, **options: Any) -> EncodedAudio:
    """Encode audio of any rate, as `encode_file` does.

    Args:
        model: DAC or DACVAE with an encoder.
        audio: [T] or [C, T], numpy or torch, float around ±1.
        sample_rate: Its rate in Hz.
        **options: Fields of `Options`: `n_codebooks`, `loudness`, `gain_db`, `latents_dtype`,
            `tile`, `max_memory`.

    Returns:
        Codes or latents with all that is needed to decode them.

    Raises:
        ShapeError: Wrong rank, type, number of channels or of codebooks.
        AudioError: No samples, NaN or infinite ones.
    """
    return _whole(model, lambda: array_reader(audio, sample_rate), Options(**options))


def encode_file(
    model: Codec,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,  # noqa: A002 - the word everybody uses for it
    overwrite: bool = False,
    **options: Any,
) -> Any:
    """Encode an audio file of any length in bounded memory.

    Args:
        model: DAC or DACVAE with an encoder.
        source: Any file that libsndfile reads, 1 to 8 channels, any rate.
        target: `.dacz` or `.dac` to write; None returns the codes.
        format: `dacz` or `dac`; None takes it from the suffix of `target`.
        overwrite: Replace an existing target.
        **options: Fields of `Options`: `n_codebooks`, `loudness`, `gain_db`, `latents_dtype`,
            `tile`, `max_memory`.

    Returns:
        `EncodedAudio` without a target, else `EncodeSummary`.

    Raises:
        SourceError, AudioError: The source cannot be used.
        ShapeError: The model does not take so many channels, or has not so many codebooks.
        OutputError: The target exists, or cannot be written.
    """
    chosen = Options(**options)
    if target is None:
        return _whole(model, lambda: open_audio(source), chosen)
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
    encoding = _Encoding(model, reader, leveling, options)
    writer: PackedWriter | None = None
    for data in encoding.pieces():
        if writer is None:
            writer = PackedWriter(file, encoding.header(data))
        writer.write(data)
    assert writer is not None  # a reader yields samples or raises
    writer.close(encoding.length)
    return writer.frames, encoding.length


def _whole(
    model: Codec, open_reader: Open, options: Options, *, to_dac: bool = False
) -> EncodedAudio:
    leveling = choose_level(model, open_reader, options, to_dac=to_dac)
    with open_reader() as reader:
        encoding = _Encoding(model, reader, leveling, options, to_dac=to_dac)
        data = np.concatenate(list(encoding.pieces()), axis=-1)
    config = model.config
    return EncodedAudio(
        data=data,
        sample_rate=reader.sample_rate,
        channels=reader.channels,
        length=encoding.length,
        model_rate=config.sample_rate,
        hop_length=config.hop_length,
        codebook_size=model.rvq.codebook_size if isinstance(model, DAC) else None,
        level=leveling.level,
        model=model.stamp,
        source_subtype=reader.subtype,
    )


def _to_dac(
    model: Codec, source: Any, target: Any, overwrite: bool, options: Options
) -> EncodeSummary:
    started = time.perf_counter()
    encoded = _whole(model, lambda: open_audio(source), options, to_dac=True)
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


def choose_level(
    model: Codec, open_reader: Open, options: Options, *, to_dac: bool = False
) -> Leveling:
    """Choose the gain; where it has to be measured, read the audio once for that.

    Args:
        model: What the audio is for: codebook models want one loudness.
        open_reader: Opens the audio from its start.
        options: May say a gain, or that the level is to be left.
        to_dac: Follow Descript's rule.
    """
    if to_dac and (options.gain_db is not None or not options.loudness):
        raise ShapeError(
            "a gain of the caller's was asked for; `.dac` has its own rule of level. Write .dacz."
        )
    with open_reader() as reader:
        channels = reader.channels
        _rows(model, channels)
        measured = isinstance(model, DAC) and options.loudness and options.gain_db is None
        if not (measured or to_dac):
            return fixed_gain(options.gain_db or 0.0, channels)
        rule = descript if to_dac else normalizing
        blocks = _resampled(reader.blocks(), reader, model.sample_rate)
        return rule(blocks, model.sample_rate, channels)


def _resampled(blocks: Iterator[Planar], reader: AudioReader, rate: int) -> Iterator[Planar]:
    resampler = Resampler(reader.sample_rate, rate, reader.channels)
    for block in blocks:
        yield resampler.push(block)
    yield resampler.flush()


def _rows(model: Codec, channels: int) -> int:
    """Rows that a recording of `channels` becomes: batch items of a mono model, or one of a stereo.

    Raises:
        ShapeError: The model does not take so many.
    """
    wanted = model.config.audio_channels
    if wanted == 1:
        return channels
    if channels in (1, wanted):
        return 1
    raise ShapeError(
        f"audio with {channels} channels found; this model takes {wanted}, or 1 which is "
        "duplicated. Mix the audio down first."
    )


class _Encoding:
    """One recording on its way through the encoder."""

    def __init__(
        self,
        model: Codec,
        reader: AudioReader,
        leveling: Leveling,
        options: Options,
        *,
        to_dac: bool = False,
    ) -> None:
        self.model, self.reader, self.leveling = model, reader, leveling
        self.options, self.to_dac = options, to_dac
        self.rows = _rows(model, reader.channels)
        self.length = 0
        self.tile = (
            options.tile
            or model.choose_tile("encoder", self.rows, max_memory=options.max_memory)[0]
        )

    def pieces(self) -> Iterator[NDArray[Any]]:
        """Yield codes [rows, N, f] uint16, or latents [rows, D, f]."""
        stream: StreamEncoder[Any] = StreamEncoder(
            self.model, n_codebooks=self.options.n_codebooks, tile=self.tile
        )
        total = 0
        for block in _rechunked(self._resampled(), self.tile):
            total += block.shape[1]
            yield self._plain(stream.push(self._batch(self.leveling.apply(block))))
        extra = self._extra(total)
        if extra:
            silence = np.zeros((self.reader.channels, extra), np.float32)
            yield self._plain(stream.push(self._batch(silence)))
        yield self._plain(stream.flush())

    def _resampled(self) -> Iterator[Planar]:
        return _resampled(self._counted(), self.reader, self.model.sample_rate)

    def _counted(self) -> Iterator[Planar]:
        for block in self.reader.blocks():
            self.length += block.shape[1]
            yield block

    def _extra(self, total: int) -> int:
        """Samples of silence that the frames need beyond the audio."""
        config = self.model.config
        if total == 0:
            return 1  # the audio is shorter than one sample at the model's rate
        if not self.to_dac:
            return lost_frames(config) * config.hop_length
        wanted = descript_frames(config, self.length, self.reader.sample_rate)
        return max(0, wanted - frames_for(config, total)) * config.hop_length

    def _batch(self, audio: Planar) -> torch.Tensor:
        x = torch.from_numpy(np.ascontiguousarray(audio))
        wanted = self.model.config.audio_channels
        if wanted == 1:
            return x[:, None]
        return x.expand(wanted, -1)[None]

    def _plain(self, result: Any) -> NDArray[Any]:
        if not isinstance(result, Gaussian):
            codes: NDArray[Any] = result.cpu().numpy().astype(np.uint16)
            return codes
        checks.check_finite("latents", result.mean)
        return result.mean.float().cpu().numpy().astype(self.options.latents_dtype)

    def header(self, data: NDArray[Any]) -> PackedHeader:
        """Describe the recording for `.dacz`, given its first piece."""
        model = self.model
        is_codes = isinstance(model, DAC)
        assert isinstance(self.leveling.level, Gain)  # `.dac` does not come here
        return PackedHeader(
            kind="codes" if is_codes else "latents",
            model=model.stamp,
            model_rate=model.sample_rate,
            sample_rate=self.reader.sample_rate,
            hop_length=model.hop_length,
            channels=self.reader.channels,
            rows=self.rows,
            width=data.shape[1],
            codebook_size=model.rvq.codebook_size if isinstance(model, DAC) else None,
            dtype=None if is_codes else str(data.dtype),
            gain_db=self.leveling.level.db,
            source_subtype=self.reader.subtype,
        )


def _rechunked(blocks: Iterator[Planar], size: int) -> Iterator[Planar]:
    """Yield the same samples in pieces [C, size], the last one shorter."""
    held: list[Planar] = []
    count = 0
    for block in blocks:
        held.append(block)
        count += block.shape[1]
        if count < size:
            continue
        joined = np.concatenate(held, axis=1)
        whole = count // size * size
        for start in range(0, whole, size):
            yield joined[:, start : start + size]
        held, count = [joined[:, whole:]], count - whole
    if count:
        yield np.concatenate(held, axis=1)
