"""What happens to audio between the decoder and the file: level, rate, a part of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dac_rocm.audio.loudness import TARGET_DB, LoudnessMeter
from dac_rocm.audio.reader import Planar
from dac_rocm.container import LostBlock
from dac_rocm.encoded import EncodedAudio, Gain
from dac_rocm.pipeline.level import db_to_factor


def skipped(blocks: Iterable[Planar], skip: int) -> Iterator[Planar]:
    """Leave out the first `skip` samples."""
    for block in blocks:
        n = min(skip, block.shape[1])
        skip -= n
        yield block[:, n:]


def silenced(
    blocks: Iterable[Planar], lost: Sequence[LostBlock], hop_length: int
) -> Iterator[Planar]:
    """Make the time of lost frames silent, whatever the network makes of what stands for them.

    Args:
        blocks: Decoded audio [C, n] at the model's rate, from its start.
        lost: Grows while `blocks` are made, ahead of them.
        hop_length: Samples per frame.
    """
    position = 0
    for block in blocks:
        n = block.shape[1]
        for gone in lost:
            start = max(0, gone.start_frame * hop_length - position)
            stop = n if gone.stop_frame is None else gone.stop_frame * hop_length - position
            block[:, start : max(start, stop)] = 0
        position += n
        yield block


def leveled(
    blocks: Iterator[Planar], about: EncodedAudio, rate: int, live: bool
) -> Iterator[Planar]:
    """Undo what was done to the level before encoding.

    Args:
        blocks: Decoded audio [C, n].
        about: What the encoded file says.
        rate: Rate of `blocks` in Hz.
        live: Do not wait for the loudness of the whole; undo Descript's gain instead.
    """
    level = about.level
    if isinstance(level, Gain):
        return _scaled(blocks, db_to_factor(-level.db))
    if live:
        return _scaled(blocks, db_to_factor(level.db - TARGET_DB))
    return _to_loudness(blocks, level.db, rate, about.channels)


def _scaled(blocks: Iterable[Planar], factor: float) -> Iterator[Planar]:
    for block in blocks:
        yield block * np.float32(factor)


def _to_loudness(
    blocks: Iterable[Planar], loudness_db: float, rate: int, channels: int
) -> Iterator[Planar]:
    """Bring the whole to a loudness: keep it on disk until that is measured.

    All channels get one gain, so the balance stays; the original measures each alone and loses it.
    """
    meter = LoudnessMeter(rate, channels)
    with tempfile.TemporaryFile() as file:
        sizes = []
        for block in blocks:
            meter.push(block)
            file.write(np.ascontiguousarray(block).tobytes())
            sizes.append(block.shape[1])
        file.seek(0)
        factor = np.float32(db_to_factor(loudness_db - meter.loudness()))
        for n in sizes:
            data = np.frombuffer(file.read(4 * n * channels), np.float32)
            yield data.reshape(channels, n) * factor
