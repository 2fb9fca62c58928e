"""Audio short enough to be kept: read and resampled once, where a file is read twice.

What comes out equals what `encode_file` writes. This file must not open or write anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dac_rocm.audio.reader import AudioReader, Planar
from dac_rocm.audio.resample import Resampler
from dac_rocm.dac import DAC
from dac_rocm.dacvae import DACVAE
from dac_rocm.encoded import EncodedAudio
from dac_rocm.nn.gaussian import Gaussian
from dac_rocm.pipeline.arrays import array_reader
from dac_rocm.pipeline.encode import encode_whole
from dac_rocm.pipeline.encoding import Encoding, Options, choose_level

CLIP_VALUES = 1 << 22
"""Samples, of all channels and at either rate, of the longest clip: 16 MB, 95 s at 44.1 kHz."""

PADDING = 0.1
"""Most of a batch that may be padding. Source: sgl-project/sglang-omni#574, slower beyond it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Clip:
    """Audio at the model's rate, and what it was.

    Args:
        audio: Samples [C, T], T ≥ 1, at the model's rate.
        facts: What the encoded file says of its source: `sample_rate`, `length`, `source_subtype`.
    """

    audio: Planar
    facts: dict[str, Any]

    @property
    def length(self) -> int:
        """Samples per channel at the model's rate."""
        return int(self.audio.shape[1])


def read_clip(model: DAC | DACVAE, reader: AudioReader) -> Clip | None:
    """Read audio, and close its reader.

    Returns:
        The clip; None where it is too long, of unknown length, or less than one sample.
    """
    with reader:
        rates = model.sample_rate, reader.sample_rate
        longest = (reader.length or 0) * reader.channels * max(rates) / rates[1]
        if reader.length is None or longest > CLIP_VALUES:
            return None
        resampler = Resampler(rates[1], rates[0], reader.channels)
        parts, length = [], 0
        for block in reader.blocks():
            length += block.shape[1]
            parts.append(resampler.push(block))
        audio = np.concatenate([*parts, resampler.flush()], axis=1)
    facts = {
        "sample_rate": reader.sample_rate,
        "length": length,
        "source_subtype": reader.subtype,
    }
    return Clip(audio=audio, facts=facts) if audio.shape[1] else None


def alike(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Divide clips into batches of almost equal lengths.

    Args:
        lengths: Samples of each.

    Yields:
        Indices of each batch, of which at most `PADDING` is padding.
    """
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        padded = (len(batch) + 1) * lengths[i]
        if batch and sum(lengths[j] for j in batch) + lengths[i] < (1 - PADDING) * padded:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def encode_clips(
    model: DAC | DACVAE, clips: Sequence[Clip], options: Options
) -> list[EncodedAudio]:
    """Encode clips in one batch, each as if alone."""
    if len(clips) == 1:
        (clip,) = clips
        alone = encode_whole(model, lambda: array_reader(clip.audio, model.sample_rate), options)
        return [replace(alone, **clip.facts)]
    parts = [_part(model, clip, options) for clip in clips]
    rows = [row for encoding, audio in parts for row in encoding.batch(audio)]
    asked: dict[str, Any] = {"n_codebooks": options.n_codebooks} if isinstance(model, DAC) else {}
    results = iter(model.encode_many(rows, **asked))
    return [
        _encoded(model, encoding, [next(results) for _ in range(encoding.rows)], clip)
        for (encoding, _), clip in zip(parts, clips, strict=True)
    ]


def _part(model: DAC | DACVAE, clip: Clip, options: Options) -> tuple[Encoding, Planar]:
    """Choose the level of a clip, and apply it."""

    def reader() -> AudioReader:
        return array_reader(clip.audio, model.sample_rate)

    leveling = choose_level(model, reader, options)
    return Encoding(model, reader(), leveling, options), leveling.apply(clip.audio)


def _encoded(
    model: DAC | DACVAE, encoding: Encoding, rows: Sequence[Any], clip: Clip
) -> EncodedAudio:
    if isinstance(model, DAC):
        data = encoding._plain(torch.stack(list(rows)))
    else:
        means, stds = (torch.stack([getattr(r, n) for r in rows]) for n in ("mean", "std"))
        data = encoding._plain(Gaussian(means, stds))
    return EncodedAudio(
        data=data,
        channels=encoding.reader.channels,
        model_rate=model.sample_rate,
        hop_length=model.hop_length,
        codebook_size=model.rvq.codebook_size if isinstance(model, DAC) else None,
        level=encoding.leveling.level,
        model=model.stamp,
        **clip.facts,
    )
