"""`load`: from a name or a path to a model of the right class."""

from __future__ import annotations

import os
import warnings

import torch

from dac_rocm.choice import Choice
from dac_rocm.codec import Codec
from dac_rocm.config import RVQConfig
from dac_rocm.dac import DAC
from dac_rocm.dacvae import DACVAE
from dac_rocm.weights import load_checkpoint


def load(
    source: str | os.PathLike[str] = "tiny",
    *,
    subfolder: str | None = None,
    revision: str | None = None,
    token: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    parts: str = "all",
    sample_rate: int | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    snake: str = "auto",
    optimize: bool = True,
) -> DAC | DACVAE:
    """Load a model of the family.

    Args:
        source: Bundled name (`tiny`), preset name (see `list_models`), Hub id (`org/repo`),
            folder, or file.
        subfolder: Folder inside the repo or folder.
        revision: Branch, tag or commit on the Hub.
        token: Hub token; default: the one that `hf auth login` stored.
        cache_dir: Cache of the Hub; default: its own.
        offline: Make no network call.
        parts: `all`, `encoder` or `decoder`; the other half is neither read nor allocated.
        sample_rate: Hz, where the checkpoint does not say.
        device: `auto`, or a torch device.
        dtype: `auto` (float32), `float32`, `float16` or `bfloat16`.
        snake: Snake backend: `auto` or a name from `ops.snake.BACKENDS`.
        optimize: Run the fast network of the device; False the plain one, its weights in memory.

    Returns:
        `DAC` for codebooks, `DACVAE` for a Gaussian bottleneck; in eval mode, weight norm folded.

    Raises:
        SourceError: The source cannot be found or reached.
        WeightsError: The checkpoint cannot be used; its subclasses say why.
        ConfigError: Its config fits no network, or no rate is known.
        BackendError: The device, type or backend is not to be had.

    Warns:
        UserWarning: Something that a user should know of these weights.
    """
    checkpoint = load_checkpoint(
        source,
        subfolder=subfolder,
        revision=revision,
        token=token,
        cache_dir=cache_dir,
        offline=offline,
        parts=parts,
        sample_rate=sample_rate,
    )
    for note in checkpoint.notes:
        warnings.warn(f"{source}: {note}", stacklevel=2)
    kind = DAC if isinstance(checkpoint.config.bottleneck, RVQConfig) else DACVAE
    return kind.from_checkpoint(
        checkpoint, device=device, dtype=dtype, snake=snake, optimize=optimize
    )


def optimize(
    model: Codec, profile: str = "auto", *, push: int | None = None, tf32: bool = False
) -> tuple[Choice, ...]:
    """Make a model fast, in place; a second call changes nothing.

    Args:
        model: DAC or DACVAE.
        profile: `auto` for the fast network of the device, `plain` for torch's own operations.
            Two run every signal in equal pushes, and are never chosen by themselves: `graphs`
            captures CUDA or HIP graphs, for small live pushes; `compile` is `torch.compile`, at
            most three graphs for any set of files.
        push: Frames per push of `graphs` and `compile`, 1 or more; default: two seconds. Streams
            lag by as much.
        tf32: Let float32 products on NVIDIA GPUs round to 10 bits of mantissa: faster, and codes
            then depend on the machine. Without effect elsewhere.

    Returns:
        The choices that were made, with reasons.

    Raises:
        BackendError: The profile is unknown, or does not fit the device or `push`.
        ShapeError: `push` is below 1.

    Warns:
        RuntimeWarning: `compile` for bfloat16 on ROCm, which is obeyed.
    """
    return model.optimize(profile, push=push, tf32=tf32)
