"""DAC inside stable-audio-tools: Descript's names one level deeper, and a projection after it.

Source: Stability-AI/stable-audio-tools 50049e3, `DACEncoderWrapper` and `DACDecoderWrapper`.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from dac_rocm.weights.fold import Entries, Entry
from dac_rocm.weights.layouts.base import Family, Fields, Layout, highest
from dac_rocm.weights.layouts.descript import CODES
from dac_rocm.weights.layouts.oobleck import autoencoder_of, final_tanh

DEEPER = {
    "encoder.encoder.": "encoder.",
    "decoder.decoder.": "decoder.",
    "bottleneck.quantizer.": "quantizer.",
}
"""Prefix there, to the canonical one."""
PROJECTION = "encoder.proj_out."
"""A 1-tap convolution after the encoder, which no nonlinearity parts from its last one."""


def _matches(entries: Entries, fields: Fields) -> bool:
    firsts = ("encoder.encoder.block.0.weight", "decoder.decoder.model.0.weight")
    return any(name in entries for name in firsts)


def _family(entries: Entries, fields: Fields) -> Family:
    return replace(CODES, final_tanh=final_tanh(autoencoder_of(fields), decoder_has_one=True))


def _rename(entries: Entries) -> Entries:
    renamed = {_canonical(name): entry for name, entry in entries.items()}
    last = f"encoder.block.{highest(renamed, 'encoder.block.')}."
    for leaf in ("weight", "bias"):
        if last + leaf in renamed and PROJECTION + leaf in renamed:
            renamed[last + leaf] = _projected(renamed, last + leaf)
    for leaf in ("weight", "bias"):
        renamed.pop(PROJECTION + leaf, None)
    return _mean_only(renamed, last)


def _canonical(name: str) -> str:
    for theirs, ours in DEEPER.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def _projected(entries: Entries, name: str) -> Entry:
    """Multiply the projection into the last convolution, in float64."""
    point, inner = entries[f"{PROJECTION}weight"], entries[name]
    shift = entries[f"{PROJECTION}bias"] if name.endswith("bias") else None
    n = len(point.sources)
    m = n + len(inner.sources)

    def make(*stored: Tensor) -> Tensor:
        matrix = point.make(*stored[:n])[:, :, 0].double()
        product = matrix @ inner.make(*stored[n:m]).double().flatten(1 if shift is None else 0)
        if shift is not None:
            product += shift.make(*stored[m:]).double()
        return product.reshape(shape).float()

    shape = (point.shape[0], *inner.shape[1:])
    sources = point.sources + inner.sources + (shift.sources if shift else ())
    return Entry(shape, sources, make)


def _mean_only(entries: Entries, last: str) -> Entries:
    """Keep the mean where a VAE stands before the RVQ; its deviation only served training."""
    asked = entries.get("quantizer.quantizers.0.in_proj.weight")
    weight = entries.get(f"{last}weight")
    if asked and weight and weight.shape[0] == 2 * asked.shape[1]:
        for leaf in ("weight", "bias"):
            entries[last + leaf] = _first(entries[last + leaf], asked.shape[1])
    return entries


def _first(entry: Entry, rows: int) -> Entry:
    def make(*stored: Tensor) -> Tensor:
        return entry.make(*stored)[:rows].clone()

    return Entry((rows, *entry.shape[1:]), entry.sources, make)


STABLE_AUDIO_DAC = Layout(
    name="stable-audio-tools-dac", matches=_matches, rename=_rename, family=_family
)
