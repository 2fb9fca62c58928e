"""Workers that decode: each loads the model once, and then writes the audio of many shards."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dac_rocm.audio.writer import create_audio
from dac_rocm.batch.paths import Pair
from dac_rocm.batch.result import attempt
from dac_rocm.distributed.manifest import Report
from dac_rocm.distributed.shards import read_shard
from dac_rocm.distributed.worker import Clocks, Made, ready, recorded
from dac_rocm.encoded import EncodedAudio
from dac_rocm.errors import OutputError
from dac_rocm.pipeline.decode import decode_blocks, subtype_of, write_all
from dac_rocm.pipeline.stored import InMemory
from dac_rocm.runtime.backends import conv_backend


class ShardDecoder:
    """Writes the recordings of shards as WAV files; a callable that loads its model once.

    Args:
        load_options: What `dac_rocm.load` takes, but parts and dtype.
        target: Folder of the audio.
        dtype: Type of the weights.
        threads: Torch's threads.
        convolve: See `dac_rocm.conv_backend`.
        subtype: Sample format; None keeps that of the source.
        any_model: Decode another model's codes.
        overwrite: Replace existing files.
        skip_existing: Leave them alone.
    """

    def __init__(
        self,
        load_options: Mapping[str, Any],
        target: str,
        *,
        dtype: str = "auto",
        threads: int = 1,
        convolve: str = "auto",
        subtype: str | None = None,
        any_model: bool = False,
        overwrite: bool = False,
        skip_existing: bool = False,
    ) -> None:
        self.model = ready(load_options, "decoder", dtype=dtype, threads=threads)
        self.target, self.subtype, self.any_model = Path(target), subtype, any_model
        self.overwrite, self.skip_existing = overwrite, skip_existing
        self.convolve = convolve

    def __call__(self, job: tuple[int, str]) -> Made:
        """Decode one shard, given its number and its path.

        Raises:
            ContainerError: It is no shard, or a damaged one.
            OutputError: The disk is full or cannot be written at all.
        """
        clocks = Clocks()
        index, path = job
        with recorded() as said, conv_backend(self.convolve):
            results = [
                attempt(
                    Pair(Path(name), target),
                    partial(self._write, name, target, encoded),
                    skip_existing=self.skip_existing,
                )
                for name, encoded in read_shard(Path(path))
                for target in [self.target / wav_name(name)]
            ]
        report = Report(
            items=len(results),
            seconds=sum(result.seconds for result in results),
            failures=[(result.source, result.error) for result in results if result.error],
            warnings=said,
        )
        busy, cpu = clocks.read()
        return Made(index=index, report=report, busy=busy, cpu=cpu)

    def _write(self, name: str, target: Path, encoded: EncodedAudio) -> float:
        check_inside(name)
        blocks = decode_blocks(self.model, InMemory(encoded), any_model=self.any_model)
        target.parent.mkdir(parents=True, exist_ok=True)
        with create_audio(
            target,
            encoded.sample_rate,
            encoded.channels,
            subtype=self.subtype or subtype_of(encoded),
            overwrite=self.overwrite,
        ) as writer:
            write_all(writer, blocks)
        return encoded.seconds


def wav_name(name: str) -> str:
    """Name the file of an id: the same path, with `.wav` added unless it ends so."""
    return name if name.lower().endswith(".wav") else f"{name}.wav"


def check_inside(name: str) -> None:
    """Refuse an id that leads out of the folder of the audio.

    Raises:
        OutputError: It does.
    """
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise OutputError(
            f"an id found that is no path below a folder, {name!r}; one like a/b.wav is expected. "
            "Rename it in the corpus, or use dac_rocm.distributed.DecodeActor."
        )
