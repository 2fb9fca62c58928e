"""Checkpoints in several safetensors files, with an index that says which tensor lies where.

Only the files that hold wanted tensors of the codec are opened, or downloaded. The index is
believed in nothing that the files do not confirm.

Source: huggingface_hub's serialization guide, `model.safetensors.index.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dac_rocm.errors import WeightsError, WeightsMismatchError
from dac_rocm.weights.fields import read_json
from dac_rocm.weights.layouts import strip_prefix
from dac_rocm.weights.read import TensorFile, open_tensors

INDEX = ".safetensors.index.json"
"""Suffix of an index."""
MAX_INDEX_BYTES = 1 << 24
"""Largest index; those of the largest published models have 10 MB."""
OTHER_HALF = {"encoder": "decoder.", "decoder": "encoder."}
"""What a half does without."""


def open_checkpoint(path: Path, parts: str = "all") -> TensorFile:
    """Open a checkpoint, of one file or several; no tensor is read yet.

    Args:
        path: The file of tensors, or an index.
        parts: What will be read, `all`, `encoder` or `decoder`; files of an index that hold
            nothing of it are not opened, and need not be there.

    Raises:
        SourceError: A file cannot be opened.
        ConfigError: The index is no JSON object.
        WeightsMismatchError: A file holds other tensors than the index says.
        WeightsError: As `open_tensors`; or the index has no list of files of its folder.
    """
    if not path.name.endswith(INDEX):
        return open_tensors(path)
    listed = _read_index(path)
    wanted = _wanted(listed, parts)
    opened = {file: open_tensors(path.with_name(file)) for file in sorted(set(wanted.values()))}
    for file, shard in opened.items():
        _compare(shard, {name for name in listed if listed[name] == file})
    return TensorFile(
        path=path,
        shapes={name: opened[file].shapes[name] for name, file in wanted.items()},
        dtypes={name: opened[file].dtypes[name] for name, file in wanted.items()},
        get=lambda name: opened[wanted[name]].get(name),
        where=lambda name: opened[wanted[name]].where(name),
    )


def shards_of(path: Path, parts: str = "all") -> list[str]:
    """Name the files beside an index that `open_checkpoint` opens; none for a file of tensors."""
    if not path.name.endswith(INDEX):
        return []
    return sorted(set(_wanted(_read_index(path), parts).values()))


def _read_index(path: Path) -> dict[str, str]:
    """Return name of tensor to name of file."""
    listed = read_json(path, MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(listed, dict) or not listed:
        raise WeightsError(
            f"{path}: no weight_map found; an object of tensor names and files is expected. "
            "Download the index again."
        )
    for file in listed.values():
        if not isinstance(file, str) or not file.endswith(".safetensors") or set(file) & set("/\\"):
            raise WeightsError(
                f"{path}: a file {file!r} found; names of safetensors files in the index's own "
                "folder are expected. Take an undamaged copy of the checkpoint."
            )
    return listed


def _wanted(listed: Mapping[str, str], parts: str) -> dict[str, str]:
    """Keep what is the codec's, and of these `parts`."""
    inside = strip_prefix({name: name for name in listed})
    other = OTHER_HALF.get(parts)
    return {
        stored: listed[stored]
        for name, stored in inside.items()
        if other is None or not name.startswith(other)
    }


def _compare(shard: TensorFile, expected: set[str]) -> None:
    for found, where in (
        (expected - shard.shapes.keys(), "in the index alone"),
        (shard.shapes.keys() - expected, "that the index has elsewhere, or not at all,"),
    ):
        if found:
            names = ", ".join(sorted(found)[:10]) + (" ..." if len(found) > 10 else "")
            raise WeightsMismatchError(
                f"{shard.path}: {len(found)} tensors {where} found ({names}); exactly those that "
                "the index lists are expected. Download file and index again."
            )
