"""The report: one HTML file that holds everything, works offline, and is harmless.

The template, its style and its script lie beside this file. No name of a file or model enters the
page unescaped, only the one script may run (by its hash), and the page may load nothing.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from dac_rocm import __version__
from dac_rocm.atomic import atomic_write
from dac_rocm.codec import Codec
from dac_rocm.report import sections
from dac_rocm.report.clips import choose_settings, measure_clip
from dac_rocm.report.facts import model_facts
from dac_rocm.report.markup import facts
from dac_rocm.roundtrip import means

LARGE_BYTES = 50_000_000
"""Pages above this are hard to mail and slow to open."""


def write_report(
    inputs: Sequence[str | os.PathLike[str]],
    models: Mapping[str, Codec],
    target: str | os.PathLike[str],
    *,
    n_codebooks: Sequence[int] = (),
    machine: Mapping[str, str] | None = None,
    overwrite: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Encode and decode files with several settings, and write a page to see and hear it.

    Args:
        inputs: Audio files, one at least.
        models: Whole models by name.
        target: The `.html` file to write.
        n_codebooks: Numbers of codebooks to try; none means all of each model.
        machine: Facts of the machine to tell, by name.
        overwrite: Replace an existing file.
        progress: Is told what is done next.

    Returns:
        Every number that the page shows, as plain data for JSON.

    Raises:
        SourceError, AudioError: An input cannot be used.
        ShapeError: A model does not take so many channels, or no model has so many codebooks.
        OutputError: The target exists, or cannot be written.

    Warns:
        UserWarning: The page is above 50 MB.
    """
    settings = choose_settings(models, n_codebooks)
    data: dict[str, Any] = {
        "report": str(target),
        "dac_rocm": __version__,
        "made": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "inputs": [],
        "rows": [],
        "models": [model_facts(name, model) for name, model in models.items()],
        "machine": dict(machine or {}),
    }
    clips, names = [], []
    with atomic_write(target, overwrite=overwrite) as file:
        for index, path in enumerate(inputs, 1):
            clip = measure_clip(path, models, settings, progress)
            data["inputs"].append(clip.facts)
            data["rows"] += [version.row for version in clip.versions[1:]]
            names.append(clip.name)
            clips.append(sections.clip_section(index, clip))
        data["means"] = means(data["rows"], ("model", "n_codebooks"))
        for part in _page(data, names, clips):
            file.write(part.encode())
        data["bytes"] = file.tell()
    _warn_large(data)
    return data


def _warn_large(data: Mapping[str, Any]) -> None:
    if data["bytes"] > LARGE_BYTES:
        warnings.warn(
            f"{data['report']} has {data['bytes'] / 1e6:.0f} MB: browsers open it slowly, and mail "
            "may refuse it. Shorter clips or fewer settings make it smaller.",
            stacklevel=3,
        )


def _page(data: Mapping[str, Any], names: Sequence[str], clips: Sequence[str]) -> Iterator[str]:
    """Yield the page: the template, each of its slots filled; what fills them is not read again."""
    script = _resource("page.js")
    slots = {
        "hash": [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()],
        "style": [_resource("page.css")],
        "script": [script],
        "title": [escape(", ".join(names[: sections.FEW]) + " …" * (len(names) > sections.FEW))],
        "about": [sections.about(data)],
        "contents": [sections.contents(names)],
        "summary": [sections.summary(data)],
        "clips": clips,
        "models": [sections.models_section(data)],
        "machine": [facts({k: v for k, v in data["machine"].items() if v != "none"})],
    }
    for i, part in enumerate(re.split(r"<!-- (\w+) -->", _resource("page.html"))):
        yield from slots[part] if i % 2 else [part]


def _resource(name: str) -> str:
    return files("dac_rocm.report").joinpath(name).read_text(encoding="utf-8")
