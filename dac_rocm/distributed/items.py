"""The items of a shard, as audio that can be opened: files, table rows, members of a tar.

What cannot be opened is an item all the same, which says why when it is opened. This file must not
know a model.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dac_rocm.audio.files import open_audio
from dac_rocm.audio.reader import AudioReader
from dac_rocm.distributed.extras import require
from dac_rocm.distributed.plan import Span, arrow_batches, audio_members
from dac_rocm.errors import AudioError, OutputError
from dac_rocm.pipeline.arrays import array_reader

ROWS = 64
"""Rows of a table that are in memory at once."""
RATES = ("sample_rate", "sampling_rate")
"""Columns or fields that may hold the rate of samples in a table."""

_FOLDER = "dac_rocm-item-"


@dataclass(frozen=True)
class Item:
    """One recording of a corpus.

    Args:
        id: Its name in the shards.
        open: Opens it from its start, each time it is called; or raises what is wrong with it.
    """

    id: str
    open: Callable[[], AudioReader]


def items_of(root: Path, spans: Sequence[Span], column: str) -> Iterator[Item]:
    """Yield the items of a shard: as many as the plan says, whatever the files hold by now.

    Args:
        root: The source.
        spans: Which items.
        column: Where tables hold the audio.
    """
    for span in spans:
        made = span.start
        error: Exception = AudioError(
            f"fewer items found in {span.path or root} than when the plan was made; the same file "
            "is expected. Plan anew, into another folder."
        )
        try:
            for item in _items(root / span.path, span, column):
                yield item
                made += 1
        except Exception as found:  # a broken table: its items are listed one by one
            error = found
        for i in range(made, span.stop):
            yield Item(f"{_label(root / span.path, span)}/{i}", _raiser(error))


def _items(path: Path, span: Span, column: str) -> Iterator[Item]:
    label, suffix = _label(path, span), path.suffix.lower()
    if suffix == ".tar":
        yield from _members(path, span, label)
    elif suffix in (".parquet", ".arrow"):
        batches = _parquet(path, span) if suffix == ".parquet" else _arrow(path, span)
        numbers = iter(range(span.start, span.stop))
        for rows in batches:
            for row in rows:
                name = row.get("id")
                number = next(numbers)
                yield row_item(f"{label}/{number}" if name is None else str(name), row, column)
    else:
        yield Item(label, lambda: open_audio(path))


def _label(path: Path, span: Span) -> str:
    return span.path or path.name


def _raiser(error: Exception) -> Callable[[], AudioReader]:
    def fail() -> AudioReader:
        raise error

    return fail


def _members(path: Path, span: Span, label: str) -> Iterator[Item]:
    members = audio_members(path)[span.start : span.stop]
    with tarfile.open(path) as tar:
        for member in members:
            file = tar.extractfile(member)
            assert file is not None  # only files are listed
            yield _bytes_item(f"{label}/{member.name}", file.read())


def _parquet(path: Path, span: Span) -> Iterator[list[dict[str, Any]]]:
    """Yield rows of a Parquet file, of the row groups that have some of the span."""
    with require("pyarrow.parquet").ParquetFile(path) as file:
        first = 0
        for group in range(file.num_row_groups):
            stop = first + file.metadata.row_group(group).num_rows
            if first < span.stop and span.start < stop:
                batches = file.iter_batches(ROWS, row_groups=[group])
                yield from _slices(batches, span, first)
            first = stop


def _arrow(path: Path, span: Span) -> Iterator[list[dict[str, Any]]]:
    yield from _slices(arrow_batches(path), span, 0)


def _slices(batches: Iterable[Any], span: Span, first: int) -> Iterator[list[dict[str, Any]]]:
    """Yield what lies in the span, given batches whose first row has number `first`."""
    for batch in batches:
        stop = first + batch.num_rows
        low, high = max(first, span.start), min(stop, span.stop)
        for start in range(low, high, ROWS):
            yield batch.slice(start - first, min(ROWS, high - start)).to_pylist()
        first = stop


def row_item(name: str, row: Mapping[str, Any], column: str) -> Item:
    """Make a row of a table an item.

    Args:
        name: Id of the item.
        row: Its `column` holds the bytes of an audio file; or a struct with `bytes` or `path`, or
            with `array` and a rate, as `datasets` has it; or samples [T] or [C, T], with a rate in
            another column.
        column: Name of that column.
    """
    value = row.get(column)
    fields = value if isinstance(value, Mapping) else {**row, "array": value}
    if isinstance(value, bytes):
        return _bytes_item(name, value)
    if isinstance(value, str):
        return Item(name, lambda: open_audio(value))
    if isinstance(value, Mapping) and value.get("bytes") is not None:
        return _bytes_item(name, value["bytes"])
    if isinstance(value, Mapping) and value.get("path") is not None:
        return Item(name, lambda: open_audio(value["path"]))
    rate = next((fields[key] for key in RATES if fields.get(key) is not None), None)
    if fields.get("array") is None or rate is None:
        return Item(name, _raiser(_no_audio(name, row, column)))
    return Item(name, lambda: array_reader(np.asarray(fields["array"], np.float32), int(rate)))


def _no_audio(name: str, row: Mapping[str, Any], column: str) -> AudioError:
    return AudioError(
        f"no audio found in column {column!r} of {name}, which has {', '.join(row)}; bytes of a "
        "file, or samples with a rate are expected. Say which column (--audio-column)."
    )


def _bytes_item(name: str, data: bytes) -> Item:
    return Item(name, lambda: open_bytes(name, data))


def open_bytes(name: str, data: bytes) -> AudioReader:
    """Open an audio file that is in memory.

    libsndfile gets a temporary file, so that all that is checked of files is checked of it.

    Args:
        name: What messages call it.
        data: The whole file.

    Raises:
        AudioError: As `open_audio`.
        OutputError: The temporary file cannot be written.
    """
    safe = re.sub(r"[^\w.#-]", "_", name)[-60:].lstrip(".") or "item"
    with tempfile.TemporaryDirectory(prefix=_FOLDER, ignore_cleanup_errors=True) as folder:
        path = Path(folder, safe)
        try:
            path.write_bytes(data)
        except OSError as error:
            raise OutputError(
                f"a temporary file that cannot be written found ({error}); room for one recording "
                "is expected. Free some, or set TMPDIR."
            ) from error
        return replace(open_audio(path), name=name)


def without_temporary_paths(text: str) -> str:
    """Take the folder of `open_bytes` out of a message, which then is the same in every run."""
    return re.sub(rf"\S*{_FOLDER}[^/\\]*[/\\]", "", text)
