"""Descript's `.dac` file, both ways.

Read: releases 1.0.0 and those before. Write: 1.0.0, such that numpy 1 and 2 open it. This file
must not measure, cut or decode anything: how many frames a length needs is the caller's to know.

Source: `descript-audio-codec` 1.0.0, `dac/model/base.py` (`DACFile`); the older one, tag 0.0.5.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from dac_rocm.container.packed_header import MAX_CHANNELS, MAX_GAIN_DB, MAX_RATE, MAX_WIDTH
from dac_rocm.container.safe_npy import NPY_HEADER, NPY_MAGIC, Array, plain, read_object
from dac_rocm.encoded import EncodedAudio, Loudness
from dac_rocm.errors import ContainerError, UnsupportedVersionError

DAC_VERSION = "1.0.0"
MAX_SAMPLES_PER_FRAME = 1 << 20  # at any rate; published models have up to 2048 at their own

_PICKLE_PROTOCOL = 3  # the one numpy 1 writes


@dataclass(frozen=True, kw_only=True)
class DacFile:
    """A checked `.dac` file, its codes not yet an array.

    Args:
        version: `1.0.0`, or `0.0` for the files without a version before it.
        codes: uint16 [channels, n_codebooks, frames].
        loudness_db: What decoding brings the audio to, in LUFS.
        length: Samples per channel, at `sample_rate`, or at the model's rate before 1.0.
        sample_rate: Rate of the original audio in Hz.
        channels: Channels of the original audio.
        chunk_frames: Frames per chunk where chunks were encoded alone, else None.
    """

    version: str
    codes: Array
    loudness_db: float
    length: int
    sample_rate: int
    channels: int
    chunk_frames: int | None

    @property
    def is_old(self) -> bool:
        """Whether `length` counts samples at the model's rate."""
        return self.version != DAC_VERSION


def read_dac(file: BinaryIO) -> EncodedAudio:
    """Read a `.dac` file.

    Args:
        file: A binary file open for reading, at its start.

    Returns:
        Codes [channels, n_codebooks, frames]; rate and hop of the model are not in the file.

    Raises:
        ContainerError: The file cannot be used; see `check_dac`.
    """
    dac = check_dac(file)
    return EncodedAudio(
        data=dac.codes.to_numpy(),
        sample_rate=dac.sample_rate,
        channels=dac.channels,
        length=dac.length,
        level=Loudness(dac.loudness_db),
        chunk_frames=dac.chunk_frames,
        length_at_model_rate=dac.is_old,
    )


def check_dac(file: BinaryIO) -> DacFile:
    """Read all of a `.dac` file but the array, which needs no numpy.

    Args:
        file: A binary file open for reading, at its start.

    Raises:
        ContainerError: A field is missing, of the wrong type or out of its range; several
            recordings in one file.
        UnsafeFileError: The file asks for more than data.
        UnsupportedVersionError: Neither 1.0.0 nor older.
        TruncatedFileError: The file ends too early.
    """
    content = read_object(file)
    fields = content.get("metadata") if isinstance(content, dict) else None
    if not isinstance(fields, dict):
        raise _wrong("content", "a dict with `codes` and `metadata`")
    is_old = "dac_version" not in fields and "original_sr" in fields
    if not is_old and fields.get("dac_version") != DAC_VERSION:
        raise UnsupportedVersionError(
            f"dac_version {_shown(fields.get('dac_version'))} found; {DAC_VERSION} or the files "
            "before it are expected. Update dac_rocm, or convert the file with what wrote it."
        )
    codes = _codes(content.get("codes"))
    rows, _, frames = codes.shape
    channels = _integer(fields, "channels", MAX_CHANNELS)
    _refuse_batch(fields, rows, channels, is_old)
    return DacFile(
        version="0.0" if is_old else DAC_VERSION,
        codes=codes,
        loudness_db=_loudness(fields, "original_db" if is_old else "input_db"),
        length=_integer(fields, "original_length", frames * MAX_SAMPLES_PER_FRAME),
        sample_rate=_integer(fields, "original_sr" if is_old else "sample_rate", MAX_RATE),
        channels=channels,
        chunk_frames=None if is_old else _chunk_frames(fields, frames),
    )


def write_dac(file: BinaryIO, encoded: EncodedAudio) -> None:
    """Write a `.dac` file of release 1.0.0.

    Descript's decoder makes no more samples than the frames give, and raises where that is less
    than `length`: give enough frames.

    Args:
        file: A binary file open for writing.
        encoded: Codes with a `Loudness` level.

    Raises:
        ContainerError: `.dac` cannot hold the recording.
    """
    level = _writable_level(encoded)
    rows, width, frames = encoded.data.shape
    if encoded.data.size and encoded.data.max() > 0xFFFF:
        raise _wrong("codes beyond 65535", "uint16")
    metadata = {
        "input_db": _array_opcodes("f4", (1,), struct.pack("<f", level.db)),
        "original_length": _opcodes(int(encoded.length)),
        "sample_rate": _opcodes(int(encoded.sample_rate)),
        "chunk_length": _opcodes(int(encoded.chunk_frames or frames)),
        "channels": _opcodes(int(encoded.channels)),
        "padding": _opcodes(encoded.chunk_frames is None),
        "dac_version": _opcodes(DAC_VERSION),
    }
    data = encoded.data.astype("<u2").tobytes()
    codes = _array_opcodes("u2", (rows, width, frames), data)
    content = _dict_opcodes({"codes": codes, "metadata": _dict_opcodes(metadata)})
    outer = _array_opcodes("O8", (), b"]" + content + b"a")
    whole = _npy_header() + b"\x80\x03" + outer + b"."
    check_dac(io.BytesIO(whole))  # what we would refuse, we do not write
    file.write(whole)


def _writable_level(encoded: EncodedAudio) -> Loudness:
    if not encoded.is_codes:
        raise ContainerError(
            "latents found; `.dac` holds codes. Write a `.dacz` file, which holds both."
        )
    if not isinstance(encoded.level, Loudness) or encoded.length_at_model_rate:
        raise ContainerError(
            "a recording made by another rule than Descript's found; `.dac` stores the loudness of "
            "the input, and its length there. Encode the audio again with `--format dac`."
        )
    if encoded.data.shape[0] != encoded.channels:
        raise ContainerError(
            f"codes of shape {encoded.data.shape} found; a row for each of the "
            f"{encoded.channels} channels is expected in `.dac`. Write a `.dacz` file."
        )
    return encoded.level


def _npy_header() -> bytes:
    """The header of `np.save`: 128 bytes, filled with spaces."""
    text = NPY_HEADER.ljust(117) + b"\n"
    return NPY_MAGIC + struct.pack("<BBH", 1, 0, len(text)) + text


def _opcodes(value: object) -> bytes:
    """Pickle a plain value, without the frame around it."""
    return pickle.dumps(value, _PICKLE_PROTOCOL)[2:-1]


def _dict_opcodes(entries: Mapping[str, bytes]) -> bytes:
    return b"}(" + b"".join(_opcodes(key) + value for key, value in entries.items()) + b"u"


def _array_opcodes(code: str, shape: tuple[int, ...], data: bytes) -> bytes:
    """Pickle an array under the names that numpy 1 has and numpy 2 still knows.

    Args:
        code: Type of a value, or `O8` for an object.
        shape: Shape.
        data: The values; for an object, the opcodes that make a list of it.
    """
    is_object = code == "O8"
    order = ("|", None, None, None, -1, -1, 63) if is_object else ("<", *[None] * 3, -1, -1, 0)
    dtype = b"cnumpy\ndtype\n" + _opcodes((code, False, True)) + b"R" + _opcodes((3, *order)) + b"b"
    values = data if is_object else _opcodes(data)
    made = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + _opcodes((0,)) + _opcodes(b"b")
    )
    state = b"(" + _opcodes(1) + _opcodes(shape) + dtype + _opcodes(False) + values + b"t"
    return made + b"\x87R" + state + b"b"


def _codes(value: object) -> Array:
    if not isinstance(value, Array):
        raise _wrong("codes", "an array")
    value.check()
    if value.dtype.format[1] != "H" or len(value.shape) != 3:
        raise _wrong("codes of another type or shape", "uint16 [channels, codebooks, frames]")
    rows, width, frames = value.shape
    if not (1 <= rows <= MAX_CHANNELS and 1 <= width <= MAX_WIDTH and frames):
        raise _wrong(f"codes of shape {value.shape}", "at least 1 of each, and sane numbers")
    return value


def _refuse_batch(fields: Mapping[str, Any], rows: int, channels: int, is_old: bool) -> None:
    batch = _integer(fields, "batch_size", MAX_CHANNELS) if is_old else rows // channels or 1
    if rows != batch * channels:
        raise _wrong(f"codes of {rows} rows", f"one for each of the {channels} channels")
    if batch != 1:
        raise ContainerError(
            f"a batch of {batch} recordings found; one is expected in a file. Split it with what "
            "wrote it."
        )
    if is_old and fields.get("is_overlap") is not False:
        raise _wrong("overlapping windows", "`is_overlap` False, as every old release wrote it")


def _chunk_frames(fields: Mapping[str, Any], frames: int) -> int | None:
    chunk = _integer(fields, "chunk_length", frames)
    padding = plain(fields.get("padding"))
    if type(padding) is not bool:
        raise _wrong(f"padding {_shown(padding)}", "True or False")
    if frames % chunk or (padding and chunk != frames):
        raise _wrong(f"chunks of {chunk} frames", f"whole ones in {frames} frames")
    return None if padding else chunk


def _integer(fields: Mapping[str, Any], name: str, high: int) -> int:
    value = plain(fields.get(name))
    if type(value) is not int or not 1 <= value <= high:
        raise _wrong(f"{name} {_shown(value)}", f"an integer from 1 to {high}")
    return value


def _loudness(fields: Mapping[str, Any], name: str) -> float:
    value = plain(fields.get(name))
    if isinstance(value, Array):
        raise _wrong(f"{name} of several recordings", "one number")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= MAX_GAIN_DB:  # NaN is not within either
        raise _wrong(f"{name} {_shown(value)}", f"a loudness within ±{MAX_GAIN_DB:.0f} LUFS")
    return float(value)


def _shown(value: object) -> str:
    """A value from a stranger, short enough to print."""
    if isinstance(value, (bool, float, type(None))):
        return str(value)
    if isinstance(value, int) and value.bit_length() <= 64:
        return str(value)
    return ascii(value[:40]) if isinstance(value, str) else f"of type {type(value).__name__}"


def _wrong(found: str, expected: str) -> ContainerError:
    return ContainerError(
        f"{found} found in `.dac`; {expected} is expected. Encode the recording again."
    )
