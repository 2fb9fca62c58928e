"""What a `.dacz` file says about its blocks, and the limits it must keep.

This file must not read or write bytes, and must not import numpy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dac_rocm.container.bits import packed_size
from dac_rocm.encoded import EncodedAudio, Gain, ModelStamp
from dac_rocm.errors import ContainerError

MAX_CHANNELS = 64  # sound files seldom pass 8; libsndfile stops at 1024
MAX_WIDTH = 4096  # codebooks, or latent channels: published models have up to 128
MAX_CODEBOOK_SIZE = 65_536  # an index has at most 16 bits
MAX_RATE = 768_000  # Hz, the fastest rate that converters are sold for
MAX_HOP_LENGTH = 65_536  # samples; published models have up to 2048
MAX_BLOCK_FRAMES = 65_536
MAX_BLOCK_SIZE = 1 << 20  # bytes; what a reader must hold at once, and unpacks to 16 times as much
MAX_GAIN_DB = 200.0  # a factor of 1e10: more than float32 audio has between silence and full scale
MAX_TEXT = 256  # characters of a name
MAX_FINGERPRINTS = 16  # groups; there are three
CRC_SIZE = 4  # bytes that close a block
MIN_BLOCK_SIZE = 1024  # bytes the writer puts into a block: its CRC then costs under 0.5 %

DTYPES = {"float16": 2, "float32": 4}
RANGES = {
    "model_rate": (1, MAX_RATE),
    "sample_rate": (1, MAX_RATE),
    "hop_length": (1, MAX_HOP_LENGTH),
    "channels": (1, MAX_CHANNELS),
    "rows": (1, MAX_CHANNELS),
    "block_frames": (1, MAX_BLOCK_FRAMES),
}


@dataclass(frozen=True, kw_only=True)
class PackedHeader:
    """All of a `.dacz` file but its blocks and its end.

    Args:
        kind: `codes` or `latents`.
        model: Which model made them.
        model_rate: Rate of the model in Hz.
        sample_rate: Rate of the original audio in Hz.
        hop_length: Samples at `model_rate` per frame.
        channels: Channels of the original audio.
        rows: Rows of codes or latents: `channels`, or 1.
        width: Codebooks of codes, or channels of latents.
        codebook_size: Entries of a codebook, 1..65536; None for latents.
        dtype: `float16` or `float32`; None for codes.
        block_frames: Frames of every block but the last; 0 chooses a good number.
        gain_db: What was added to the level before encoding.
        source_subtype: Sample format of the source; None if unknown.

    Raises:
        ContainerError: A value is of the wrong type or out of its range.
    """

    kind: Literal["codes", "latents"]
    model_rate: int
    sample_rate: int
    hop_length: int
    channels: int
    rows: int
    width: int
    codebook_size: int | None = None
    dtype: str | None = None
    block_frames: int = 0
    gain_db: float = 0.0
    model: ModelStamp = field(default_factory=ModelStamp)
    source_subtype: str | None = None

    def __post_init__(self) -> None:
        _check_kind(self)
        _check_integer("codebooks" if self.is_codes else "width", self.width, 1, MAX_WIDTH)
        _check_integer("rows", self.rows, 1, MAX_CHANNELS)
        if self.block_frames == 0:
            object.__setattr__(self, "block_frames", _good_block_frames(self.frame_bits))
        for name, (low, high) in RANGES.items():
            _check_integer(name, getattr(self, name), low, high)
        _check_gain(self.gain_db)
        _check_names(self)
        _check_sizes(self)

    @property
    def is_codes(self) -> bool:
        """True for codes, False for latents."""
        return self.kind == "codes"

    @property
    def code_bits(self) -> int:
        """Bits of one code: ceil(log2(codebook_size)), and at least 1."""
        return max(1, ((self.codebook_size or 1) - 1).bit_length())

    @property
    def frame_bits(self) -> int:
        """Bits of one frame, over all rows."""
        return self.rows * self.width * (self.code_bits if self.is_codes else 8 * self.item_size)

    @property
    def item_size(self) -> int:
        """Bytes of one latent value; 0 for codes."""
        return DTYPES.get(self.dtype or "", 0)

    def block_size(self, frames: int) -> int:
        """Bytes of a block of `frames` frames with its CRC."""
        return packed_size(frames, self.frame_bits) + CRC_SIZE

    def body_size(self, frames: int) -> int:
        """Bytes of all blocks of a file of `frames` frames."""
        full, rest = divmod(frames, self.block_frames)
        return full * self.block_size(self.block_frames) + (self.block_size(rest) if rest else 0)

    def seconds(self, frame: int) -> float:
        """Time at which a frame starts."""
        return frame * self.hop_length / self.model_rate

    def samples(self, frames: int) -> int:
        """Samples per channel, at `sample_rate`, that `frames` frames surely hold."""
        return frames * self.hop_length * self.sample_rate // self.model_rate

    def check_length(self, frames: int, length: int) -> None:
        """Refuse a length that `frames` frames cannot hold.

        Resampling to the model's rate rounds down, so one more sample may have been there.

        Raises:
            ContainerError: `length` is negative or too large.
        """
        longest = (frames * self.hop_length + 1) * self.sample_rate // self.model_rate
        if not 0 <= length <= longest:
            raise ContainerError(
                f"a length of {length} samples found with {frames} frames; 0 to {longest} is "
                "expected. Encode the recording again."
            )


def header_of(encoded: EncodedAudio) -> PackedHeader:
    """Describe a recording for a `.dacz` file.

    Args:
        encoded: Codes or latents with everything that the container stores.

    Returns:
        The header that `PackedWriter` wants.

    Raises:
        ContainerError: Something that `.dacz` needs is missing, or that it has no place for is set.
    """
    missing = [name for name in ("model_rate", "hop_length") if getattr(encoded, name) is None]
    if encoded.is_codes and encoded.codebook_size is None:
        missing.append("codebook_size")
    level = encoded.level
    if encoded.chunk_frames or encoded.length_at_model_rate or not isinstance(level, Gain):
        raise ContainerError(
            "codes made by Descript's rules (loudness, chunks or pre-1.0 length) found; `.dacz` "
            "expects a plain gain. Decode the recording and encode it again."
        )
    if missing or encoded.model_rate is None or encoded.hop_length is None:
        raise ContainerError(
            f"a recording without {', '.join(missing)} found; `.dacz` stores them. Take them from "
            "the model that made the recording (`dataclasses.replace(encoded, ...)`)."
        )
    return PackedHeader(
        kind="codes" if encoded.is_codes else "latents",
        model=encoded.model,
        model_rate=encoded.model_rate,
        sample_rate=encoded.sample_rate,
        hop_length=encoded.hop_length,
        channels=encoded.channels,
        rows=encoded.data.shape[0],
        width=encoded.data.shape[1],
        codebook_size=encoded.codebook_size if encoded.is_codes else None,
        dtype=None if encoded.is_codes else encoded.data.dtype.name,
        gain_db=level.db,
        source_subtype=encoded.source_subtype,
    )


def _check_kind(header: PackedHeader) -> None:
    if header.kind not in ("codes", "latents"):
        raise _wrong("kind", header.kind, "`codes` or `latents`")
    if header.is_codes:
        _check_integer("codebook_size", header.codebook_size, 1, MAX_CODEBOOK_SIZE)
    elif not isinstance(header.dtype, str) or header.dtype not in DTYPES:
        raise _wrong("dtype", header.dtype, "`float16` or `float32`")


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise _wrong(name, value, f"an integer from {low} to {high}")


def _check_gain(value: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= MAX_GAIN_DB:  # NaN is not within either
        raise _wrong("gain_db", value, f"a number within ±{MAX_GAIN_DB:.0f}")


def _check_names(header: PackedHeader) -> None:
    prints = header.model.fingerprints
    if not _is_text(header.model.name):
        raise _wrong("model", header.model.name, f"text of up to {MAX_TEXT} characters")
    if header.source_subtype is not None and not _is_text(header.source_subtype):
        raise _wrong("source_subtype", header.source_subtype, "text or nothing")
    if not isinstance(prints, Mapping) or len(prints) > MAX_FINGERPRINTS:
        raise _wrong("fingerprints", prints, f"up to {MAX_FINGERPRINTS} groups")
    if not all(_is_text(group) and _is_fingerprint(value) for group, value in prints.items()):
        raise _wrong("fingerprints", prints, "16 hex digits for each group")


def _check_sizes(header: PackedHeader) -> None:
    if header.rows not in (1, header.channels):
        raise _wrong("rows", header.rows, f"1 or as many as channels ({header.channels})")
    if header.block_size(header.block_frames) > MAX_BLOCK_SIZE + CRC_SIZE:
        raise _wrong("block_frames", header.block_frames, f"a block of {MAX_BLOCK_SIZE} bytes")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable()


def _is_fingerprint(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value) is not None


def _good_block_frames(frame_bits: int) -> int:
    """A power of two: 256, but more where a CRC would weigh, and less where a block would."""
    frames = 256
    while packed_size(frames, frame_bits) < MIN_BLOCK_SIZE:
        frames *= 2
    while packed_size(frames, frame_bits) > MAX_BLOCK_SIZE:
        frames //= 2
    return frames


def _wrong(name: str, found: object, expected: str) -> ContainerError:
    shown = repr(found) if isinstance(found, (str, float, type(None))) else type(found).__name__
    if type(found) is int and found.bit_length() <= 64:
        shown = str(found)
    return ContainerError(
        f"{name} {shown[:80]} found in `.dacz`; {expected} is expected. Encode the recording again."
    )
