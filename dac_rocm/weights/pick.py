"""Which files of a folder make up a checkpoint; names only."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import NamedTuple

CONFIGS = ("config.json", "model_config.json")
"""Names of config files, best first."""
WEIGHTS = (
    "model.safetensors",
    "diffusion_pytorch_model.safetensors",
    "*.safetensors.index.json",
    "weights.pth",
    "weights_*.pth",
    "vae_128d_48k.pth",
    "pytorch_model.bin",
    "checkpoint.pt",
    "model.ckpt",
    "codec.pth",
    "*.safetensors",
    "*.pth",
    "*.ckpt",
)
"""Names of files of tensors, or of an index of several, best first."""
SUBFOLDERS = ("", "audio_vae", "vae")
"""Where they are looked for, if no subfolder is given."""


class Picked(NamedTuple):
    """The files of a checkpoint, relative to the folder.

    Args:
        weights: The file of tensors, or the index of several.
        config: The config file beside it, or None.
    """

    weights: str
    config: str | None

    @property
    def is_whole(self) -> bool:
        """False where a config may be missing: only audiotools' files hold one themselves."""
        return self.config is not None or self.weights.endswith((".pth", ".ckpt"))


def pick(
    files: Iterable[str], subfolder: str | None = None, file: str | None = None
) -> Picked | None:
    """Pick the best file of tensors and the config beside it; None if there is none.

    Args:
        files: Relative to the folder, with `/`.
        subfolder: Where to look; default: here, then `audio_vae`, then `vae`.
        file: Name or pattern of the file of tensors; default: the best one.
    """
    listed = sorted(files)
    folders = SUBFOLDERS if subfolder is None else (subfolder.strip("/"),)
    for folder in folders:
        inside = [PurePosixPath(f).name for f in listed if _folder(f) == folder]
        weights = _first(inside, (file,) if file else WEIGHTS)
        if weights is not None:
            config = _first(inside, CONFIGS)
            return Picked(_joined(folder, weights), config and _joined(folder, config))
    return None


def _folder(file: str) -> str:
    parent = str(PurePosixPath(file).parent)
    return "" if parent == "." else parent


def _first(names: list[str], patterns: Iterable[str]) -> str | None:
    return next((n for pattern in patterns for n in names if fnmatch(n, pattern)), None)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
