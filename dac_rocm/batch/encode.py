"""Encode the files of a run, each as if alone; on a GPU, short ones several at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from dac_rocm.atomic import atomic_write
from dac_rocm.audio.files import open_audio
from dac_rocm.audio.reader import AudioReader
from dac_rocm.batch.clips import Clip, alike, encode_clips, read_clip
from dac_rocm.batch.paths import Pair
from dac_rocm.batch.result import Result, attempt
from dac_rocm.batch.run import Watch
from dac_rocm.container import container_format, write_encoded
from dac_rocm.dac import DAC
from dac_rocm.dacvae import DACVAE
from dac_rocm.encoded import EncodedAudio
from dac_rocm.pipeline.encode import encode_reader, encode_whole
from dac_rocm.pipeline.encoding import Options, choose_level


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How to encode files; see `pipeline.encode_file`.

    Args:
        model: DAC or DACVAE with an encoder; several threads use it.
        options: What `encode_file` takes.
        overwrite: Replace existing targets.
        skip_existing: Leave files alone whose target exists.
    """

    model: DAC | DACVAE
    options: Options = field(default_factory=Options)
    overwrite: bool = False
    skip_existing: bool = False

    def __call__(self, group: Sequence[Pair], watch: Watch) -> Iterator[Result]:
        """Encode some files; those that are short and alike in one batch."""
        clips: list[tuple[Pair, Clip]] = []
        for job in group:
            if len(group) > 1 and (clip := self._clip(job, watch)):
                clips.append((job, clip))
            else:
                yield self._attempt(job, watch)
        for indices in alike([clip.length for _, clip in clips]):
            watch.check()
            yield from self._batch([clips[i] for i in indices], watch)

    def _clip(self, job: Pair, watch: Watch) -> Clip | None:
        """Read a short file; None where there is a reason to look at it alone."""
        if container_format(job.target) == "dac" or (self.skip_existing and job.target.exists()):
            return None
        try:
            return read_clip(self.model, watch.reader(open_audio(job.source)))
        except Exception:  # tried again alone, and listed if it fails there too
            return None

    def _batch(self, clips: Sequence[tuple[Pair, Clip]], watch: Watch) -> Iterator[Result]:
        try:
            batch = encode_clips(self.model, [clip for _, clip in clips], self.options)
        except Exception:  # as out of memory
            for job, _ in clips:
                yield self._attempt(job, watch)
            return
        for (job, _), encoded in zip(clips, batch, strict=True):
            yield attempt(job, partial(self._write, job, encoded), skip_existing=self.skip_existing)

    def _attempt(self, job: Pair, watch: Watch) -> Result:
        return attempt(job, partial(self._encode, job, watch), skip_existing=self.skip_existing)

    def _encode(self, job: Pair, watch: Watch) -> float:
        def open_watched() -> AudioReader:
            return watch.reader(open_audio(job.source))

        if container_format(job.target) == "dac":
            whole = encode_whole(self.model, open_watched, self.options, to_dac=True)
            return self._write(job, whole)
        if clip := read_clip(self.model, open_watched()):
            return self._write(job, encode_clips(self.model, [clip], self.options)[0])
        leveling = choose_level(self.model, open_watched, self.options)
        job.target.parent.mkdir(parents=True, exist_ok=True)
        with (
            open_watched() as reader,
            atomic_write(job.target, overwrite=self.overwrite) as file,
        ):
            _, length = encode_reader(self.model, reader, file, leveling, self.options)
        return length / reader.sample_rate

    def _write(self, job: Pair, encoded: EncodedAudio) -> float:
        job.target.parent.mkdir(parents=True, exist_ok=True)
        write_encoded(job.target, encoded, overwrite=self.overwrite)
        return encoded.seconds
