"""EncodedAudio: one recording as codes or latents, with all that is needed to decode it.

The rooms meet here: containers read and write it, the pipeline makes and decodes it. This room
must import neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dac_rocm.errors import ContainerError, ShapeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class ModelStamp:
    """Which model made the codes.

    Args:
        name: Name of the model, such as `tiny`; empty if unknown.
        fingerprints: Group of tensors (`codebooks`, `encoder`, `decoder`) to 16 hex digits.
    """

    name: str = ""
    fingerprints: Mapping[str, str] = field(default_factory=dict)

    def differs_from(self, other: ModelStamp) -> bool | None:
        """Compare the groups that both know: True, False, or None where they share none."""
        shared = self.fingerprints.keys() & other.fingerprints.keys()
        if not shared:
            return None
        return any(self.fingerprints[group] != other.fingerprints[group] for group in shared)


@dataclass(frozen=True)
class Gain:
    """The level was changed by `db` before encoding; decoding takes the same off again."""

    db: float = 0.0


@dataclass(frozen=True)
class Loudness:
    """Descript's rule: the decoded audio is brought to `db` LUFS, whatever it came out as."""

    db: float


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedAudio:
    """One recording as codes or latents.

    Args:
        data: [rows, N, F] of an unsigned integer type for codes, [rows, D, F] of a float type for
            latents. Rows are the channels for mono models, 1 for stereo models.
        sample_rate: Rate of the original audio in Hz, which decoding restores.
        channels: Channels of the original audio, which decoding restores.
        length: Samples per channel of the original audio at `sample_rate`; exact.
        model_rate: Rate of the model in Hz; None in Descript's `.dac`, which does not say.
        hop_length: Samples at `model_rate` per frame; None in Descript's `.dac`.
        codebook_size: Entries of a codebook; None for latents and in Descript's `.dac`.
        level: What was done to the level, and so what decoding undoes.
        model: Which model made the codes.
        source_subtype: Sample format of the source (`PCM_16`, `FLOAT` ...); None if unknown.
        chunk_frames: Frames per stored chunk of Descript's chunked `.dac`, whose chunks are decoded
            without padding; None everywhere else.
        length_at_model_rate: True where `length` counts samples at the model's rate (`.dac` before
            1.0).

    Raises:
        ShapeError: `data` has not three axes, no rows, or another type.
    """

    data: NDArray[Any]
    sample_rate: int
    channels: int
    length: int
    model_rate: int | None = None
    hop_length: int | None = None
    codebook_size: int | None = None
    level: Gain | Loudness = Gain()
    model: ModelStamp = ModelStamp()
    source_subtype: str | None = None
    chunk_frames: int | None = None
    length_at_model_rate: bool = False

    def __post_init__(self) -> None:
        if self.data.dtype.kind not in "uf":
            raise ShapeError(
                f"encoded data of {self.data.dtype} found; an unsigned integer type for codes or a "
                "float type for latents is expected. Convert it first."
            )
        if self.data.ndim != 3 or 0 in self.data.shape[:2]:
            raise ShapeError(
                f"encoded data of shape {tuple(self.data.shape)} found; [rows, codebooks or width, "
                "frames] is expected. Add the missing axes."
            )

    @property
    def is_codes(self) -> bool:
        """True for codes, False for latents."""
        return bool(self.data.dtype.kind == "u")

    @property
    def codes(self) -> NDArray[np.uint16]:
        """Codebook indices [rows, N, F].

        Raises:
            ContainerError: The recording holds latents.
        """
        if not self.is_codes:
            raise ContainerError("latents found where codes are expected; use `.latents`.")
        return self.data

    @property
    def latents(self) -> NDArray[Any]:
        """Continuous latents [rows, D, F].

        Raises:
            ContainerError: The recording holds codes.
        """
        if self.is_codes:
            raise ContainerError("codes found where latents are expected; use `.codes`.")
        return self.data

    @property
    def frames(self) -> int:
        """Number of frames F."""
        return int(self.data.shape[-1])

    @property
    def seconds(self) -> float:
        """Duration of the original audio."""
        if self.length_at_model_rate and self.model_rate is not None:
            return self.length / self.model_rate
        return self.length / self.sample_rate
