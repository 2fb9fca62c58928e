"""Does this encoded recording belong to this model?"""

from __future__ import annotations

import warnings

from dac_rocm.codec import Codec
from dac_rocm.config import RVQConfig
from dac_rocm.dac import DAC
from dac_rocm.encoded import EncodedAudio
from dac_rocm.errors import ContainerError


def check_model(model: Codec, encoded: EncodedAudio, *, any_model: bool = False) -> None:
    """Refuse a recording that another model made.

    Args:
        model: What is to decode it.
        encoded: The recording, or its first piece.
        any_model: Let another model decode it, as long as the shapes fit.

    Raises:
        ContainerError: Another kind, shape or model.

    Warns:
        UserWarning: The weights cannot be compared, and the names differ.
    """
    _check_shape(model, encoded)
    differs = model.stamp.differs_from(encoded.model)
    if (
        any_model
        or differs is False
        or not encoded.model.name + "".join(encoded.model.fingerprints)
    ):
        return
    if differs:
        raise ContainerError(
            f"a recording made by {_named(encoded.model.name)} found, whose weights are not those "
            f"of {_named(model.name)}; the model that made it is expected. Load that one, or "
            "decode with any_model=True (--any-model)."
        )
    if model.name != encoded.model.name:
        warnings.warn(
            f"a recording made by {_named(encoded.model.name)} is decoded by {_named(model.name)}; "
            "their weights cannot be compared.",
            stacklevel=3,
        )


def _named(name: str) -> str:
    return f"model {name!r}" if name else "an unnamed model"


def _check_shape(model: Codec, encoded: EncodedAudio) -> None:
    kind = "codes" if encoded.is_codes else "latents"
    wanted = "codes" if isinstance(model, DAC) else "latents"
    if kind != wanted:
        raise ContainerError(
            f"{kind} found; {_named(model.name)} decodes {wanted}. Load the model that made them."
        )
    for what, found, expected in (
        ("rate", encoded.model_rate, model.sample_rate),
        ("hop length", encoded.hop_length, model.hop_length),
        ("codebook size", encoded.codebook_size, _codebook_size(model)),
    ):
        if found is not None and found != expected:
            raise ContainerError(
                f"a recording with {what} {found} made by {_named(encoded.model.name)} found; "
                f"{_named(model.name)} has {expected}. Load the model that made it."
            )
    most = _width(model)
    if encoded.data.shape[1] > most or (not encoded.is_codes and encoded.data.shape[1] < most):
        raise ContainerError(
            f"{encoded.data.shape[1]} codebooks or latent channels made by "
            f"{_named(encoded.model.name)} found; {_named(model.name)} has {most}. "
            "Load the model that made the recording."
        )
    rows = encoded.channels if model.config.audio_channels == 1 else 1
    if encoded.data.shape[0] != rows:
        raise ContainerError(
            f"{encoded.data.shape[0]} rows for {encoded.channels} channels found; {rows} are "
            f"expected by {_named(model.name)}. Load the model that made the recording."
        )


def _width(model: Codec) -> int:
    bottleneck = model.config.bottleneck
    if isinstance(bottleneck, RVQConfig):
        return bottleneck.n_codebooks
    return bottleneck.latent_channels


def _codebook_size(model: Codec) -> int | None:
    return model.rvq.codebook_size if isinstance(model, DAC) else None
