"""Frame headers of MP3 files: just enough to know whether libsndfile will read the whole file.

libsndfile guesses the length of a file without a Xing or Info header from the bitrate of its first
frame, and stops there; a VBRI header does not help it. This file must not decode audio.
"""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dac_rocm.errors import AudioError

_SYNC = 0xFFE00000
_HAS_LENGTH = 1
"""Flag of a Xing or Info header that states the number of frames."""

_SAMPLE_RATES = (44100, 48000, 32000)
_KBPS_MPEG1 = {
    1: (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    2: (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    3: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
}
_KBPS_MPEG2 = {
    1: (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    3: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


class Frame(NamedTuple):
    """One MPEG audio frame: where it lies, its size in bytes, and its bitrate in kbit/s."""

    offset: int
    size: int
    kbps: int
    mpeg1: bool
    mono: bool


def refuse_unknown_length(path: Path) -> None:
    """Refuse an MP3 of which libsndfile would silently return a part.

    Raises:
        AudioError: Frames differ in bitrate, and no Xing or Info header states their number.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        frames = walk(data)
        first = next(frames, None)
        if first is None or _states_length(data, first):
            return
        # The first frame may be a VBRI header, whose own bitrate says nothing.
        rates = {frame.kbps for frame in frames}
    if len(rates) > 1:
        raise AudioError(
            f"found MP3 frames of {min(rates)} to {max(rates)} kbit/s and no Xing or Info header "
            f"in {path}; expected a header, since the length cannot be known without it; add one "
            "(for example `ffmpeg -i IN -c copy OUT.mp3`) or convert the file to FLAC"
        )


def walk(data: bytes | mmap.mmap) -> Iterator[Frame]:
    """Yield the frames of a file in order, from the first after any ID3v2 tag.

    Source: ISO/IEC 11172-3 section 2.4.1.3; ISO/IEC 13818-3; MPEG-2.5 halves the rates again.
    """
    offset = _first_sync(data, _id3v2_size(data))
    while (frame := _frame_at(data, offset)) is not None:
        yield frame
        offset += frame.size


def _id3v2_size(data: bytes | mmap.mmap) -> int:
    """Return the size of the ID3v2 tag at the start in bytes, 0 if there is none."""
    if data[:3] != b"ID3" or len(data) < 10:
        return 0
    size = 0
    for byte in data[6:10]:
        size = size << 7 | byte & 0x7F
    has_footer = data[5] & 0x10
    return size + (20 if has_footer else 10)


def _first_sync(data: bytes | mmap.mmap, offset: int) -> int:
    """Return where the first frame lies that another one follows, or the end of the data."""
    while (offset := data.find(b"\xff", offset)) >= 0:
        frame = _frame_at(data, offset)
        if frame and _frame_at(data, offset + frame.size):
            return offset
        offset += 1
    return len(data)


def _frame_at(data: bytes | mmap.mmap, offset: int) -> Frame | None:
    """Read the header at `offset`; None if it is not one, or one of free bitrate."""
    if offset + 4 > len(data):
        return None
    (word,) = struct.unpack_from(">I", data, offset)
    version, layer = word >> 19 & 3, 4 - (word >> 17 & 3)
    bitrate, rate = word >> 12 & 15, word >> 10 & 3
    if word & _SYNC != _SYNC or version == 1 or layer == 4 or bitrate in (0, 15) or rate == 3:
        return None
    mpeg1 = version == 3
    kbps = (_KBPS_MPEG1 if mpeg1 else _KBPS_MPEG2)[layer][bitrate - 1]
    sample_rate = _SAMPLE_RATES[rate] >> (0 if mpeg1 else 1 if version == 2 else 2)
    size = _frame_size(layer, mpeg1, kbps, sample_rate, padding=word >> 9 & 1)
    return Frame(offset, size, kbps, mpeg1, mono=word >> 6 & 3 == 3)


def _frame_size(layer: int, mpeg1: bool, kbps: int, sample_rate: int, padding: int) -> int:
    """Return the bytes of a frame, header included."""
    if layer == 1:
        return 4 * (12000 * kbps // sample_rate + padding)
    samples = 576 if layer == 3 and not mpeg1 else 1152
    return samples * 125 * kbps // sample_rate + padding


def _states_length(data: bytes | mmap.mmap, frame: Frame) -> bool:
    """Return whether a frame is a Xing or Info header with the number of frames."""
    side_info = (17 if frame.mono else 32) if frame.mpeg1 else (9 if frame.mono else 17)
    at = frame.offset + 4 + side_info
    tag = data[at : at + 8]
    return tag[:4] in (b"Xing", b"Info") and bool(tag[7:] and tag[7] & _HAS_LENGTH)
