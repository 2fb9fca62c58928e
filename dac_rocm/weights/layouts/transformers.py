"""The names of transformers' `DacModel`; diffusers' `AutoencoderOobleck` has the same.

Source: huggingface/transformers `models/dac`, huggingface/diffusers `autoencoder_oobleck`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dac_rocm.weights.fold import Entries
from dac_rocm.weights.layouts.base import Family, Fields, Layout, highest
from dac_rocm.weights.layouts.descript import CODES

UNIT = ("snake1", "conv1", "snake2", "conv2")
"""The four layers of a residual unit, `block.0` to `block.3`."""


def matches_names(entries: Entries) -> bool:
    """Tell whether the names are of this set."""
    return "encoder.conv1.weight" in entries or "decoder.conv1.weight" in entries


def rename(entries: Entries) -> Entries:
    """Give canonical names; what is not in the table keeps its own."""
    levels = [1 + highest(entries, f"{half}.block.") for half in ("encoder", "decoder")]
    table = stems(*levels)
    renamed = {}
    for name, entry in entries.items():
        stem, _, leaf = name.rpartition(".")
        renamed[f"{table.get(stem, stem)}.{leaf}"] = entry
    return renamed


def stems(encoder_levels: int, decoder_levels: int) -> dict[str, str]:
    """Return the table: name without leaf here, to the canonical one."""
    return {**dict(_encoder(encoder_levels)), **dict(_decoder(decoder_levels))}


def _encoder(n: int) -> Iterator[tuple[str, str]]:
    yield "encoder.conv1", "encoder.block.0"
    for i in range(n):
        theirs, ours = f"encoder.block.{i}", f"encoder.block.{i + 1}.block"
        for j in range(3):
            yield from _unit(f"{theirs}.res_unit{j + 1}", f"{ours}.{j}")
        yield f"{theirs}.snake1", f"{ours}.3"
        yield f"{theirs}.conv1", f"{ours}.4"
    yield "encoder.snake1", f"encoder.block.{n + 1}"
    yield "encoder.conv2", f"encoder.block.{n + 2}"


def _decoder(n: int) -> Iterator[tuple[str, str]]:
    yield "decoder.conv1", "decoder.model.0"
    for i in range(n):
        theirs, ours = f"decoder.block.{i}", f"decoder.model.{i + 1}.block"
        yield f"{theirs}.snake1", f"{ours}.0"
        yield f"{theirs}.conv_t1", f"{ours}.1"
        for j in range(3):
            yield from _unit(f"{theirs}.res_unit{j + 1}", f"{ours}.{j + 2}")
    yield "decoder.snake1", f"decoder.model.{n + 1}"
    yield "decoder.conv2", f"decoder.model.{n + 2}"


def _unit(theirs: str, ours: str) -> Iterator[tuple[str, str]]:
    for k, layer in enumerate(UNIT):
        yield f"{theirs}.{layer}", f"{ours}.block.{k}"


def _family(entries: Entries, fields: Fields) -> Family:
    return CODES


TRANSFORMERS = Layout(
    name="transformers",
    matches=lambda entries, fields: matches_names(entries),
    rename=rename,
    family=_family,
)
