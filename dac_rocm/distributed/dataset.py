"""A torch dataset that reads shards, divided over the processes of a training and its loaders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from dac_rocm.distributed.header import facts_of
from dac_rocm.distributed.manifest import shard_files
from dac_rocm.distributed.shards import read_shard
from dac_rocm.errors import ShapeError


class ShardDataset(IterableDataset[dict[str, Any]]):
    """The recordings of a corpus as tensors, each once, whole shards to each reader.

    Args:
        folder: What `tokenize` wrote; shards that are not there yet are passed over.
        rank: Number of this process of a training.
        world_size: How many such processes there are.

    Raises:
        ContainerError: The folder is no corpus.
        ShapeError: `rank` is not below `world_size`.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, rank: int = 0, world_size: int = 1
    ) -> None:
        if not 0 <= rank < world_size:
            raise ShapeError(
                f"rank {rank} of {world_size} found; one from 0 to world_size - 1 is expected. "
                "Give those of the training."
            )
        self.files = shard_files(Path(folder))
        self.rank, self.world_size = rank, world_size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield recordings in the order of the shards.

        Yields:
            `id`; `codes` [rows, N, F] int64, or `latents` [rows, D, F] as stored; `channels`,
            `length` (samples at `sample_rate`), `sample_rate`, `gain_db`, `source_subtype`.
        """
        worker = get_worker_info()
        number, of = (worker.id, worker.num_workers) if worker else (0, 1)
        for path in self.files[self.rank * of + number :: self.world_size * of]:
            for name, encoded in read_shard(path):
                data = encoded.data.astype(np.int64) if encoded.is_codes else encoded.data
                tensor = torch.from_numpy(np.ascontiguousarray(data))
                kind = "codes" if encoded.is_codes else "latents"
                yield {"id": name, kind: tensor, **facts_of(encoded)}
