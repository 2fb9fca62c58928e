"""Presets: the published models of the family, as `configs/*.json` list them.

Each file is written by `scripts/make_configs.py`. This room must import neither torch nor numpy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dac_rocm.config import CodecConfig
from dac_rocm.errors import ConfigError, SourceError


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One published model.

    Args:
        name: Such as `dac-44khz`.
        title: In words.
        license: Of the weights, as an SPDX id or a name.
        config: Shape of the codec.
        repo: Hub id; None if the weights are not on the Hub.
        subfolder: Folder inside the repo.
        file: Name of the file of tensors; None: the best one there.
        url: Address of the file, for weights that are not on the Hub.
        bytes: Size of the file at `url`.
        original_file: Name of the same weights in the cache folder of Descript's own tool.
        note: What a user should know, such as the terms of a licence.
    """

    name: str
    title: str
    license: str
    config: CodecConfig
    repo: str | None = None
    subfolder: str | None = None
    file: str | None = None
    url: str | None = None
    bytes: int | None = None
    original_file: str | None = None
    note: str | None = None

    @property
    def kind(self) -> str:
        """`codes` or `latents`."""
        return "latents" if self.config.bitrate is None else "codes"

    @property
    def sample_rate(self) -> int:
        """Hz."""
        return self.config.sample_rate

    @property
    def bitrate(self) -> float | None:
        """Bits per second that the codes really take; None for latents."""
        return self.config.bitrate


def config_folder() -> Path:
    """Return the folder of presets: in the package if it was installed, else beside it.

    Raises:
        SourceError: Neither is there.
    """
    package = Path(__file__).parent
    for folder in (package / "configs", package.parent / "configs"):
        if folder.is_dir():
            return folder
    raise SourceError(
        f"{package / 'configs'}: no such folder found; the presets are expected there. "
        "Install dac_rocm again."
    )


@cache
def list_presets() -> tuple[Preset, ...]:
    """Return every preset, by name.

    Raises:
        SourceError: The folder of presets is missing.
        ConfigError: A preset is damaged.
    """
    return tuple(_read(path) for path in sorted(config_folder().glob("*.json")))


def preset(name: str) -> Preset | None:
    """Return the preset with this name, or None."""
    return next((known for known in list_presets() if known.name == name), None)


def presets_of(repo: str) -> Iterator[Preset]:
    """Yield the presets whose weights are in this repo of the Hub."""
    return (known for known in list_presets() if known.repo == repo)


def _read(path: Path) -> Preset:
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        data["config"] = CodecConfig.from_dict(data["config"])
        for derived in ("kind", "bitrate", "frame_rate", "hop_length"):
            data.pop(derived, None)
        return Preset(**data)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{path}: {error} found; a preset is expected. Install dac_rocm again."
        ) from error
