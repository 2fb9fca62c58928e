"""Decode the files of a run, each as if alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from dac_rocm.audio.writer import create_audio
from dac_rocm.batch.paths import Pair
from dac_rocm.batch.result import Result, attempt
from dac_rocm.batch.run import Watch
from dac_rocm.codec import Codec
from dac_rocm.container import LostBlock
from dac_rocm.errors import ContainerError
from dac_rocm.pipeline.decode import decode_blocks, subtype_of, write_all
from dac_rocm.pipeline.stored import opened


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How to decode files; see `pipeline.decode_file`.

    Args:
        model: DAC or DACVAE with a decoder; several threads use it.
        subtype: Sample format to write; None keeps that of the source.
        any_model: Decode another model's codes.
        salvage: Write what is whole of a damaged file; it is listed as failed all the same.
        overwrite: Replace existing targets.
        skip_existing: Leave files alone whose target exists.
        tile: Frames per push of the engine.
    """

    model: Codec
    subtype: str | None = None
    any_model: bool = False
    salvage: bool = False
    overwrite: bool = False
    skip_existing: bool = False
    tile: int | None = None

    def __call__(self, group: Sequence[Pair], watch: Watch) -> Iterator[Result]:
        """Decode some files; yield what became of each."""
        for job in group:
            yield attempt(job, partial(self._decode, job, watch), skip_existing=self.skip_existing)

    def _decode(self, job: Pair, watch: Watch) -> float:
        lost: list[LostBlock] | None = [] if self.salvage else None
        with opened(job.source, lost) as stored:
            about = stored.about
            blocks = decode_blocks(self.model, stored, any_model=self.any_model, tile=self.tile)
            job.target.parent.mkdir(parents=True, exist_ok=True)
            with create_audio(
                job.target,
                about.sample_rate,
                about.channels,
                subtype=self.subtype or subtype_of(about),
                overwrite=self.overwrite,
            ) as writer:
                write_all(writer, watch.blocks(blocks))
        if writer.clipped:
            warnings.warn(
                f"{job.target}: {writer.clipped} samples beyond full scale were clipped (peak "
                f"{writer.peak:.3f}); --subtype float32 keeps them",
                stacklevel=2,
            )
        if lost:
            raise ContainerError(
                f"{len(lost)} damaged blocks found, which became silence in {job.target}; whole "
                "ones are expected. Get the file again, or keep what was saved."
            )
        return writer.length / about.sample_rate
