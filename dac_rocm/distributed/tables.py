"""Recordings as rows of an Arrow table, and such a table as the bytes of a Parquet file.

The same rows give the same bytes, with one version of pyarrow. This file must not open files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from dac_rocm.distributed.encode import Outcome
from dac_rocm.distributed.extras import require
from dac_rocm.distributed.header import Header, facts_of, header_from_hash, to_encoded
from dac_rocm.encoded import EncodedAudio
from dac_rocm.errors import ContainerError

Recording = tuple[str, EncodedAudio]
"""Id and codes or latents."""

ROW_GROUP = 256
"""Recordings per row group: what a reader has in memory at least."""
METADATA = b"dac_rocm"
"""Key of the header in the metadata of a schema."""
FACTS = {
    "channels": "int32",
    "length": "int64",
    "sample_rate": "int32",
    "gain_db": "float64",
    "source_subtype": "string",
}


def schema_of(header: Header, *, failures: bool = False) -> Any:
    """Return the Arrow schema of a corpus, with a column `error` if asked for."""
    pa = require("pyarrow")
    numbers = {"uint16": pa.uint16(), "float16": pa.float16(), "float32": pa.float32()}
    fields = {
        "id": pa.string(),
        header.kind: pa.list_(numbers[header.dtype]),
        "shape": pa.list_(pa.int32()),
        **{name: pa.type_for_alias(alias) for name, alias in FACTS.items()},
        "model": pa.string(),
        **({"error": pa.string()} if failures else {}),
    }
    text = json.dumps(header.to_dict(), sort_keys=True)
    return pa.schema(list(fields.items()), metadata={METADATA: text.encode()})


def to_table(
    outcomes: Sequence[tuple[str, Outcome]], header: Header, *, failures: bool = False
) -> Any:
    """Make recordings a table; what failed is a row without codes.

    Args:
        outcomes: Id, and what it became.
        header: What they share.
        failures: Have the column `error`; without it, all must be recordings.
    """
    pa = require("pyarrow")
    schema = schema_of(header, failures=failures)
    made = [value if isinstance(value, EncodedAudio) else None for _, value in outcomes]
    facts = [facts_of(e) if e else dict.fromkeys(FACTS) for e in made]
    columns = {
        "id": [name for name, _ in outcomes],
        header.kind: _lists([e.data if e else None for e in made], schema.field(header.kind).type),
        "shape": [list(e.data.shape) if e else None for e in made],
        **{name: [row[name] for row in facts] for name in FACTS},
        "model": [header.model_hash] * len(made),
        "error": [value if isinstance(value, str) else None for _, value in outcomes],
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _lists(arrays: Sequence[Any], kind: Any) -> Any:
    """Make arrays lists of their values, without a Python object for each."""
    pa = require("pyarrow")
    sizes = [0 if array is None else array.size for array in arrays]
    offsets = pa.array([0, *np.cumsum(sizes, dtype=np.int64)], pa.int32())
    flat = [np.ravel(array) for array in arrays if array is not None]
    values = pa.array(np.concatenate(flat) if flat else [], kind.value_type)
    absent = pa.array([array is None for array in arrays], pa.bool_())
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=absent)


def from_table(table: Any) -> Iterator[Recording]:
    """Yield the recordings of a table or a record batch; rows that failed are passed over.

    Args:
        table: From `to_table`; its header may be lost, as Ray Data loses it.

    Raises:
        ContainerError: The table was not made here.
    """
    kind = "codes" if "codes" in table.schema.names else "latents"
    for name in (kind, "id", "shape", *FACTS, "model"):
        if name not in table.schema.names:
            raise ContainerError(
                f"a table without the column {name!r} found; one that `tokenize` wrote is "
                "expected. Keep its columns, or read it with other tools."
            )
    data = table.column(kind)
    dtype = str(np.dtype(data.type.value_type.to_pandas_dtype()))
    header = header_in(table.schema)
    rows = [table.column(name).to_pylist() for name in ("id", "model", "shape", *FACTS)]
    for i, (name, model, shape, *rest) in enumerate(zip(*rows, strict=True)):
        if data[i].is_valid:
            values = data[i].values.to_numpy(zero_copy_only=False).astype(dtype)
            about = header or header_from_hash(model, dtype)
            yield (
                name,
                to_encoded(values.reshape(shape), dict(zip(FACTS, rest, strict=True)), about),
            )


def header_in(schema: Any) -> Header | None:
    """Read the header of a schema; None where it was lost."""
    text = (schema.metadata or {}).get(METADATA)
    return None if text is None else Header.from_dict(json.loads(text))


def to_parquet(recordings: Sequence[Recording], header: Header) -> bytes:
    """Write recordings as a Parquet file.

    Codes lie in a dictionary of their values, and so take about ceil(log2 K) bits each.
    """
    file = BytesIO()
    with require("pyarrow.parquet").ParquetWriter(
        file,
        schema_of(header),
        version="2.6",
        compression="zstd",
        use_dictionary=["model", "source_subtype", "codes.list.element"],
    ) as writer:
        for first in range(0, len(recordings), ROW_GROUP):
            writer.write_table(to_table(recordings[first : first + ROW_GROUP], header))
    return file.getvalue()
