"""Pretrained: how a model comes from a checkpoint and goes back into one."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import torch
from torch import nn

from dac_rocm.choice import Choice
from dac_rocm.config import CodecConfig
from dac_rocm.encoded import ModelStamp
from dac_rocm.runtime.backends import prepare_miopen
from dac_rocm.runtime.select import DTYPES, choose_device, choose_dtype
from dac_rocm.weights import (
    Checkpoint,
    Packing,
    Sources,
    load_checkpoint,
    push_checkpoint,
    save_checkpoint,
)

Model = TypeVar("Model", bound="Pretrained")


class Pretrained(nn.Module):
    """A model with a config and a stamp, which checkpoints know how to hold."""

    config: CodecConfig
    parts: str
    notes: tuple[str, ...]
    stamp: ModelStamp
    licence: str | None
    choices: tuple[Choice, ...]
    profile: str

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sources = Sources()

    @classmethod
    def from_checkpoint(
        cls: type[Model],
        checkpoint: Checkpoint,
        *,
        device: str | torch.device = "auto",
        dtype: str | torch.dtype = "auto",
        snake: str = "auto",
        optimize: bool = True,
    ) -> Model:
        """Make a model of a checkpoint, without copying its tensors where nothing has to change.

        Args:
            checkpoint: From `weights.load_checkpoint`.
            device: See `dac_rocm.load`.
            dtype: See `dac_rocm.load`.
            snake: See `dac_rocm.load`.
            optimize: See `dac_rocm.load`.

        Raises:
            ConfigError: The checkpoint is of the other class.
            BackendError: The device, type or backend is not to be had.
        """
        place = choose_device(device)
        chosen = place, choose_dtype(dtype, place.name)
        options: dict[str, Any] = {
            "parts": "all" if len(checkpoint.parts) == 2 else checkpoint.parts[0],
            "stamp": checkpoint.stamp,
            "snake": snake,
            "notes": checkpoint.notes,
            "licence": checkpoint.license,
        }
        with torch.device("meta"):
            model = cls(checkpoint.config, **options)
        model.load_state_dict(checkpoint.tensors, strict=True, assign=True)
        model.requires_grad_(False)
        model._sources = Sources(checkpoint.stored)
        prepare_miopen(place.name)
        model.to(torch.device(chosen[0].name), DTYPES[chosen[1].name])
        model.choices = chosen
        model.profile = "auto" if optimize else "plain"
        return model.eval()

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the canonical tensors, as `torch.nn.Module` does.

        Raises:
            SourceError: They lie in a file that was changed since the model was loaded.
        """
        self._check_sources()
        return super().state_dict(*args, **kwargs)

    def _to_pack(self) -> Packing:
        """Give out the parameters one by one; those that their files hold are left to these."""
        return Packing(dict(self.named_parameters()), self._sources)

    def _check_sources(self) -> None:
        self._sources.check(dict(self.named_parameters()))

    @classmethod
    def from_pretrained(
        cls: type[Model],
        source: str | os.PathLike[str],
        *,
        device: str | torch.device = "auto",
        dtype: str | torch.dtype = "auto",
        snake: str = "auto",
        optimize: bool = True,
        **where: Any,
    ) -> Model:
        """Load a checkpoint of this class.

        Args:
            source: See `dac_rocm.load`, which returns the right class by itself.
            device: See `dac_rocm.load`.
            dtype: See `dac_rocm.load`.
            snake: See `dac_rocm.load`.
            optimize: See `dac_rocm.load`.
            **where: `subfolder`, `revision`, `token`, `cache_dir`, `offline`, `parts`,
                `sample_rate`; see `dac_rocm.load`.

        Raises:
            ConfigError: The checkpoint is of the other class.
        """
        checkpoint = load_checkpoint(source, **where)
        return cls.from_checkpoint(
            checkpoint, device=device, dtype=dtype, snake=snake, optimize=optimize
        )

    def save_pretrained(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors and a model card stub, which `load` reads back.

        Args:
            folder: Made if it is not there.
            overwrite: Replace files that are there.

        Raises:
            OutputError: A file is there already, or the folder cannot be written.
        """
        held = self.to_checkpoint()
        save_checkpoint(
            folder,
            held.config,
            held.tensors,
            held.stamp,
            license=held.license,
            overwrite=overwrite,
        )

    def push_to_hub(self, repo_id: str, *, token: str | None = None, private: bool = False) -> str:
        """Create a repository on the Hugging Face Hub, if it is not there, and commit the model.

        Args:
            repo_id: `organisation/name`.
            token: Default: the one that `hf auth login` stored.
            private: Make a new repository private.

        Returns:
            Address of the commit.

        Raises:
            SourceError: The Hub cannot be reached, or refuses.
        """
        return push_checkpoint(self.to_checkpoint(), repo_id, token=token, private=private)

    def to_checkpoint(self) -> Checkpoint:
        """Return what `from_checkpoint` takes, sharing the model's tensors."""
        halves = ("encoder", "decoder") if self.parts == "all" else (self.parts,)
        return Checkpoint(
            config=self.config,
            tensors=self.state_dict(),
            stamp=self.stamp,
            parts=halves,
            layout="canonical",
            license=self.licence,
            notes=self.notes,
        )
