"""Shards: a Parquet file or a WebDataset tar with the recordings of one shard, written and read.

The same recordings give the same bytes. This file must not know a model or a plan.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dac_rocm.distributed.extras import require
from dac_rocm.distributed.header import Header, facts_of, to_encoded
from dac_rocm.distributed.tables import Recording, from_table, to_parquet
from dac_rocm.errors import ContainerError, SourceError

ROWS = 16
"""Rows of a Parquet file that are decoded at once."""


class Format(NamedTuple):
    """One kind of shard.

    Args:
        suffix: Of its files.
        write: Makes the bytes of a shard; its number is given for the keys of a tar.
        read: Yields the recordings of a file.
    """

    suffix: str
    write: Callable[[Sequence[Recording], Header, int], bytes]
    read: Callable[[Path], Iterator[Recording]]


def write_shard(recordings: Sequence[Recording], header: Header, index: int, kind: str) -> bytes:
    """Make the bytes of a shard.

    Args:
        recordings: In the order of the plan.
        header: What they share.
        index: Number of the shard.
        kind: `parquet` or `webdataset`.
    """
    return FORMATS[kind].write(recordings, header, index)


def read_shard(path: Path) -> Iterator[Recording]:
    """Yield the recordings of a shard.

    Raises:
        ContainerError: It is no shard, or a damaged one.
        SourceError: It cannot be opened.
    """
    known = {form.suffix: form for form in FORMATS.values()}
    if path.suffix not in known:
        raise ContainerError(f"{path} found; a shard ends with {' or '.join(known)}. Give one.")
    try:
        yield from known[path.suffix].read(path)
    except FileNotFoundError as error:
        raise SourceError(f"no shard found at {path}; one is expected. Check the path.") from error
    except (OSError, ValueError, KeyError, tarfile.TarError) as error:
        if isinstance(error, ContainerError):
            raise
        raise ContainerError(
            f"a shard that cannot be read found, {path} ({error}); a whole one is expected. Remove "
            "it, and tokenize again."
        ) from error


def _write_parquet(recordings: Sequence[Recording], header: Header, _index: int) -> bytes:
    return to_parquet(recordings, header)


def _read_parquet(path: Path) -> Iterator[Recording]:
    with require("pyarrow.parquet").ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS):
            yield from from_table(batch)


def _write_tar(recordings: Sequence[Recording], header: Header, index: int) -> bytes:
    """Write two members per recording: `KEY.codes.npy` (or latents) and `KEY.json`."""
    file = BytesIO()
    common = {**header.to_dict(), "model_hash": header.model_hash}
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for i, (name, encoded) in enumerate(recordings):
            about = {"id": name, **facts_of(encoded), **common}
            array = BytesIO()
            np.lib.format.write_array(array, encoded.data, version=(1, 0), allow_pickle=False)
            _add(tar, f"{index:06d}-{i:06d}.{header.kind}.npy", array.getvalue())
            text = json.dumps(about, sort_keys=True, ensure_ascii=False)
            _add(tar, f"{index:06d}-{i:06d}.json", text.encode())
    return file.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)  # its time is 0, its owner nobody
    member.size = len(data)
    tar.addfile(member, BytesIO(data))


def _read_tar(path: Path) -> Iterator[Recording]:
    _check_end(path)
    with tarfile.open(path) as tar:
        array: Any = None
        for member in tar:
            file = tar.extractfile(member)
            data = file.read() if file else b""
            if member.name.endswith(".npy"):
                array = np.lib.format.read_array(BytesIO(data), allow_pickle=False)
            elif member.name.endswith(".json") and array is not None:
                about = json.loads(data)
                yield about["id"], to_encoded(array, about, Header.from_dict(about))
                array = None


def _check_end(path: Path) -> None:
    """Refuse a tar that was cut, which `tarfile` reads up to there without a word."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 2 * tarfile.BLOCKSIZE))
        data = file.read()
    if data != bytes(2 * tarfile.BLOCKSIZE):
        raise tarfile.ReadError("it does not end as a tar does")


FORMATS = {
    "parquet": Format(".parquet", _write_parquet, _read_parquet),
    "webdataset": Format(".tar", _write_tar, _read_tar),
}
"""Name of `--format` to what it means."""
