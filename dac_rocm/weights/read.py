"""Checkpoint files, read lazily and without running anything that they hold.

Names and shapes are known before a tensor is touched, and only wanted tensors are read, each to
memory of its own. This room must not know layouts.
"""

from __future__ import annotations

import json
import math
import pickle
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dac_rocm.errors import SourceError, UnsafeWeightsError, WeightsError
from dac_rocm.weights.fold import Entry, Shape
from dac_rocm.weights.stored import Stored, facts_of

PICKLED = (".pth", ".pt", ".ckpt", ".bin")
"""Suffixes of torch's own files."""
SUFFIXES = (".safetensors", *PICKLED)
"""Suffixes of checkpoints."""
MAX_TENSORS = 100_000
"""Most tensors in a file; the largest model that embeds a codec has a few thousand."""
MAX_VALUES = 1 << 31
"""Most values in a tensor; the largest published one of the family has 34 million."""
MAX_THREADS = 8
"""Most threads that read; memory has no more to give."""
WRAPPERS = ("state_dict", "model", "generator")
"""Keys under which training tools put the tensors."""
EMBEDDED = "dac_rocm"
"""Metadata key under which our safetensors files hold their config.json."""
FLOATS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
"""Types that weights may have, as safetensors spells them."""


@dataclass(frozen=True, eq=False)
class TensorFile:
    """The tensors of one checkpoint file, unread.

    Args:
        path: The file.
        shapes: Name to shape.
        dtypes: Name to type, as safetensors spells it (`F32`).
        get: Reads a stored tensor, to memory of its own.
        kwargs: `metadata.kwargs` of audiotools' container.
        embedded: The config.json that this package puts into its own files.
        where: Tells where a stored tensor lies, if it lies there as in memory.
    """

    path: Path
    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, str]
    get: Callable[[str], Tensor]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    embedded: Mapping[str, Any] = field(default_factory=dict)
    where: Callable[[str], Stored | None] = lambda _: None

    def read(self, name: str, entry: Entry) -> Tensor:
        """Make one tensor, float32, of what is stored.

        Args:
            name: What to call it in errors.
            entry: How it is made.

        Raises:
            WeightsError: It cannot be folded, or holds NaN or infinity.
        """
        try:
            made = entry.make(*map(self.get, entry.sources))
        except WeightsError as error:
            raise type(error)(f"{self.path}: {name}: {error}") from error
        if not _is_finite(made):
            raise WeightsError(
                f"{self.path}: {name}: NaN or infinity found; finite weights are expected. "
                "Take an undamaged copy of the checkpoint."
            )
        return made

    def read_all(self, entries: Mapping[str, Entry]) -> dict[str, Tensor]:
        """Make several tensors, as `read` does, on several threads: one gets memory slowly.

        Args:
            entries: Name to recipe.
        """
        with ThreadPoolExecutor(min(MAX_THREADS, torch.get_num_threads())) as pool:
            return dict(zip(entries, pool.map(self.read, entries, entries.values()), strict=True))


def open_tensors(path: Path) -> TensorFile:
    """Open a checkpoint file; no tensor is read yet.

    Raises:
        SourceError: The file cannot be opened.
        UnsafeWeightsError: The file would have to run code.
        WeightsError: It is no checkpoint, damaged, or over the limits.
    """
    try:
        opened = _open_pickled(path) if path.suffix in PICKLED else _open_safetensors(path)
    except OSError as error:
        raise SourceError(
            f"{path}: {error.strerror or error} found; a readable checkpoint is expected. "
            "Check the path and its permissions."
        ) from error
    _check_limits(opened)
    return opened


def _open_safetensors(path: Path) -> TensorFile:
    file = facts_of(path)
    try:
        with safe_open(path, framework="pt"):  # checks that header and data fit together
            start, header = _header(path)
        metadata = header.pop("__metadata__", {})
        embedded = dict(json.loads(metadata.get(EMBEDDED, "{}")))
    except (SafetensorError, ValueError, TypeError) as error:
        raise WeightsError(
            f"{path}: {error} found; a whole safetensors file is expected. Download it again."
        ) from error

    shapes = {name: tuple(facts["shape"]) for name, facts in header.items()}
    dtypes = {name: facts["dtype"] for name, facts in header.items()}

    def where(name: str) -> Stored:
        first = start + header[name]["data_offsets"][0]
        return Stored(path, file, first, FLOATS[dtypes[name]], shapes[name])

    def get(name: str) -> Tensor:
        return _read_tensor(where(name))

    return TensorFile(path, shapes, dtypes, get, embedded=embedded, where=where)


def _header(path: Path) -> tuple[int, dict[str, Any]]:
    """Return where the data start, and the header of a safetensors file."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return 8 + length, json.loads(file.read(length))


def _read_tensor(stored: Stored) -> Tensor:
    """Read one tensor to memory of its own: faster than a map and a copy, and never two copies."""
    tensor = torch.empty(stored.shape, dtype=stored.dtype)
    with stored.path.open("rb") as file:
        file.seek(stored.start)
        read = file.readinto(tensor.flatten().view(torch.uint8).numpy().data)
    if read != tensor.nbytes:
        raise WeightsError(
            f"{stored.path}: the file ended while it was read; a whole one is expected. "
            "Download it again."
        )
    return tensor


def _open_pickled(path: Path) -> TensorFile:
    zipped = zipfile.is_zipfile(path)
    if zipped:
        _refuse_package(path)
    elif not _starts_like_a_pickle(path):
        raise _damaged(path, "neither a zip archive nor a pickle")
    try:
        data = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except pickle.UnpicklingError as error:
        raise UnsafeWeightsError(
            f"{path}: a pickle found that holds more than tensors and plain values; only those "
            "are loaded, since more would run code. Ask for a safetensors file, or convert this "
            "one where you trust it."
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        raise _damaged(path, _first_line(error)) from error
    tensors, kwargs = _unwrap(path, data)
    spelled = {dtype: name for name, dtype in FLOATS.items()}
    dtypes = {name: spelled.get(t.dtype, str(t.dtype)) for name, t in tensors.items()}
    shapes = {name: tuple(t.shape) for name, t in tensors.items()}
    return TensorFile(path, shapes, dtypes, lambda name: tensors[name].clone(), kwargs)


def _starts_like_a_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) == pickle.PROTO


def _damaged(path: Path, reason: str) -> WeightsError:
    return WeightsError(
        f"{path}: no readable torch file found ({reason}); a whole `.pth` is expected. "
        "Download it again."
    )


def _refuse_package(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any(name.endswith("/.data/extern_modules") for name in names):
        raise UnsafeWeightsError(
            f"{path}: a torch.package archive found, which is a program; a file of tensors is "
            "expected. Use the `weights.pth` that Descript's `save` writes beside it."
        )


def _unwrap(path: Path, data: Any) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    kwargs: Mapping[str, Any] = {}
    while isinstance(data, dict) and not any(isinstance(v, Tensor) for v in data.values()):
        metadata = data.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("kwargs"), dict):
            kwargs = metadata["kwargs"]
        data = next((data[key] for key in WRAPPERS if isinstance(data.get(key), dict)), None)
    if not data:
        raise WeightsError(
            f"{path}: no tensors found; a state dict is expected, bare or under one of "
            f"{', '.join(WRAPPERS)}. Pass the file that holds the weights."
        )
    return {str(name): t for name, t in data.items() if isinstance(t, Tensor)}, kwargs


def _is_finite(made: Tensor) -> bool:
    """Sum before looking at each value: it needs no memory, and numpy's wakes no other threads."""
    total = np.einsum("i->", made.flatten().numpy())  # faster than `sum`, and silent
    return math.isfinite(total) or bool(made.isfinite().all())


def _check_limits(opened: TensorFile) -> None:
    size = opened.path.stat().st_size
    if len(opened.shapes) > MAX_TENSORS:
        raise WeightsError(
            f"{opened.path}: {len(opened.shapes)} tensors found; at most {MAX_TENSORS} are "
            "expected. This is no codec."
        )
    for name, shape in opened.shapes.items():
        if math.prod(shape) > min(MAX_VALUES, size):
            raise WeightsError(
                f"{opened.path}: {name} of shape {list(shape)} found in a file of {size} bytes; "
                f"at most {MAX_VALUES} values, all of them stored, are expected. "
                "Take an undamaged copy of the checkpoint."
            )


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
