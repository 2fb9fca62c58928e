"""Layouts: one file per set of names, in the order in which they are tried.

A layout renames stored entries to canonical ones and knows the rules of its families. This room
must not read tensors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from dac_rocm.errors import UnknownLayoutError
from dac_rocm.weights.fold import Entries
from dac_rocm.weights.layouts.base import Fields, Layout
from dac_rocm.weights.layouts.canonical import CANONICAL
from dac_rocm.weights.layouts.dacvae import DACVAE
from dac_rocm.weights.layouts.descript import DESCRIPT
from dac_rocm.weights.layouts.oobleck import DIFFUSERS, STABLE_AUDIO
from dac_rocm.weights.layouts.relatives import relative_of
from dac_rocm.weights.layouts.stable_audio_dac import STABLE_AUDIO_DAC
from dac_rocm.weights.layouts.transformers import TRANSFORMERS

T = TypeVar("T")

LAYOUTS: tuple[Layout, ...] = (
    CANONICAL,
    DIFFUSERS,
    STABLE_AUDIO,
    STABLE_AUDIO_DAC,
    TRANSFORMERS,
    DACVAE,
    DESCRIPT,
)
"""In the order in which they are tried."""
PREFIXES = (
    "",
    "model.",
    "dac.",
    "module.",
    "generator.",
    "audio_encoder.model.",
    "audio_encoder.",
    "audio_codec.",
    "pretransform.model.",
    "autoencoder.",
    "vae.",
)
"""What wrappers put before the names of the codec."""
FIRSTS = (
    "encoder.block.0.weight",
    "decoder.model.0.weight",
    "encoder.conv1.weight",
    "decoder.conv1.weight",
    "encoder.layers.0.weight",
    "decoder.layers.0.weight",
    "encoder.encoder.block.0.weight",
    "decoder.decoder.model.0.weight",
)
"""First convolutions, by which the prefix is known."""
TRAINING = re.compile(r"(discriminators?|ema|ema_model|losses|loss)\.")
"""What only training needs, and may lie beside a codec without prefix."""


def strip_prefix(entries: Mapping[str, T]) -> dict[str, T]:
    """Take off what a wrapper put before the names; what lies outside of it is left out."""
    for prefix in PREFIXES:
        if any(prefix + first in entries for first in FIRSTS):
            inside = {n.removeprefix(prefix): e for n, e in entries.items() if n.startswith(prefix)}
            return {n: e for n, e in inside.items() if not TRAINING.match(n)}
    return dict(entries)


def detect(entries: Entries, fields: Fields) -> Layout:
    """Find the layout of a checkpoint.

    Args:
        entries: By stored name, without prefix.
        fields: What `metadata.kwargs` or config.json say.

    Raises:
        UnknownLayoutError: No layout has these names, or the network is another one.
    """
    relative = relative_of(entries, fields)
    if relative is not None:
        raise UnknownLayoutError(
            f"a checkpoint of {relative.name} found, which differs by {relative.differs}; a plain "
            "DAC or DAC-VAE is expected. Use its own package."
        )
    for layout in LAYOUTS:
        if layout.matches(entries, fields):
            return layout
    raise UnknownLayoutError(
        f"{len(entries)} tensors named {', '.join(list(entries)[:3])} ... found; names of one of "
        f"the layouts {', '.join(layout.name for layout in LAYOUTS)} are expected. "
        "Pass the file that holds the codec."
    )
