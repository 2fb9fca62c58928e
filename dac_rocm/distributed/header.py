"""What all recordings of a corpus share: the model that made them, and their type of number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dac_rocm.codec import Codec
from dac_rocm.config import CodecConfig, RVQConfig
from dac_rocm.encoded import EncodedAudio, Gain, ModelStamp
from dac_rocm.errors import ContainerError

GROUPS = ("codebooks", "encoder")
"""Fingerprints that encoding depends on; they are known whichever half of a model is loaded."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What all recordings of a corpus share.

    Args:
        model: Name and fingerprints.
        model_rate: Hz; None where a table says only the hash of its model.
        hop_length: Samples at `model_rate` per frame; None likewise.
        codebook_size: Entries of a codebook; None for latents, and likewise.
        dtype: `uint16`, or `float32` or `float16`.
    """

    model: ModelStamp
    model_rate: int | None
    hop_length: int | None
    codebook_size: int | None
    dtype: str

    @property
    def kind(self) -> str:
        """Name of the column: `codes` or `latents`."""
        return "codes" if self.dtype == "uint16" else "latents"

    @property
    def model_hash(self) -> str:
        """Fingerprints of what made the codes, as one word."""
        prints = self.model.fingerprints
        return "-".join(prints[group] for group in GROUPS if group in prints)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        model = {"name": self.model.name, "fingerprints": dict(self.model.fingerprints)}
        return {**asdict(self), "model": model}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Header:
        """Read what `to_dict` made.

        Raises:
            ContainerError: It is something else.
        """
        try:
            model = ModelStamp(**data["model"])
            rest = {key: data[key] for key in ("model_rate", "hop_length", "codebook_size")}
            return cls(model=model, dtype=str(np.dtype(data["dtype"])), **rest)
        except (KeyError, TypeError) as error:
            raise ContainerError(
                f"a description of the model found that lacks or spoils {error}; that of a shard "
                "is expected. Write the shards again."
            ) from error


def header_for(config: CodecConfig, stamp: ModelStamp, latents_dtype: str) -> Header:
    """Describe what a model of this shape will write."""
    rvq = config.bottleneck if isinstance(config.bottleneck, RVQConfig) else None
    prints = {group: stamp.fingerprints[group] for group in GROUPS if group in stamp.fingerprints}
    return Header(
        model=ModelStamp(name=stamp.name, fingerprints=prints),
        model_rate=config.sample_rate,
        hop_length=config.hop_length,
        codebook_size=rvq.codebook_size if rvq else None,
        dtype="uint16" if rvq else latents_dtype,
    )


def header_of(model: Codec, latents_dtype: str = "float32") -> Header:
    """Describe what a model will write."""
    return header_for(model.config, model.stamp, latents_dtype)


def header_from_hash(text: str, dtype: str) -> Header:
    """Tell what `Header.model_hash` says, where that is all there is."""
    groups = GROUPS if dtype == "uint16" else GROUPS[1:]
    prints = dict(zip(groups, text.split("-"), strict=False))
    model = ModelStamp(fingerprints=prints)
    return Header(model=model, model_rate=None, hop_length=None, codebook_size=None, dtype=dtype)


def facts_of(encoded: EncodedAudio) -> dict[str, Any]:
    """Return what a shard keeps of a recording beside its codes or latents."""
    assert isinstance(encoded.level, Gain)  # the rule of `.dac` is not for corpora
    return {
        "channels": encoded.channels,
        "length": encoded.length,
        "sample_rate": encoded.sample_rate,
        "gain_db": encoded.level.db,
        "source_subtype": encoded.source_subtype,
    }


def to_encoded(data: NDArray[Any], facts: Mapping[str, Any], header: Header) -> EncodedAudio:
    """Put a recording together again.

    Args:
        data: Codes or latents [rows, N or D, F].
        facts: From `facts_of`.
        header: That of its shard.
    """
    return EncodedAudio(
        data=data,
        channels=facts["channels"],
        length=facts["length"],
        sample_rate=facts["sample_rate"],
        level=Gain(facts["gain_db"]),
        source_subtype=facts["source_subtype"],
        model_rate=header.model_rate,
        hop_length=header.hop_length,
        codebook_size=header.codebook_size,
        model=header.model,
    )
