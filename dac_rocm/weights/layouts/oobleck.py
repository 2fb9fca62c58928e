"""Oobleck, in the names of diffusers and of stable-audio-tools.

Source: huggingface/diffusers 58eb52c; Stability-AI/stable-audio-tools 50049e3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dac_rocm.errors import ConfigError, UnknownLayoutError
from dac_rocm.weights.fold import Entries, Entry
from dac_rocm.weights.layouts import transformers
from dac_rocm.weights.layouts.base import Family, Fields, Layout

OOBLECK = Family(final_tanh=False, spread="softplus", snake="log_alpha_beta")
"""AutoencoderOobleck."""
SWITCHES = ("use_nearest_upsample", "antialias_activation")
"""Switches of stable-audio-tools that change the graph."""
BOTTLENECKS = ("vae", "dac_rvq", "dac_rvq_vae")
"""Bottlenecks of stable-audio-tools that this package has."""


def _has_beta(entries: Entries) -> bool:
    return any(name.endswith(".beta") for name in entries)


def _is_stable_audio(entries: Entries) -> bool:
    return "encoder.layers.0.weight" in entries or "decoder.layers.0.weight" in entries


def _rename_stable_audio(entries: Entries) -> Entries:
    renamed = {}
    for name, entry in entries.items():
        ours = name.replace("encoder.layers.", "encoder.block.", 1)
        ours = ours.replace("decoder.layers.", "decoder.model.", 1).replace(".layers.", ".block.")
        renamed[ours] = _column(entry) if ours.endswith((".alpha", ".beta")) else entry
    return renamed


def _column(entry: Entry) -> Entry:
    """Make [1, C, 1] of [C]."""
    if len(entry.shape) != 1:
        return entry
    return Entry(
        (1, *entry.shape, 1), entry.sources, lambda stored: entry.make(stored)[None, :, None]
    )


def _stable_audio_family(entries: Entries, fields: Fields) -> Family:
    config = autoencoder_of(fields)
    encoder, decoder = (inside(inside(config, half), "config") for half in ("encoder", "decoder"))
    for switch in SWITCHES:
        if encoder.get(switch) or decoder.get(switch):
            raise UnknownLayoutError(
                f"an Oobleck with {switch} found; plain snakes and transposed convolutions are "
                "expected. Use stable-audio-tools for this one."
            )
    return replace(OOBLECK, final_tanh=final_tanh(config, bool(decoder.get("final_tanh", True))))


def final_tanh(config: Mapping[str, Any], decoder_has_one: bool) -> bool:
    """Tell whether the output goes through tanh: the decoder's own, or the clip behind it."""
    if config.get("soft_clip") and decoder_has_one:
        raise UnknownLayoutError(
            "an autoencoder with tanh and soft_clip found; at most one of them is expected. "
            "Use stable-audio-tools for this one."
        )
    return decoder_has_one or bool(config.get("soft_clip"))


def autoencoder_of(fields: Fields) -> Mapping[str, Any]:
    """Find the autoencoder in model_config.json, alone or inside a diffusion model.

    Raises:
        ConfigError: There is no model_config.json.
        UnknownLayoutError: Its bottleneck is of another kind.
    """
    model = inside(fields, "model")
    if "pretransform" in model:
        model = inside(inside(model, "pretransform"), "config")
    if "decoder" not in model:
        raise ConfigError(
            "a checkpoint of stable-audio-tools found without its model_config.json, which alone "
            "says whether the decoder ends in tanh. Put model_config.json beside it."
        )
    kind = inside(model, "bottleneck").get("type", "vae")
    if kind not in BOTTLENECKS:
        raise UnknownLayoutError(
            f"an autoencoder with a bottleneck of type {kind!r} found; one of "
            f"{', '.join(BOTTLENECKS)} is expected. Use stable-audio-tools for this one."
        )
    return model


def inside(fields: Fields, name: str) -> Mapping[str, Any]:
    """Return the object in a field; an empty one where there is none."""
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


DIFFUSERS = Layout(
    name="oobleck",
    matches=lambda entries, fields: transformers.matches_names(entries) and _has_beta(entries),
    rename=transformers.rename,
    family=lambda entries, fields: OOBLECK,
)
STABLE_AUDIO = Layout(
    name="stable-audio-tools",
    matches=lambda entries, fields: _is_stable_audio(entries),
    rename=_rename_stable_audio,
    family=_stable_audio_family,
)
