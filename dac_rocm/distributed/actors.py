"""Building blocks for pipelines of your own: Arrow tables in, Arrow tables out, the model kept.

They fit `ray.data.Dataset.map_batches(..., batch_format="pyarrow")`, and need no Ray by themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dac_rocm.distributed.encode import encode_items
from dac_rocm.distributed.extras import require
from dac_rocm.distributed.header import header_of
from dac_rocm.distributed.items import row_item
from dac_rocm.distributed.tables import from_table, to_table
from dac_rocm.distributed.worker import Settings, options_for, ready, recorded, warm_up
from dac_rocm.errors import DacError
from dac_rocm.pipeline.decode import decode_audio


class EncodeActor:
    """Encodes the audio in a column of tables.

    Each recording comes out as it would alone, whatever the batches are; see `DAC.encode_many`.

    Args:
        source: What `dac_rocm.load` takes first.
        audio_column: Holds bytes of audio files, paths, or what `datasets` keeps; see `row_item`.
        id_column: Holds names.
        readers: Threads that read ahead.
        settings: Fields of `Settings`, as `n_codebooks`, `batch`, `threads`.
        load: What else `dac_rocm.load` takes, as `device`.

    Raises:
        DacError: The model cannot be loaded, or does not take the settings.
    """

    def __init__(
        self,
        source: str = "tiny",
        *,
        audio_column: str = "audio",
        id_column: str = "id",
        readers: int = 1,
        settings: dict[str, Any] | None = None,
        load: dict[str, Any] | None = None,
    ) -> None:
        chosen = Settings(**(settings or {}))
        options = {"source": source, **(load or {})}
        self.model = ready(options, "encoder", dtype=chosen.dtype, threads=chosen.threads)
        self.options = options_for(self.model, chosen)
        self.header = header_of(self.model, chosen.latents_dtype)
        self.columns = id_column, audio_column
        self.batch, self.readers = chosen.batch, readers
        warm_up(self.model, self.options)

    def __call__(self, table: Any) -> Any:
        """Encode the rows of a table.

        Returns:
            A table with `id`, `codes` (or `latents`) and `shape` [rows, codebooks, frames], and
            what decoding needs. Where a row failed, `error` says why and the others are null.
        """
        name, audio = self.columns
        rows = table.to_pylist()
        items = (row_item(str(row.get(name, i)), row, audio) for i, row in enumerate(rows))
        with recorded():
            outcomes = list(
                encode_items(
                    self.model, items, self.options, batch=self.batch, readers=self.readers
                )
            )
        return to_table(outcomes, self.header, failures=True)


class DecodeActor:
    """Decodes tables that `EncodeActor` or `tokenize` made.

    Args:
        source: What `dac_rocm.load` takes first.
        threads: Torch's threads.
        dtype: Type of the weights.
        any_model: Decode another model's codes.
        load: What else `dac_rocm.load` takes, as `device`.

    Raises:
        DacError: The model cannot be loaded.
    """

    def __init__(
        self,
        source: str = "tiny",
        *,
        threads: int = 1,
        dtype: str = "auto",
        any_model: bool = False,
        load: dict[str, Any] | None = None,
    ) -> None:
        options = {"source": source, **(load or {})}
        self.model = ready(options, "decoder", dtype=dtype, threads=threads)
        self.any_model = any_model

    def __call__(self, table: Any) -> Any:
        """Decode the rows of a table; those that failed before are passed over.

        Returns:
            A table with `id`, `audio` (samples [channels, length], flat), `channels` and
            `sample_rate`; where a row fails, `error` says why and `audio` is null.
        """
        pa = require("pyarrow")
        columns: dict[str, list[Any]] = {name: [] for name in _decoded(pa).names}
        for name, encoded in from_table(table):
            audio, error = None, None
            try:
                samples, _ = decode_audio(self.model, encoded, any_model=self.any_model)
                audio = np.ravel(samples)
            except DacError as found:
                error = str(found)
            row = (name, audio, encoded.channels, encoded.sample_rate, error)
            for values, value in zip(columns.values(), row, strict=True):
                values.append(value)
        return pa.table(columns, schema=_decoded(pa))


def _decoded(pa: Any) -> Any:
    return pa.schema(
        [
            ("id", pa.string()),
            ("audio", pa.list_(pa.float32())),
            ("channels", pa.int32()),
            ("sample_rate", pa.int32()),
            ("error", pa.string()),
        ]
    )
