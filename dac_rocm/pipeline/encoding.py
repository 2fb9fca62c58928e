"""One recording on its way through the encoder: rows, level, pushes, frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from einops import rearrange
from numpy.typing import NDArray

from dac_rocm import checks
from dac_rocm.audio.reader import AudioReader, Planar
from dac_rocm.audio.resample import resampled
from dac_rocm.codec import Codec
from dac_rocm.dac import DAC
from dac_rocm.encoded import EncodedAudio
from dac_rocm.errors import ShapeError
from dac_rocm.geometry import descript_frames, frames_for, lost_frames
from dac_rocm.nn.gaussian import Gaussian
from dac_rocm.pipeline.level import Leveling, descript, fixed_gain, normalizing
from dac_rocm.streaming import StreamEncoder

Open = Callable[[], AudioReader]
"""Opens the same audio from its start, each time it is called."""


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
        rate = model.sample_rate
        return rule(resampled(reader.blocks(), reader.sample_rate, rate, channels), rate, channels)


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


class Encoding:
    """One recording on its way through the encoder.

    Args:
        model: DAC or DACVAE with an encoder.
        reader: The audio, which is read once.
        leveling: What to do to the level.
        options: See `Options`.
        to_dac: Give as many frames as Descript's own decoder needs.
    """

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
        total, last = 0, None
        for block in _rechunked(self._resampled(), self.tile):
            if last is not None:
                yield self._plain(stream.push(last))
            total += block.shape[1]
            last = self.batch(self.leveling.apply(block))
        silence = self.batch(np.zeros((self.reader.channels, self._extra(total)), np.float32))
        yield self._plain(stream.flush(silence if last is None else torch.cat((last, silence), -1)))

    def _resampled(self) -> Iterator[Planar]:
        rates = self.reader.sample_rate, self.model.sample_rate
        return resampled(self._counted(), *rates, self.reader.channels)

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

    def batch(self, audio: Planar) -> torch.Tensor:
        """Make samples [C, n] the rows that the model takes [B, A, n]."""
        x = torch.from_numpy(np.ascontiguousarray(audio))
        wanted = self.model.config.audio_channels
        if wanted == 1:
            return rearrange(x, "c t -> c 1 t")
        return rearrange(x.expand(wanted, -1), "c t -> 1 c t")  # mono is duplicated

    def _plain(self, result: Any) -> NDArray[Any]:
        if not isinstance(result, Gaussian):
            codes: NDArray[Any] = result.cpu().numpy().astype(np.uint16)
            return codes
        checks.check_finite("latents", result.mean)
        return result.mean.float().cpu().numpy().astype(self.options.latents_dtype)

    def about(self, data: NDArray[Any]) -> EncodedAudio:
        """Describe the recording, with `data` as its codes or latents."""
        model, reader = self.model, self.reader
        return EncodedAudio(
            data=data,
            sample_rate=reader.sample_rate,
            channels=reader.channels,
            length=self.length,
            model_rate=model.sample_rate,
            hop_length=model.hop_length,
            codebook_size=model.rvq.codebook_size if isinstance(model, DAC) else None,
            level=self.leveling.level,
            model=model.stamp,
            source_subtype=reader.subtype,
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
