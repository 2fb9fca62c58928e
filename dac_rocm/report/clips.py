"""One clip through every setting: what a report tells, shows and plays, as data."""

from __future__ import annotations

import dataclasses
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dac_rocm.audio.files import open_audio
from dac_rocm.audio.reader import Planar
from dac_rocm.codec import Codec
from dac_rocm.config import RVQConfig
from dac_rocm.container.packed_writer import write_packed
from dac_rocm.encoded import EncodedAudio
from dac_rocm.errors import ShapeError
from dac_rocm.roundtrip import round_trip

Setting = tuple[str, int | None]
"""Name of a model, and codebooks to use; None for all, or for a model without."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Version:
    """The original, or what one setting made of it.

    Args:
        label: In words.
        audio: [C, T].
        row: Its scores by name, as `evaluate` tells them; empty for the original.
    """

    label: str
    audio: Planar
    row: dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Clip:
    """A file with all its versions.

    Args:
        facts: About the file, for JSON.
        sample_rate: Hz.
        versions: The original first.
    """

    facts: dict[str, Any]
    sample_rate: int
    versions: tuple[Version, ...]

    @property
    def name(self) -> str:
        """Name of the file without its folders."""
        return Path(self.facts["file"]).name

    @property
    def seconds(self) -> float:
        """Duration."""
        return float(self.facts["seconds"])


def choose_settings(models: Mapping[str, Codec], counts: Sequence[int]) -> list[Setting]:
    """Return every model with every number of codebooks that it has.

    Args:
        models: By name.
        counts: Numbers of codebooks; none means all of each model.

    Raises:
        ShapeError: No model has so many codebooks.

    Warns:
        UserWarning: A model has not so many codebooks, and is left out there.
    """
    for count in counts:
        if not any(_has(model, count) for model in models.values()):
            raise ShapeError(
                f"n_codebooks={count} found, which none of {', '.join(models)} has. "
                "Choose from 1 to the number of codebooks (`dac-rocm inspect`)."
            )
    return [(name, count) for name, model in models.items() for count in _counts(model, counts)]


def _counts(model: Codec, counts: Sequence[int]) -> Iterator[int | None]:
    if not counts or not isinstance(model.config.bottleneck, RVQConfig):
        yield None
        return
    for count in counts:
        if _has(model, count):
            yield count
        else:
            warnings.warn(f"{model.name} has not {count} codebooks: left out.", stacklevel=4)


def _has(model: Codec, count: int) -> bool:
    bottleneck = model.config.bottleneck
    return not isinstance(bottleneck, RVQConfig) or 1 <= count <= bottleneck.n_codebooks


def measure_clip(
    path: str | os.PathLike[str],
    models: Mapping[str, Codec],
    settings: Sequence[Setting],
    progress: Callable[[str], None] = lambda _: None,
) -> Clip:
    """Encode, decode and score a file with every setting.

    Args:
        path: An audio file.
        models: By name.
        settings: What to do with it.
        progress: Is told what is done next.

    Raises:
        SourceError, AudioError: The file cannot be used.
        ShapeError: A model does not take so many channels.
    """
    with open_audio(path) as reader:
        audio = np.concatenate(list(reader.blocks()), axis=1)
    versions = [Version(label="original", audio=audio, row={})]
    for name, count in settings:
        progress(f"{path}: {_label(name, count)}")
        trip = round_trip(models[name], audio, reader.sample_rate, n_codebooks=count)
        size = encoded_bytes(dataclasses.replace(trip.encoded, source_subtype=reader.subtype))
        row = {"file": str(path), "model": name, **trip.to_dict()}
        row |= {"encoded_bytes": size, "encoded_kbps": 8e-3 * size / trip.encoded.seconds}
        versions.append(Version(label=label_of(row), audio=trip.decoded, row=row))
    size, seconds = Path(path).stat().st_size, audio.shape[1] / reader.sample_rate
    facts = {
        "file": str(path),
        "seconds": seconds,
        "sample_rate": reader.sample_rate,
        "channels": reader.channels,
        "subtype": reader.subtype,
        "file_bytes": size,
        "file_kbps": 8e-3 * size / seconds,
    }
    return Clip(facts=facts, sample_rate=reader.sample_rate, versions=tuple(versions))


def label_of(row: Mapping[str, Any]) -> str:
    """Name the setting of a row in words."""
    return _label(row["model"], row["n_codebooks"])


def _label(name: str, count: int | None) -> str:
    return name if count is None else f"{name}, {count} codebook{'s' * (count != 1)}"


def encoded_bytes(encoded: EncodedAudio) -> int:
    """Return the size of a recording as a `.dacz` file."""
    file = io.BytesIO()
    write_packed(file, encoded)
    return len(file.getbuffer())
