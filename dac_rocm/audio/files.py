"""Audio files through libsndfile, found by content and read block by block.

What libsndfile lets pass without a word (cut files, MP3 of unknown length) is said here. This file
must not resample, change level or write.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dac_rocm.audio import mp3
from dac_rocm.audio.reader import AudioReader, Planar, warn_truncated
from dac_rocm.audio.wav import UNKNOWN_FROM
from dac_rocm.errors import AudioError, SourceError

if TYPE_CHECKING:
    import soundfile

_UNKNOWN_LENGTH = 2**62
"""libsndfile gives a number near 2^63 where a stream states no length."""


_CUT_CHUNK = re.compile(
    r"^ *(?:data|SSND|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.M
)
"""libsndfile's log of a chunk larger than the file: WAV, AIFF, AU, Wave64, RF64."""

_OGG_PAGE_MAX = 65307
_OGG_LAST_PAGE = 4


def open_audio(path: str | os.PathLike[str]) -> AudioReader:
    """Open an audio file of any name and suffix.

    Raises:
        SourceError: There is no such file, or it is a folder, or may not be read.
        AudioError: It holds no audio that can be read whole: another format, a broken header, no
            samples, more than 8 channels, or MP3 frames of changing bitrate without a header.

    Warns:
        UserWarning: The file is cut short.
    """
    path = Path(path)
    _check_readable(path)
    file = _open(path)
    try:
        if file.format == "MP3":
            mp3.refuse_unknown_length(path)
        reader = AudioReader(
            source=_SoundFile(file, path),
            name=str(path),
            sample_rate=file.samplerate,
            channels=file.channels,
            length=None if file.frames >= _UNKNOWN_LENGTH else file.frames,
            subtype=file.subtype,
        )
        _warn_cut(path, file)
    except BaseException:
        file.close()
        raise
    return reader


def read_audio(path: str | os.PathLike[str]) -> tuple[Planar, int]:
    """Read a whole file.

    Returns:
        Samples [C, T], float32, full scale is ±1; and the sample rate in Hz.

    Raises:
        SourceError: As `open_audio`.
        AudioError: As `open_audio` and `AudioReader.blocks`.
    """
    with open_audio(path) as reader:
        return np.concatenate(list(reader.blocks()), axis=1), reader.sample_rate


class _SoundFile:
    """Samples of an open libsndfile file."""

    def __init__(self, file: "soundfile.SoundFile", path: Path) -> None:
        self._file = file
        self._path = path

    def read(self, n: int) -> Planar:
        from soundfile import LibsndfileError

        try:
            audio: Planar = self._file.read(n, dtype="float32", always_2d=True)
        except LibsndfileError as error:
            raise _unreadable(self._path, error.error_string) from None
        return np.ascontiguousarray(audio.T)

    def close(self) -> None:
        self._file.close()


def _check_readable(path: Path) -> None:
    """Refuse what is no file before libsndfile does so without saying why."""
    try:
        if path.exists() and not path.is_file():
            raise OSError(0, "a folder or a device")
        path.open("rb").close()
    except OSError as error:
        raise SourceError(
            f"found no readable file at {path} ({error.strerror}); expected an audio file; "
            "check the path and its permissions, or give a pipe as the standard input"
        ) from None


def _open(path: Path) -> "soundfile.SoundFile":
    import soundfile

    try:
        file = soundfile.SoundFile(path)
        # Else soundfile seeks after each read, which FLAC of unknown length cannot.
        file.seekable = lambda: False
        return file
    except soundfile.LibsndfileError as error:
        raise _unreadable(path, error.error_string) from None


def _unreadable(path: Path, reason: str) -> AudioError:
    return AudioError(
        f"found audio that cannot be decoded in {path} ({reason.rstrip('.')}); expected WAV, FLAC, "
        "Ogg, MP3 or another format of libsndfile; get the file again or convert it"
    )


def _warn_cut(path: Path, file: "soundfile.SoundFile") -> None:
    """Warn about a file that ends too early, where libsndfile adjusts the length in silence."""
    for stated, found in _CUT_CHUNK.findall(file.extra_info):
        if int(found) < int(stated) < UNKNOWN_FROM:
            return warn_truncated(str(path), f"{found} of {stated} bytes of samples")
    if file.format == "OGG" and not _has_last_ogg_page(path):
        warn_truncated(str(path), "some but not the last of the Ogg pages")
    return None


def _has_last_ogg_page(path: Path) -> bool:
    """Return whether the last Ogg page is whole and marked as the last.

    Source: RFC 3533 section 6.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _OGG_PAGE_MAX))
        tail = file.read()
    page = tail[max(0, tail.rfind(b"OggS")) :]
    if len(page) < 27 or not page[5] & _OGG_LAST_PAGE:
        return False
    segments = page[27 : 27 + page[26]]
    return len(page) >= 27 + page[26] + sum(segments)
