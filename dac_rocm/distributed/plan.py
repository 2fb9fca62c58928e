"""Which items a corpus has, and in which shard each goes: a function of the source alone.

A source is a folder (or a file) with audio files, Parquet files, WebDataset tars and saved Hugging
Face `datasets`, in any mixture. Nothing here opens audio, loads a model or writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dac_rocm.batch.paths import AUDIO_SUFFIXES, find
from dac_rocm.distributed.extras import require
from dac_rocm.errors import ShapeError, SourceError

SHARD_SIZE = 1000
"""Items of a shard: of 10 s each 2.8 hours of audio, 10 MB of codes at 8 kbps."""

TABLE_SUFFIXES = frozenset({".parquet", ".tar", ".arrow"})
"""Suffixes of files that hold many items."""


class Span(NamedTuple):
    """Items of one file.

    Args:
        path: Below the source, with forward slashes; empty where the source is that file.
        start: First item; an audio file has one.
        stop: The item after the last one.
    """

    path: str
    start: int
    stop: int


@dataclass(frozen=True)
class Shard:
    """What one job works on.

    Args:
        index: Number of the shard, from 0.
        spans: Its items, in order.
    """

    index: int
    spans: tuple[Span, ...]

    @property
    def items(self) -> int:
        """How many items it has."""
        return sum(span.stop - span.start for span in self.spans)


@dataclass(frozen=True)
class Plan:
    """All shards of a corpus.

    Args:
        shards: In order.
        digest: Changes when a file comes, goes, is renamed or changes its size, and with the size
            of shards.
    """

    shards: tuple[Shard, ...]
    digest: str

    @property
    def items(self) -> int:
        """How many items the corpus has."""
        return sum(shard.items for shard in self.shards)


def make_plan(
    source: str | os.PathLike[str],
    shard_size: int = SHARD_SIZE,
    *,
    without: str | os.PathLike[str] | None = None,
) -> Plan:
    """List the items of a source, and divide them into shards.

    Args:
        source: A folder, or one file.
        shard_size: Items of each shard but the last.
        without: A folder to pass over, as that of the shards.

    Raises:
        SourceError: There is no such source, it has no items, or a folder cannot be listed.
        ShapeError: `shard_size` is below 1.
        BackendError: It has Parquet or Arrow files, and pyarrow is not installed.
    """
    if shard_size < 1:
        raise ShapeError(f"shards of {shard_size} items found; at least 1 is expected. Ask for it.")
    root = Path(source)
    files = list(_files(root, Path(without).resolve() if without else None))
    spans = [Span(path, 0, _count(root / path)) for path in files]
    shards = tuple(Shard(i, part) for i, part in enumerate(_cut(spans, shard_size)))
    if not shards:
        raise SourceError(
            f"no items found in {source}; audio files, .parquet, .tar or saved datasets are "
            "expected. Check the path."
        )
    sizes = [(*span, _size(root / span.path)) for span in spans]
    digest = hashlib.sha256(json.dumps([shard_size, sizes]).encode()).hexdigest()
    return Plan(shards, digest[:16])


def is_audio(name: str) -> bool:
    """Tell by its suffix whether a file or member is audio."""
    return Path(name).suffix.lower() in AUDIO_SUFFIXES


def _files(root: Path, without: Path | None) -> Iterator[str]:
    found = find([root], AUDIO_SUFFIXES | TABLE_SUFFIXES)
    for folder, why in found.unreadable:
        raise SourceError(
            f"a folder found that cannot be listed, {folder} ({why}); a plan needs every item. "
            "Mend its permissions, or move it away."
        )
    if without is not None and not without.is_relative_to(root.resolve()):
        without = None  # then no file needs to be looked at for it
    for path, relative in found.sources:
        if without is not None and path.resolve().is_relative_to(without):
            continue
        if path.suffix.lower() != ".arrow" or _is_listed(path):
            yield relative.as_posix() if root.is_dir() else ""


def _is_listed(path: Path) -> bool:
    """Tell whether an Arrow file is data: beside it, `datasets` keeps caches of other tables."""
    try:
        state = json.loads(path.with_name("state.json").read_text(encoding="utf-8"))
        return path.name in {entry["filename"] for entry in state["_data_files"]}
    except FileNotFoundError:
        return True
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"a state.json beside {path} found that cannot be read ({error}); that of a saved "
            "dataset is expected. Save the dataset again, or remove the file."
        ) from error


def _count(path: Path) -> int:
    """Count the items of a file; one that cannot be read is one item, which will fail by name."""
    suffix = path.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        return 1
    try:
        if suffix == ".tar":
            return len(audio_members(path))
        if suffix == ".parquet":
            return int(require("pyarrow.parquet").read_metadata(path).num_rows)
        return sum(batch.num_rows for batch in arrow_batches(path))
    except (OSError, ValueError, tarfile.TarError):
        return 1


def audio_members(path: Path) -> list[tarfile.TarInfo]:
    """List the audio of a tar, in its order; only headers are read."""
    with tarfile.open(path) as tar:
        return [member for member in tar if member.isfile() and is_audio(member.name)]


def arrow_batches(path: Path) -> Iterator[Any]:
    """Yield the record batches of an Arrow stream file, which `datasets` writes."""
    pyarrow = require("pyarrow")
    with pyarrow.memory_map(str(path)) as file, pyarrow.ipc.open_stream(file) as reader:
        yield from reader


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # a broken link, which is listed when its turn comes
        return -1


def _cut(spans: list[Span], size: int) -> Iterator[tuple[Span, ...]]:
    """Divide spans into runs of `size` items, the last one shorter."""
    held: list[Span] = []
    room = size
    for path, first, stop in spans:
        start = first
        while start < stop:
            end = min(stop, start + room)
            held.append(Span(path, start, end))
            room -= end - start
            start = end
            if not room:
                yield tuple(held)
                held, room = [], size
    if held:
        yield tuple(held)
