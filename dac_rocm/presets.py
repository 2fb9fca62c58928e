"""Presets: the published models of the family, as `configs/*.json` list them.

Each file is written by `scripts/make_configs.py`. This room must import neither torch nor numpy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dac_rocm.config import CodecConfig
from dac_rocm.errors import ConfigError, SourceError

ASSETS = Path(__file__).parent / "assets"
"""Where the bundled models are, each as NAME.safetensors and NAME.json."""
RANDOM = "The weights are random: they show how things work, not how they sound."
"""Said of a bundled model until a trained one takes its place."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One published model.

    Args:
        name: Such as `dac-44khz`.
        title: In words.
        license: Of the weights, as an SPDX id or a name; None if only the model card says.
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
    license: str | None
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


def list_bundled() -> tuple[Preset, ...]:
    """Return the models that come with the package, by name.

    Raises:
        ConfigError: A description is damaged.
    """
    return tuple(_bundled(path) for path in sorted(ASSETS.glob("*.json"), key=lambda p: p.stem))


@cache
def list_presets() -> tuple[Preset, ...]:
    """Return every preset, by name.

    Raises:
        SourceError: The folder of presets is missing.
        ConfigError: A preset is damaged.
    """
    return tuple(_read(path) for path in sorted(config_folder().glob("*.json")))


def list_models() -> list[dict[str, Any]]:
    """List the models that `load` knows by name, bundled ones first.

    Returns:
        One dict each: `name`, `kind` (`codes` or `latents`), `sample_rate` in Hz, real `kbps` of
        one channel with all codebooks (None for latents), `license`, `origin` and `note`.
    """
    bundled, published = list_bundled(), list_presets()
    return [_facts(p, "the package") for p in bundled] + [
        _facts(p, p.repo or p.url or "") for p in published
    ]


def _facts(known: Preset, origin: str) -> dict[str, Any]:
    return {
        "name": known.name,
        "kind": known.kind,
        "sample_rate": known.sample_rate,
        "kbps": None if known.bitrate is None else known.bitrate / 1000,
        "license": known.license,
        "origin": origin,
        "note": known.note,
    }


def is_known(name: str) -> bool:
    """Tell whether `load` knows a model by this name."""
    return any(name == known.name for known in (*list_bundled(), *list_presets()))


def preset(name: str) -> Preset | None:
    """Return the preset with this name, or None."""
    return next((known for known in list_presets() if known.name == name), None)


def _read(path: Path) -> Preset:
    data = _fields(path)
    for derived in ("kind", "bitrate", "frame_rate", "hop_length"):
        data.pop(derived, None)
    return Preset(**data)


def _bundled(path: Path) -> Preset:
    data = _fields(path)
    return Preset(
        name=path.stem,
        title=data.get("title") or f"Bundled model {path.stem}",
        license=data.get("license"),
        config=data["config"],
        note=RANDOM if data.get("random_weights") else None,
    )


def _fields(path: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        data["config"] = CodecConfig.from_dict(data["config"])
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{path}: {error} found; a description of a model is expected. Install dac_rocm again."
        ) from error
    return data
