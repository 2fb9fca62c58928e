"""A name or a path becomes a config and canonical, folded tensors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from dac_rocm.config import CodecConfig
from dac_rocm.encoded import ModelStamp
from dac_rocm.weights.fold import Entries, plain
from dac_rocm.weights.hub import Request
from dac_rocm.weights.plan import choose_parts, names_for, plan_of
from dac_rocm.weights.read import TensorFile
from dac_rocm.weights.shards import open_checkpoint
from dac_rocm.weights.source import Located, locate
from dac_rocm.weights.stamp import stamp_of
from dac_rocm.weights.stored import Stored


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A codec that was read.

    Args:
        config: Shape of the codec; of both halves, whichever were read.
        tensors: Canonical names (`lowering.tensor_shapes`), folded; float32 whatever the file
            holds, on the CPU, sharing no memory with the file.
        stamp: Name and fingerprints.
        parts: The halves that were read. Of a Gaussian bottleneck `quantizer.in_proj` comes with
            the encoder and `quantizer.out_proj` with the decoder; an RVQ comes with either.
        layout: Set of names of the file.
        license: Of the weights, if known.
        notes: What the user should be told, one sentence each.
        stored: Where the tensors lie that a file holds as they are.
    """

    config: CodecConfig
    tensors: dict[str, Tensor]
    stamp: ModelStamp
    parts: tuple[str, ...]
    layout: str
    license: str | None = None
    notes: tuple[str, ...] = ()
    stored: Mapping[str, Stored] = field(default_factory=dict)


def load_checkpoint(
    source: str | os.PathLike[str],
    *,
    subfolder: str | None = None,
    revision: str | None = None,
    token: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    parts: str = "all",
    sample_rate: int | None = None,
) -> Checkpoint:
    """Read a codec.

    Args:
        source: Bundled name, preset name, folder, file, or Hub id (`org/repo`).
        subfolder: Folder inside the repo or folder.
        revision: Branch, tag or commit on the Hub; a whole commit hash needs no network once it
            is in the cache.
        token: Hub token; default: the one that `hf auth login` stored.
        cache_dir: Cache of the Hub; default: its own.
        offline: Make no network call.
        parts: `all`, `encoder` or `decoder`; the other half is not read.
        sample_rate: Hz, where the checkpoint does not say.

    Raises:
        SourceError: The source cannot be found or reached.
        WeightsError: The checkpoint cannot be used; its subclasses say why.
        ConfigError: Its config fits no network, or no rate is known.
    """
    request = Request("", subfolder, None, revision, token, cache_dir, offline, parts)
    located = locate(source, request)
    opened = open_checkpoint(located.weights, parts)
    plan = plan_of(opened, located.fields, sample_rate)
    wanted = choose_parts(plan.parts, parts, located.weights)
    tensors = opened.read_all({n: plan.entries[n] for n in names_for(plan.config, wanted)})
    return Checkpoint(
        config=plan.config,
        tensors=tensors,
        stamp=_stamp(located, tensors),
        parts=wanted,
        layout=plan.layout.name,
        license=located.license,
        notes=(*located.notes, *plan.notes),
        stored=_stored(opened, {name: plan.entries[name] for name in tensors}),
    )


def _stored(opened: TensorFile, entries: Entries) -> dict[str, Stored]:
    places = {name: opened.where(e.sources[0]) for name, e in entries.items() if e.make is plain}
    return {name: place for name, place in places.items() if place is not None}


def _stamp(located: Located, tensors: Mapping[str, Tensor]) -> ModelStamp:
    stamp = stamp_of(located.name, tensors)
    parent = located.fields.get("parent")
    if not isinstance(parent, dict):
        return stamp
    known = {group: str(parent[group]) for group in stamp.fingerprints if group in parent}
    return ModelStamp(name=stamp.name, fingerprints={**stamp.fingerprints, **known})
