"""From the names and shapes of a checkpoint to a config and a recipe for every tensor.

No tensor is read here: what does not fit is refused before memory is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dac_rocm.config import CodecConfig, RVQConfig
from dac_rocm.errors import ConfigError, WeightsError, WeightsMismatchError
from dac_rocm.lowering import tensor_shapes
from dac_rocm.weights.fold import Entries, Shape, entries_of
from dac_rocm.weights.layouts import detect, strip_prefix
from dac_rocm.weights.layouts.base import (
    RATE_NAMES,
    RATE_OF_CODEBOOKS,
    RATE_OF_HOP,
    Fields,
    Layout,
    config_of,
)
from dac_rocm.weights.read import FLOATS, TensorFile

PARTS = ("encoder", "decoder")
"""Halves of a codec."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A checkpoint that fits, unread.

    Args:
        layout: Its set of names.
        config: Shape of the codec.
        entries: Canonical name to recipe.
        parts: The halves that are there.
        notes: What a user should know.
    """

    layout: Layout
    config: CodecConfig
    entries: Entries
    parts: tuple[str, ...]
    notes: tuple[str, ...]


def plan_of(opened: TensorFile, fields: Fields, sample_rate: int | None = None) -> Plan:
    """Find out what a checkpoint is, and check every name, shape and type.

    Args:
        opened: The tensors.
        fields: What config.json says; `metadata.kwargs` in the file wins.
        sample_rate: Hz; needed where nothing tells it.

    Raises:
        UnknownLayoutError: The names belong to no layout.
        WeightsMismatchError: Names, shapes or types do not fit.
        ConfigError: The numbers fit no network, or no rate is known.
    """
    fields = {**(fields or opened.embedded), **opened.kwargs}
    everything = entries_of(opened.shapes)
    stored = strip_prefix(everything)
    layout = detect(stored, fields)
    entries = layout.rename(stored)
    notes = []
    if len(stored) < len(everything):
        notes.append(f"{len(everything) - len(stored)} tensors beside the codec were left alone")
    if layout.droppable and len(entries) < len(stored):
        notes.append(f"left out: {layout.droppable}")
    if layout.exact:
        config = CodecConfig.from_dict(fields.get("config", {}))
    else:
        family = layout.family(entries, fields)
        config = config_of(entries, family, 1)
        _check_fields(config, fields)
        config = replace(config, sample_rate=_rate(config, fields, sample_rate, notes))
    parts = tuple(part for part in PARTS if any(n.startswith(f"{part}.") for n in entries))
    _check(opened, entries, config, parts)
    return Plan(layout, config, entries, parts, tuple(notes))


def names_for(config: CodecConfig, parts: Iterable[str]) -> dict[str, Shape]:
    """Canonical name and shape of every tensor that these halves need.

    An RVQ needs the whole quantizer on both sides; of a Gaussian bottleneck `in_proj` belongs to
    the encoder and `out_proj` to the decoder.
    """
    wanted = {f"{part}." for part in parts}
    both = isinstance(config.bottleneck, RVQConfig)
    sides = {"encoder.": "quantizer.in_proj.", "decoder.": "quantizer.out_proj."}
    prefixes = (*wanted, *("quantizer." if both else sides[half] for half in wanted))
    return {n: shape for n, shape in tensor_shapes(config).items() if n.startswith(prefixes)}


def choose_parts(present: tuple[str, ...], parts: str, where: object) -> tuple[str, ...]:
    """Return the halves to read.

    Args:
        present: The halves that are there.
        parts: `all`, `encoder` or `decoder`.
        where: What to call the checkpoint in errors.

    Raises:
        ConfigError: `parts` is another word.
        WeightsError: The wanted half is not there.
    """
    if parts not in ("all", *PARTS):
        raise ConfigError(f"parts={parts!r} found; one of all, encoder, decoder is expected.")
    if parts != "all" and parts not in present:
        raise WeightsError(
            f"{where}: only the {present[0]} found; the {parts} is expected. "
            "Take a complete checkpoint."
        )
    return present if parts == "all" else (parts,)


def _rate(config: CodecConfig, fields: Fields, asked: int | None, notes: list[str]) -> int:
    stated = _stated_rate(fields)
    if stated is not None and asked not in (None, stated):
        raise ConfigError(
            f"sample_rate={asked} found for a checkpoint that states {stated} Hz; equal rates are "
            "expected. Leave `sample_rate` out."
        )
    known = asked if stated is None else stated
    if known is not None:
        return known
    hop, bottleneck = config.hop_length, config.bottleneck
    guess = RATE_OF_HOP.get(hop)
    if hop == 320 and isinstance(bottleneck, RVQConfig):
        guess = RATE_OF_CODEBOOKS.get(bottleneck.n_codebooks)
    if guess is None:
        raise ConfigError(
            f"no sample rate found beside a hop of {hop}; a rate in Hz is expected. "
            "Pass `sample_rate=`."
        )
    notes.append(
        f"the checkpoint states no sample rate; {guess} Hz is taken from its shape. "
        "Pass sample_rate= if that is wrong"
    )
    return guess


def _stated_rate(fields: Fields) -> int | None:
    stated = next((fields[name] for name in RATE_NAMES if fields.get(name)), None)
    if stated is None:
        return None
    try:
        return int(stated)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"a config with sample rate {stated!r} found; a whole number of Hz is expected. "
            "Take the config that belongs to these weights."
        ) from error


def _check_fields(config: CodecConfig, fields: Fields) -> None:
    """Refuse a config file of another model; fields that nothing is made of may say anything."""
    strides = [level.stride for level in config.encoder.levels]
    facts: dict[str, object] = {
        "encoder_rates": strides,
        "downsampling_ratios": strides,
        "decoder_rates": [level.stride for level in config.decoder.levels],
    }
    if isinstance(config.bottleneck, RVQConfig):
        facts["n_codebooks"] = config.bottleneck.n_codebooks
        facts["codebook_size"] = config.bottleneck.codebook_size
    for name, found in facts.items():
        stated = fields.get(name, found)
        stated = list(stated) if isinstance(stated, tuple) else stated
        if stated != found:
            raise WeightsMismatchError(
                f"a config with {name} {stated} found beside tensors with {found}; equal ones are "
                "expected. Take the config that belongs to these weights."
            )


def _check(
    opened: TensorFile, entries: Entries, config: CodecConfig, parts: tuple[str, ...]
) -> None:
    expected, known = names_for(config, parts), tensor_shapes(config)
    misshapen = [
        f"{name} {list(entries[name].shape)} instead of {list(shape)}"
        for name, shape in known.items()
        if name in entries and entries[name].shape != shape
    ]
    mistyped = [
        f"{source} {opened.dtypes[source]}"
        for name in expected.keys() & entries.keys()
        for source in entries[name].sources
        if opened.dtypes[source] not in FLOATS
    ]
    problems = [
        _listed("missing", [name for name in expected if name not in entries]),
        _listed("unexpected", [name for name in entries if name not in known]),
        _listed("of another shape", misshapen),
        _listed("of another type than float", sorted(mistyped)),
    ]
    if any(problems):
        raise WeightsMismatchError(
            f"{opened.path}: {'; '.join(filter(None, problems))}. Exactly the tensors of the "
            "network are expected. Take a complete checkpoint of this codec and its own config."
        )


def _listed(kind: str, names: list[str]) -> str:
    shown = ", ".join(names[:10]) + (" ..." if len(names) > 10 else "")
    return f"{len(names)} tensors {kind} ({shown})" if names else ""
