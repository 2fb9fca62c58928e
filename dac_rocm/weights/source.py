"""Where a checkpoint is: a bundled name, a preset, a folder, a file, or a repo on the Hub.

This room gives paths and what stands beside the tensors; it must not open tensors.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dac_rocm.errors import ConfigError, SourceError
from dac_rocm.presets import ASSETS, RANDOM, Preset, list_bundled, list_presets, preset
from dac_rocm.weights.download import fetch_url, original_path
from dac_rocm.weights.fields import read_json
from dac_rocm.weights.hub import Request, fetch
from dac_rocm.weights.layouts.base import RATE_NAMES
from dac_rocm.weights.pick import pick
from dac_rocm.weights.read import SUFFIXES
from dac_rocm.weights.shards import INDEX

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(/[\w./-]+)?")
"""`org/repo`, and perhaps a path inside it."""


@dataclass(frozen=True)
class Located:
    """A checkpoint that was found.

    Args:
        weights: The file of tensors, or the index of several.
        fields: What the config file beside it says; empty if there is none.
        name: Name of the model.
        license: Of the weights, if known.
        notes: What the user should be told.
    """

    weights: Path
    fields: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    license: str | None = None
    notes: tuple[str, ...] = ()


def locate(source: str | os.PathLike[str], wanted: Request) -> Located:
    """Find a checkpoint.

    Args:
        source: As `load_checkpoint` takes it.
        wanted: The other arguments; `repo` is filled in here.

    Raises:
        SourceError: There is none, or it cannot be reached.
        ConfigError: Its config file is no JSON object.
    """
    if isinstance(source, str):
        if (ASSETS / f"{source}.safetensors").is_file():
            return _beside(ASSETS / f"{source}.safetensors", ASSETS / f"{source}.json", source)
        known = preset(source)
        if known is not None:
            return _from_preset(known, wanted)
    path = Path(source)
    if path.is_file():
        return _in_folder(path.parent, Request("", "", path.name), path.stem)
    if path.is_dir():
        return _in_folder(path, wanted, path.resolve().name)
    if isinstance(source, str) and HUB_ID.fullmatch(source) and source[0] != ".":
        return _from_id(source, wanted)
    raise SourceError(_not_found(str(source)))


def _from_preset(known: Preset, wanted: Request) -> Located:
    kept = original_path(known.original_file) if known.original_file else None
    if kept and kept.is_file() and wanted.revision is None:
        return _known(_beside(kept, None, known.name), known)
    if known.repo is not None:
        return _from_hub(known.repo, wanted, known)
    if known.url is None or known.bytes is None or kept is None:
        raise ConfigError(f"{known.name}: a preset without an address found. Install again.")
    target = Path(wanted.cache_dir) / kept.name if wanted.cache_dir else kept
    if wanted.offline and not target.is_file():
        raise SourceError(
            f"{target}: no such file found; offline, it must be there. Download {known.url} and "
            "pass its path."
        )
    return _known(_beside(fetch_url(known.url, known.bytes, target), None, known.name), known)


def _from_id(source: str, wanted: Request) -> Located:
    """Take `org/repo`, `org/repo/subfolder` or `org/repo/subfolder/file`."""
    org, repo, *inside = source.split("/")
    if inside and inside[-1].endswith((*SUFFIXES, INDEX)):
        wanted = wanted._replace(file=inside.pop(), subfolder="")
    if inside:
        wanted = wanted._replace(subfolder="/".join(inside))
    return _from_hub(f"{org}/{repo}", wanted, _preset_of(f"{org}/{repo}", wanted))


def _preset_of(repo: str, wanted: Request) -> Preset | None:
    for known in list_presets():
        if (
            known.repo == repo
            and wanted.subfolder in (None, known.subfolder or "")
            and wanted.file in (None, known.file)
        ):
            return known
    return None


def _from_hub(repo: str, wanted: Request, known: Preset | None) -> Located:
    if known is not None:
        wanted = wanted._replace(subfolder=known.subfolder, file=known.file)
    fetched = fetch(wanted._replace(repo=repo))
    folder, picked = fetched.folder, fetched.picked
    config = folder / picked.config if picked.config else None
    found = _beside(folder / picked.weights, config, known.name if known else repo)
    found = replace(found, notes=fetched.notes + found.notes)
    return found if known is None else _known(found, known)


def _known(found: Located, known: Preset) -> Located:
    """Add what the preset knows and the files may not say."""
    fields = dict(found.fields)
    if not any(name in fields for name in RATE_NAMES):
        fields["sample_rate"] = known.sample_rate
    notes = (*found.notes, known.note) if known.note else found.notes
    return replace(found, fields=fields, license=found.license or known.license, notes=notes)


def _in_folder(folder: Path, wanted: Request, name: str) -> Located:
    depth = (wanted.subfolder or "").count("/") + 2
    files = [
        path.relative_to(folder).as_posix()
        for level in range(depth)
        for path in folder.glob("*/" * level + "*")
        if path.is_file()
    ]
    picked = pick(files, wanted.subfolder, wanted.file)
    if picked is None:
        raise SourceError(
            f"{folder}: no weights found; a file such as model.safetensors or weights.pth is "
            "expected, here or in audio_vae or vae. Pass the file itself."
        )
    return _beside(folder / picked.weights, folder / picked.config if picked.config else None, name)


def _beside(weights: Path, config: Path | None, name: str) -> Located:
    fields = read_json(config) if config else {}
    license_ = fields.get("license")
    return Located(
        weights=weights,
        fields=fields,
        name=str(fields.get("name") or name),
        license=str(license_) if license_ else None,
        notes=(RANDOM,) if fields.get("random_weights") else (),
    )


def _not_found(source: str) -> str:
    names = [known.name for known in (*list_bundled(), *list_presets())]
    near = difflib.get_close_matches(source, names, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return (
        f"{source!r}: no such model, folder or file found; a name that `dac-rocm models` lists, a "
        f"path, or a Hub id `org/repo` is expected.{hint}"
    )
