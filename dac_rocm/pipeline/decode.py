"""Decode files, streams and EncodedAudio in bounded memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from einops import rearrange
from numpy.typing import NDArray

from dac_rocm.audio.reader import Planar
from dac_rocm.audio.resample import resampled
from dac_rocm.audio.writer import AudioWriter, create_audio
from dac_rocm.codec import Codec
from dac_rocm.container import LostBlock
from dac_rocm.encoded import EncodedAudio, Loudness
from dac_rocm.engine import run
from dac_rocm.errors import AudioError, ShapeError
from dac_rocm.pipeline.match import check_model
from dac_rocm.pipeline.stages import leveled, silenced, skipped
from dac_rocm.pipeline.stored import InMemory, Stored, opened
from dac_rocm.pipeline.window import Window, samples_between, window
from dac_rocm.streaming import StreamDecoder

SUBTYPES = {"PCM_24": "pcm24", "PCM_32": "pcm24", "FLOAT": "float32", "DOUBLE": "float32"}
"""Sample format of the source to the one that is written; all others become `pcm16`."""


@dataclass(frozen=True, kw_only=True)
class DecodeSummary:
    """What decoding a file did.

    Args:
        source: What was read.
        target: What was written.
        seconds: Duration of the audio.
        subtype: Sample format that was written.
        peak: Largest absolute sample; full scale is 1.
        clipped: Samples beyond full scale that integers could not hold.
        lost: Blocks that were damaged and became silence.
        elapsed: Seconds that it took.
    """

    source: str
    target: str
    seconds: float
    subtype: str
    peak: float
    clipped: int
    lost: tuple[LostBlock, ...]
    elapsed: float


def decode_audio(
    model: Codec, encoded: EncodedAudio, *, any_model: bool = False
) -> tuple[Planar, int]:
    """Decode a recording, as `decode_file` does.

    Args:
        model: DAC or DACVAE with a decoder.
        encoded: From `encode_audio`, `encode_file` or `read_encoded`.
        any_model: Let another model than the one that made it decode it.

    Returns:
        Audio [C, T] float32 with the original rate, channels and length; the rate in Hz.

    Raises:
        ContainerError: Another model made it.
    """
    blocks = decode_blocks(model, InMemory(encoded), any_model=any_model)
    return np.concatenate(list(blocks), axis=1), encoded.sample_rate


def decode_file(
    model: Codec,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    subtype: str | None = None,
    start: float | None = None,
    stop: float | None = None,
    overwrite: bool = False,
    any_model: bool = False,
    salvage: bool = False,
    tile: int | None = None,
    max_memory: int | None = None,
) -> DecodeSummary:
    """Decode an encoded file of any length in bounded memory.

    Args:
        model: DAC or DACVAE with a decoder.
        source: `.dacz` or `.dac`.
        target: `.wav` or `.flac` to write.
        subtype: `pcm16`, `pcm24` or `float32`; default: as the source of the encoded file.
        start: Second to begin at; the part equals the cut of the whole.
        stop: Second to end at.
        overwrite: Replace an existing target.
        any_model: Let another model than the one that made it decode it.
        salvage: Decode what is whole of a damaged `.dacz`; the rest becomes silence.
        tile: Frames per push of the engine; None lets the model choose.
        max_memory: Bytes that activations may take, where `tile` is None.

    Returns:
        What was done.

    Raises:
        SourceError, ContainerError: The source cannot be used, or another model made it.
        AudioError: NaN came out of the network, or the target's suffix and subtype do not fit.
        OutputError: The target exists, or cannot be written.
    """
    started = time.perf_counter()
    lost: list[LostBlock] | None = [] if salvage else None
    with opened(source, lost) as stored:
        about = stored.about
        chosen = subtype or subtype_of(about)
        part = (start, stop) if start is not None or stop is not None else None
        if tile is None:
            tile, _ = model.choose_tile("decoder", about.data.shape[0], max_memory=max_memory)
        blocks = decode_blocks(model, stored, part=part, any_model=any_model, tile=tile)
        with create_audio(
            target, about.sample_rate, about.channels, subtype=chosen, overwrite=overwrite
        ) as writer:
            write_all(writer, blocks)
    return DecodeSummary(
        source=str(source),
        target=str(target),
        seconds=writer.length / about.sample_rate,
        subtype=chosen,
        peak=writer.peak,
        clipped=writer.clipped,
        lost=tuple(lost or ()),
        elapsed=time.perf_counter() - started,
    )


def subtype_of(about: EncodedAudio) -> str:
    """Choose the sample format to write: that of the source, where it is known and lossless."""
    return SUBTYPES.get(about.source_subtype or "", "pcm16")


def write_all(writer: AudioWriter, blocks: Iterable[Planar]) -> None:
    """Write decoded blocks as they come."""
    for block in blocks:
        writer.write(block)


def decode_blocks(
    model: Codec,
    stored: Stored,
    *,
    part: tuple[float | None, float | None] | None = None,
    any_model: bool = False,
    tile: int | None = None,
    live: bool = False,
) -> Iterator[Planar]:
    """Decode a recording block by block.

    Args:
        model: DAC or DACVAE with a decoder.
        stored: The recording.
        part: Seconds to begin and end at.
        any_model: See `decode_audio`.
        tile: Frames per push of the engine.
        live: Give out audio at once: where the level depends on the whole reconstruction, undo
            Descript's gain before encoding instead.

    Yields:
        Audio [C, n] at the original rate; exactly the original length in all.
    """
    about = stored.about
    check_model(model, about, any_model=any_model)
    cut = _window(model, stored, part)
    raw = _Decoding(model, about, tile).blocks(stored.pieces(cut.start_frame, cut.stop_frame))
    raw = silenced(raw, stored.lost, model.hop_length)
    rate = model.sample_rate
    audio = leveled(skipped(raw, cut.skip), about, rate, live)
    audio = resampled(audio, rate, about.sample_rate, about.channels)
    return _cut(skipped(audio, cut.skip_resampled), stored, cut.length, rate)


def _window(model: Codec, stored: Stored, part: tuple[float | None, float | None] | None) -> Window:
    """Plan the part; where the level depends on the whole, all is decoded and then cut."""
    if part is None:
        return Window()
    about, end = stored.about, stored.end()
    if end is None:
        raise ShapeError(
            "a part of a stream or of a salvaged file was asked for; a whole file is expected. "
            "Decode all of it, and cut the audio."
        )
    length = _length(about, end[1], model.sample_rate)
    first, last = samples_between(*part, length, about.sample_rate)
    if isinstance(about.level, Loudness):
        return Window(skip_resampled=first, length=last - first)
    return window(
        model.steps("decoder"),
        samples=(first, last),
        frames=end[0],
        hop_length=model.hop_length,
        rates=(model.sample_rate, about.sample_rate),
    )


def _length(about: EncodedAudio, stored: int, model_rate: int) -> int:
    return stored * about.sample_rate // model_rate if about.length_at_model_rate else stored


class _Decoding:
    """One recording on its way through the decoder."""

    def __init__(self, model: Codec, about: EncodedAudio, tile: int | None) -> None:
        self.model, self.about, self.tile = model, about, tile

    def blocks(self, pieces: Iterable[NDArray[Any]]) -> Iterator[Planar]:
        """Yield audio [C, n] at the model's rate."""
        decoded = self._chunks(pieces) if self.about.chunk_frames else self._stream(pieces)
        for audio in decoded:
            yield self._planar(audio)

    def _stream(self, pieces: Iterable[NDArray[Any]]) -> Iterator[torch.Tensor]:
        stream = StreamDecoder(self.model, tile=self.tile)
        for data in pieces:
            yield stream.push(_tensor(data))
        yield stream.flush()

    def _chunks(self, pieces: Iterable[NDArray[Any]]) -> Iterator[torch.Tensor]:
        """Decode each stored chunk by itself and without padding, as Descript's contract says."""
        network = self.model.network("decoder", padded=False)
        for data in pieces:
            yield run(network, self.model.to_z(_tensor(data)), tile=self.tile)

    def _planar(self, audio: torch.Tensor) -> Planar:
        mono = self.model.config.audio_channels == 1
        y = rearrange(audio.float(), "c 1 t -> c t" if mono else "1 c t -> c t")
        if not mono and self.about.channels == 1:
            y = y.mean(0, keepdim=True)
        samples: Planar = y.cpu().numpy()
        if not np.isfinite(samples).all():
            raise AudioError(
                "NaN or infinite samples came out of the decoder; finite ones are expected. "
                "Use dtype=float32."
            )
        return samples


def _tensor(data: NDArray[Any]) -> torch.Tensor:
    wide = data.astype(np.int64) if data.dtype.kind == "u" else data.astype(np.float32)
    return torch.from_numpy(wide)


def _cut(
    blocks: Iterable[Planar], stored: Stored, length: int | None, model_rate: int
) -> Iterator[Planar]:
    """End at exactly the wanted length: cut, or zeros where the network gives a little less.

    A pipe tells its length after its last block; what came out before that is less, since the
    decoder lags behind.
    """

    def limit() -> int | None:
        if length is not None:
            return length
        end = stored.end()
        return None if end is None else _length(stored.about, end[1], model_rate)

    given = 0
    for block in blocks:
        wanted = limit()
        part = block if wanted is None else block[:, : max(0, wanted - given)]
        given += part.shape[1]
        yield part
    yield np.zeros((stored.about.channels, max(0, (limit() or 0) - given)), np.float32)
