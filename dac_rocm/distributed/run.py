"""A corpus from its source to its shards, and back: what is left to do, who does it, how it went.

This file must not know what is in a shard, nor who runs jobs.
"""

from __future__ import annotations

import math
import os
import platform
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dac_rocm.batch import claimed
from dac_rocm.distributed.decode import ShardDecoder
from dac_rocm.distributed.engines import Engine, Local
from dac_rocm.distributed.header import header_for
from dac_rocm.distributed.manifest import Folder, Report, read_manifest, shard_files
from dac_rocm.distributed.plan import SHARD_SIZE, Plan, Shard, make_plan
from dac_rocm.distributed.worker import Made, Settings, Setup, ShardEncoder
from dac_rocm.weights import load_checkpoint


@dataclass
class Summary:
    """How far a run is, and how it went.

    Args:
        shards: Of the whole corpus.
        items: Of the whole corpus.
        skipped: Shards that an earlier run made.
        made: Shards that this run made.
        done: Items in the shards that are whole.
        failures: Pairs of id and reason, of the shards that are whole.
        warnings: What was said of items, each once per shard.
        seconds: Audio that this run encoded or decoded.
        elapsed: Seconds of this run, from when workers were asked for.
        cpu: CPU seconds of all workers while at work.
        workers: Worker to seconds of audio and seconds of work.
        stopped: Whether there were more failures than allowed.
    """

    shards: int
    items: int
    skipped: int = 0
    made: int = 0
    done: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    elapsed: float = 0.0
    cpu: float = 0.0
    workers: dict[str, tuple[float, float]] = field(default_factory=dict)
    stopped: bool = False

    def take(self, report: Report) -> None:
        """Count what became of a shard."""
        self.done += report.done
        self.failures += report.failures
        self.warnings += report.warnings

    def take_made(self, made: Made) -> None:
        """Count a shard that this run made."""
        self.take(made.report)
        self.made += 1
        self.seconds += made.report.seconds
        self.cpu += made.cpu
        audio, busy = self.workers.get(made.worker, (0.0, 0.0))
        self.workers[made.worker] = audio + made.report.seconds, busy + made.busy

    @property
    def speed(self) -> float:
        """Hours of audio per hour, of all workers together."""
        return self.seconds / max(self.elapsed, 1e-9)

    @property
    def speeds(self) -> dict[str, float]:
        """Hours of audio per hour of work, of each worker."""
        return {name: audio / max(busy, 1e-9) for name, (audio, busy) in self.workers.items()}


CHECKPOINT_OPTIONS = ("subfolder", "revision", "token", "cache_dir", "offline", "sample_rate")
"""What `load` hands on to `load_checkpoint`."""

Tell = Callable[[Summary], object]
"""Is called after each shard."""


def tokenize(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    load: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    shard_size: int = SHARD_SIZE,
    engine: Engine | None = None,
    readers: int = 1,
    convolve: str = "auto",
    max_failures: int | None = None,
    retry_failed: bool = False,
    tell: Tell | None = None,
) -> Summary:
    """Encode a corpus into shards; those that are whole already are left alone.

    Args:
        source: A folder or file; see `make_plan`.
        target: Folder of the shards; where it lies inside the source, it is passed over.
        load: What `dac_rocm.load` takes, but parts and dtype; default: the bundled `tiny`.
        settings: What the shards depend on beside plan and model.
        shard_size: Items of each shard.
        engine: Who works; default: this process.
        readers: Threads per worker that read ahead; they change no byte.
        convolve: See `dac_rocm.conv_backend`.
        max_failures: Failed items of the corpus beyond which the run stops; None for no limit.
        retry_failed: Make the shards with failures again.
        tell: Is called after each shard.

    Raises:
        DacError: No plan can be made, the model cannot be loaded, or the target holds another
            corpus or cannot be written.
    """
    settings, options = settings or Settings(), dict(load or {})
    plan = make_plan(source, shard_size, without=target)
    checkpoint = load_checkpoint(
        options.get("source", "tiny"),
        parts="encoder",
        **{name: options[name] for name in CHECKPOINT_OPTIONS if name in options},
    )
    header = header_for(checkpoint.config, checkpoint.stamp, settings.latents_dtype)
    setup = Setup(
        source=str(Path(source).absolute()),
        load=options,
        settings=settings,
        header=header,
        readers=readers,
        convolve=convolve,
    )
    for note in checkpoint.notes:
        warnings.warn(f"{options.get('source', 'tiny')}: {note}", stacklevel=2)
    folder = Folder(Path(target), settings.format)
    with claimed(folder.path):
        folder.check(plan, header, asdict(settings), _notes(source, options))
        summary, left = _so_far(folder, plan, retry_failed)
        results = (engine or Local())(partial(ShardEncoder, setup), left)
        keep = partial(_keep, folder)
        _follow(summary, results, keep=keep, max_failures=max_failures, tell=tell)
        folder.write_failures(summary.failures)
    return summary


def detokenize(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    load: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
    tell: Tell | None = None,
    **options: Any,
) -> Summary:
    """Decode the whole shards of a corpus into WAV files, each named by its id.

    Args:
        source: Folder that `tokenize` wrote.
        target: Folder of the audio, which every worker sees.
        load: What `dac_rocm.load` takes, but parts and dtype; default: the weights that the
            manifest names.
        engine: Who works; default: this process.
        tell: Is called after each shard.
        **options: Those of `ShardDecoder`.

    Raises:
        ContainerError: The source is no corpus, or a shard is damaged.
        DacError: The model cannot be loaded, or the target cannot be written.
    """
    files = shard_files(Path(source))
    manifest = read_manifest(Path(source))
    load = {"source": manifest["weights"], **(load or {})}
    folder = str(Path(target).absolute())
    summary = Summary(shards=manifest["shards"], items=manifest["items"])
    jobs = [(i, str(path.absolute())) for i, path in enumerate(files)]
    with claimed(Path(target)):
        results = (engine or Local())(partial(ShardDecoder, load, folder, **options), jobs)
        _follow(summary, results, keep=lambda _: None, max_failures=None, tell=tell)
    return summary


def _notes(source: Any, load: Mapping[str, Any]) -> dict[str, str]:
    """Return what is good to know, but may differ between the runs of a corpus."""
    return {
        "source": str(source),
        "weights": str(load.get("source", "tiny")),
        "made_with": f"torch {torch.__version__} on {platform.machine()}",
    }


def _so_far(folder: Folder, plan: Plan, retry_failed: bool) -> tuple[Summary, list[Shard]]:
    """Return what earlier runs did, and which shards are left to do."""
    summary, left = Summary(shards=len(plan.shards), items=plan.items), []
    for shard in plan.shards:
        report = folder.report(shard.index)
        if report is None or (retry_failed and report.failures):
            left.append(shard)
        else:
            summary.take(report)
            summary.skipped += 1
    return summary, left


def _keep(folder: Folder, made: Made) -> None:
    folder.write(made.index, made.data, made.report)


def _follow(
    summary: Summary,
    results: Generator[Made, None, None],
    *,
    keep: Callable[[Made], object],
    max_failures: int | None,
    tell: Tell | None,
) -> None:
    """Keep and count results as they come, and stop where there are too many failures."""
    started = time.perf_counter()
    limit = math.inf if max_failures is None else max_failures
    with closing(results):
        while len(summary.failures) <= limit and (made := next(results, None)) is not None:
            keep(made)
            summary.take_made(made)
            summary.elapsed = time.perf_counter() - started
            if tell is not None:
                tell(summary)
    summary.stopped = len(summary.failures) > limit
    summary.failures.sort()
    summary.warnings = sorted(set(summary.warnings))
