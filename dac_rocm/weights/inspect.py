"""What a checkpoint is, without reading its tensors."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from dac_rocm.config import CodecConfig
from dac_rocm.weights.fold import spelling_of
from dac_rocm.weights.hub import Request
from dac_rocm.weights.plan import names_for, plan_of
from dac_rocm.weights.shards import open_checkpoint
from dac_rocm.weights.source import locate


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a checkpoint is.

    Args:
        name: Of the model.
        path: The file of tensors.
        layout: Its set of names.
        config: Shape of the codec.
        parts: The halves that are there.
        tensors: Stored tensors, of whatever use.
        parameters: Values of the codec, weight norm folded.
        weight_norm: `legacy`, `parametrization`, both, or `folded`.
        dtypes: Types of the stored tensors, as safetensors spells them.
        bitrate: Bits per second that the codes of one channel really take; None for latents.
        license: Of the weights, if known.
        notes: What the user should be told.
    """

    name: str
    path: Path
    layout: str
    config: CodecConfig
    parts: tuple[str, ...]
    tensors: int
    parameters: int
    weight_norm: str
    dtypes: tuple[str, ...]
    bitrate: float | None
    license: str | None
    notes: tuple[str, ...]


def inspect_checkpoint(
    source: str | os.PathLike[str],
    *,
    subfolder: str | None = None,
    revision: str | None = None,
    token: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    sample_rate: int | None = None,
) -> Inspection:
    """Look at a checkpoint; arguments and errors are those of `load_checkpoint`."""
    request = Request("", subfolder, None, revision, token, cache_dir, offline)
    located = locate(source, request)
    opened = open_checkpoint(located.weights)
    plan = plan_of(opened, located.fields, sample_rate)
    return Inspection(
        name=located.name,
        path=located.weights,
        layout=plan.layout.name,
        config=plan.config,
        parts=plan.parts,
        tensors=len(opened.shapes),
        parameters=sum(math.prod(shape) for shape in names_for(plan.config, plan.parts).values()),
        weight_norm=spelling_of(opened.shapes),
        dtypes=tuple(sorted(set(opened.dtypes.values()))),
        bitrate=plan.config.bitrate,
        license=located.license,
        notes=(*located.notes, *plan.notes),
    )
