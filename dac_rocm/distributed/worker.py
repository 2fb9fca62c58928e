"""Workers that encode: each loads the model once, and then makes shard after shard.

A job is a pure function of its shard and the setup. This file must not know which engine calls it.
"""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dac_rocm.codec import Codec
from dac_rocm.dac import DAC
from dac_rocm.dacvae import DACVAE
from dac_rocm.distributed.encode import MEMORY, encode_items, fix_pushes
from dac_rocm.distributed.header import Header, header_of
from dac_rocm.distributed.items import items_of, without_temporary_paths
from dac_rocm.distributed.manifest import Report
from dac_rocm.distributed.plan import Shard
from dac_rocm.distributed.shards import write_shard
from dac_rocm.distributed.tables import Recording
from dac_rocm.encoded import EncodedAudio
from dac_rocm.errors import ContainerError
from dac_rocm.model import load
from dac_rocm.pipeline.arrays import array_reader
from dac_rocm.pipeline.encode import encode_whole
from dac_rocm.pipeline.encoding import Options
from dac_rocm.runtime.backends import conv_backend, deterministic


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that shards depend on, beside the plan and the model.

    Args:
        format: `parquet` or `webdataset`.
        n_codebooks: Codebooks to use; None for all.
        loudness: Bring codebook models' input to −16 LUFS.
        gain_db: A gain to use instead; None measures.
        latents_dtype: `float32` or `float16`, for continuous models.
        dtype: Type of the weights, as `load` takes it.
        batch: Clips at once; more than one only pays on a GPU.
        threads: Torch's threads of each worker.
        audio_column: Where tables hold the audio.
    """

    format: str = "parquet"
    n_codebooks: int | None = None
    loudness: bool = True
    gain_db: float | None = None
    latents_dtype: str = "float32"
    dtype: str = "auto"
    batch: int = 1
    threads: int = 1
    audio_column: str = "audio"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a worker needs to know; sent to each.

    Args:
        source: The corpus, on a path that every worker sees.
        load: What `dac_rocm.load` takes, but parts and dtype.
        settings: What shards depend on.
        header: What the driver found the model to be; another one is refused.
        readers: Threads that read ahead; they change no byte.
        convolve: See `dac_rocm.conv_backend`.
    """

    source: str
    load: Mapping[str, Any]
    settings: Settings
    header: Header
    readers: int = 1
    convolve: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a worker made of a job.

    Args:
        index: Number of the shard.
        report: What became of its items.
        data: Bytes of the shard; empty where audio was written.
        worker: Who made it: host and process.
        busy: Seconds that it took.
        cpu: CPU seconds of the worker meanwhile, of all its threads.
    """

    index: int
    report: Report
    data: bytes = b""
    worker: str = field(default_factory=lambda: f"{platform.node()}/{os.getpid()}")
    busy: float = 0.0
    cpu: float = 0.0


class Clocks:
    """Times a job, from when it is made."""

    def __init__(self) -> None:
        self._busy, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Return seconds, and CPU seconds of this process, since then."""
        return time.perf_counter() - self._busy, time.process_time() - self._cpu


def ready(load_options: Mapping[str, Any], half: str, *, dtype: str, threads: int) -> DAC | DACVAE:
    """Load a model in such a way that its numbers do not depend on the machine's other work.

    Args:
        load_options: What `dac_rocm.load` takes, but `parts` and `dtype`.
        half: `encoder` or `decoder`.
        dtype: Type of the weights.
        threads: Torch's threads, for the whole process.
    """
    torch.set_num_threads(threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the driver has said what there is to say of the weights
        model = load(**load_options, parts=half, dtype=dtype)
    fix_pushes(model)
    return model


class ShardEncoder:
    """Makes the bytes of shards; a callable that loads its model once.

    Args:
        setup: See `Setup`.

    Raises:
        DacError: The model cannot be loaded, is not that of the driver, or does not take the
            options.
    """

    def __init__(self, setup: Setup) -> None:
        settings = setup.settings
        self.setup = setup
        self.model = ready(setup.load, "encoder", dtype=settings.dtype, threads=settings.threads)
        self.options = options_for(self.model, settings)
        found = header_of(self.model, settings.latents_dtype)
        if found != setup.header:
            raise ContainerError(
                f"model {found.model} found on {platform.node()}; the run has {setup.header.model}."
                " Bring the same weights to every machine, or name a revision."
            )
        warm_up(self.model, self.options)

    def __call__(self, shard: Shard) -> Made:
        """Encode the items of a shard."""
        settings, clocks = self.setup.settings, Clocks()
        items = items_of(Path(self.setup.source), shard.spans, settings.audio_column)
        recordings: list[Recording] = []
        failures: list[tuple[str, str]] = []
        with recorded() as said, self._convolving():
            for name, outcome in encode_items(
                self.model,
                items,
                self.options,
                batch=settings.batch,
                readers=self.setup.readers,
            ):
                if isinstance(outcome, EncodedAudio):
                    recordings.append((name, outcome))
                else:
                    failures.append((name, outcome))
        data = write_shard(recordings, self.setup.header, shard.index, settings.format)
        report = Report(
            items=shard.items,
            seconds=sum(encoded.seconds for _, encoded in recordings),
            failures=failures,
            warnings=said,
        )
        busy, cpu = clocks.read()
        return Made(index=shard.index, data=data, report=report, busy=busy, cpu=cpu)

    @contextmanager
    def _convolving(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(conv_backend(self.setup.convolve))
            if self.model.device.type == "cuda":
                stack.enter_context(deterministic())
            yield


def options_for(model: Codec, settings: Settings) -> Options:
    """Return how to encode, with pushes of a fixed size."""
    return Options(
        n_codebooks=settings.n_codebooks,
        loudness=settings.loudness,
        gain_db=settings.gain_db,
        latents_dtype=settings.latents_dtype,
        max_memory=MEMORY,
    )


def warm_up(model: Codec, options: Options) -> None:
    """Encode a moment of silence, so that wrong options end a run before it begins."""
    silence = np.zeros((1, model.hop_length), np.float32)
    encode_whole(model, partial(array_reader, silence, model.sample_rate), options)


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Collect the warnings of a job, each once, in the list that is given."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        yield said
    texts = (" ".join(without_temporary_paths(str(w.message)).split()) for w in caught)
    said.extend(sorted(set(texts)))
