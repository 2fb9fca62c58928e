"""Tensors that a file holds as memory would: mapped, they take no memory until somebody reads them.

A network that packs its own copies of the weights has no use for the plain ones, but the model
must still be able to give them out. So they are left to the file that they came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dac_rocm.errors import SourceError

SMALLEST = 1 << 16
"""Bytes of a tensor that is worth a map of its own."""

Facts = tuple[int, int, int, int]
"""Of a file: device, inode, bytes, time of the last change in ns."""


def facts_of(path: Path) -> Facts | None:
    """Look at a file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class Stored:
    """Where a tensor lies.

    Args:
        path: The file.
        facts: What the file was when it was opened.
        start: Byte at which the tensor begins.
        dtype: Its type.
        shape: Its shape.
    """

    path: Path
    facts: Facts | None
    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    def map(self) -> Tensor:
        """Map the tensor; who writes to it writes to memory, never to the file."""
        n = self.dtype.itemsize * int(np.prod(self.shape))
        data = np.memmap(self.path, np.uint8, "c", self.start, (n,))
        return torch.from_numpy(data).view(self.dtype).view(self.shape)

    def holds(self, tensor: Tensor) -> bool:
        """Tell whether the file still has this tensor, to the last bit."""
        if tensor.device.type != "cpu" or tensor.nbytes < SMALLEST:
            return False
        if (tensor.dtype, tensor.shape) != (self.dtype, self.shape) or self.start % tensor.itemsize:
            return False
        if self.facts is None or facts_of(self.path) != self.facts:
            return False
        return torch.equal(_bits(tensor), _bits(self.map()))

    def check(self) -> None:
        """Refuse a file that was changed in place; a map outlives one that was replaced or deleted.

        Raises:
            SourceError: Size or time of the file are not those of when it was read.
        """
        now = facts_of(self.path)
        if now is None or self.facts is None or now == self.facts or now[:2] != self.facts[:2]:
            return
        raise SourceError(
            f"{self.path}: a file found that was changed since the model was loaded; the same one "
            "is expected, since the model's plain weights lie in it. Load the model again, or "
            "with optimize=False, which keeps them in memory."
        )


def _bits(x: Tensor) -> Tensor:
    return x.detach().contiguous().flatten().view(torch.uint8)


class Sources:
    """Where the parameters of a model came from, and which of them lie there again.

    Args:
        stored: Place of each tensor by canonical name, as far as it is known.
    """

    def __init__(self, stored: Mapping[str, Stored] | None = None) -> None:
        self._stored = dict(stored or {})
        self._mapped: dict[str, Tensor] = {}

    def give_back(self, name: str, parameter: Tensor) -> Tensor:
        """Leave a parameter to its file, if that holds it too, and return its values to be packed.

        What is returned is a map of its own, which goes when the caller lets it go, with all that
        was read of it.
        """
        stored = self._stored.get(name)
        if stored is None or not stored.holds(parameter):
            return parameter
        self._mapped[name] = parameter.data = stored.map()
        return stored.map()

    def check(self, parameters: Mapping[str, Tensor]) -> None:
        """Refuse parameters that lie in a file which was changed since.

        Raises:
            SourceError: See `Stored.check`.
        """
        for name, mapped in self._mapped.items():
            if parameters[name].data_ptr() == mapped.data_ptr():
                self._stored[name].check()

    def __getstate__(self) -> dict[str, Any]:
        """Copies of a model have memory of their own."""
        return {"_stored": self._stored, "_mapped": {}}


class Packing(Mapping[str, Tensor]):
    """Parameters for a network that packs copies of them one by one; see `Sources.give_back`.

    Args:
        parameters: By canonical name.
        sources: Where they came from.
    """

    def __init__(self, parameters: Mapping[str, Tensor], sources: Sources) -> None:
        self._parameters, self._sources = parameters, sources

    def __getitem__(self, name: str) -> Tensor:
        """Return the values of a parameter."""
        return self._sources.give_back(name, self._parameters[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._parameters)

    def __len__(self) -> int:
        """Count the parameters."""
        return len(self._parameters)
