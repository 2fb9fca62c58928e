"""The folder of a corpus: a manifest that says what it holds, and which shards are whole.

    manifest.json          plan, model and settings; another run must agree
    shard-000000.parquet   or .tar: whole or absent
    shard-000000.json      what became of its items: counts, failures, warnings
    failures.jsonl         the failures of all shards, where there are any

This file must not know how shards are made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dac_rocm.atomic import atomic_write
from dac_rocm.distributed.header import Header
from dac_rocm.distributed.plan import Plan
from dac_rocm.distributed.shards import FORMATS
from dac_rocm.errors import ContainerError, OutputError

NAME = "manifest.json"
FAILURES = "failures.jsonl"
VERSION = 1
COMPARED = ("version", "plan", "items", "shards", "model", "settings")
"""Keys that must agree; the others say where and with what it was made."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What became of the items of a shard.

    Args:
        items: How many the plan has there.
        seconds: Audio that was encoded.
        failures: Pairs of id and reason.
        warnings: What was said while they were read.
    """

    items: int
    seconds: float
    failures: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        """How many items are in the shard."""
        return self.items - len(self.failures)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Read what JSON made of it."""
        failures = [(name, why) for name, why in data["failures"]]
        return cls(**{**data, "failures": failures})


@dataclass(frozen=True)
class Folder:
    """Where a corpus is written.

    Args:
        path: The folder.
        format: `parquet` or `webdataset`.
    """

    path: Path
    format: str

    def shard(self, index: int) -> Path:
        """Name the file of a shard."""
        return self.path / f"shard-{index:06d}{FORMATS[self.format].suffix}"

    def report(self, index: int) -> Report | None:
        """Read what became of a shard; None where it is not whole."""
        path = self.shard(index)
        try:
            text = path.with_suffix(".json").read_text(encoding="utf-8")
            return Report.from_dict(json.loads(text)) if path.exists() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, index: int, data: bytes, report: Report) -> None:
        """Write the report and then the shard, whose name says that both are whole."""
        path = self.shard(index)
        _write_json(path.with_suffix(".json"), asdict(report))
        with atomic_write(path, overwrite=True) as file:
            file.write(data)

    def write_failures(self, failures: Iterable[tuple[str, str]]) -> None:
        """Write the list of all failures, a line of JSON for each; none, and the list goes."""
        path = self.path / FAILURES
        lines = [json.dumps({"id": n, "error": w}, ensure_ascii=False) + "\n" for n, w in failures]
        if not lines:
            path.unlink(missing_ok=True)
            return
        with atomic_write(path, overwrite=True) as file:
            file.write("".join(lines).encode())

    def check(
        self, plan: Plan, header: Header, settings: Mapping[str, Any], notes: Mapping[str, Any]
    ) -> None:
        """Write the manifest, or compare with that of an earlier run.

        Args:
            plan: All shards.
            header: The model.
            settings: All that shards depend on beside plan and model.
            notes: What else is good to know.

        Raises:
            OutputError: The folder holds another corpus; what differs is named.
        """
        manifest = {
            "version": VERSION,
            "plan": plan.digest,
            "items": plan.items,
            "shards": len(plan.shards),
            "model": header.to_dict(),
            "settings": dict(settings),
            **notes,
        }
        manifest = json.loads(json.dumps(manifest))
        if not (self.path / NAME).exists():
            _write_json(self.path / NAME, manifest, overwrite=False)
            return
        found = read_manifest(self.path)
        if other := [text for key in COMPARED for text in _differences(key, found, manifest)]:
            raise OutputError(
                f"shards of another run found in {self.path}: {'; '.join(other)}. The same files, "
                "model and settings are expected. Give them, or another folder."
            )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a corpus.

    Raises:
        ContainerError: There is none, or it cannot be read.
    """
    try:
        data = json.loads((folder / NAME).read_text(encoding="utf-8"))
        if data["version"] == VERSION:
            return dict(data)
        reason = f"its version is {data['version']}, and {VERSION} is known"
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error)
    raise ContainerError(
        f"no manifest that can be read found in {folder} ({reason}); a folder that `tokenize` "
        "wrote is expected. Check the path."
    )


def shard_files(folder: Path) -> list[Path]:
    """List the whole shards of a corpus, in order.

    Raises:
        ContainerError: The folder is no corpus.
    """
    manifest = read_manifest(folder)
    place = Folder(folder, manifest["settings"]["format"])
    return [place.shard(i) for i in range(manifest["shards"]) if place.shard(i).exists()]


def _differences(key: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    old, new = found.get(key), wanted.get(key)
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _differences(name, old, new)
    else:
        yield f"{key} was {old}, and is {new}"


def _write_json(path: Path, data: Mapping[str, Any], *, overwrite: bool = True) -> None:
    with atomic_write(path, overwrite=overwrite) as file:
        file.write(json.dumps(data, indent=1, ensure_ascii=False).encode())
