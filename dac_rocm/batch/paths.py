"""Which files a run takes, and which file each becomes: decided before any is opened.

This file must not look into files, and but for `find` not at the disk either.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dac_rocm.errors import OutputError, SourceError

_AUDIO = (
    "aif aifc aiff au avr caf flac htk iff mp3 nist oga ogg opus paf pvf rf64 sds sf snd sph svx "
    "voc w64 wav wave wve xi"
)
AUDIO_SUFFIXES = frozenset(f".{name}" for name in _AUDIO.split())
"""Suffixes of what libsndfile reads, but for raw samples and formats that hold no audio."""

ENCODED_SUFFIXES = frozenset({".dac", ".dacz"})


class Source(NamedTuple):
    """A file to be worked on.

    Args:
        path: Where it is.
        relative: Where it lies below the input, and so where its target lies below the output.
    """

    path: Path
    relative: Path


class Pair(NamedTuple):
    """A file and what it becomes."""

    source: Path
    target: Path


@dataclass
class Found:
    """What lies below the inputs.

    Args:
        sources: Files to work on, sorted by `relative`.
        unreadable: Folders that could not be listed, and why.
        others: How many files have another suffix.
    """

    sources: list[Source] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    others: int = 0


def find(inputs: Sequence[str | os.PathLike[str]], suffixes: Collection[str]) -> Found:
    """Find the files to work on.

    Folders are searched to the bottom. Hidden files, and so the temporary ones of this package,
    are passed over; suffixes are compared in lower case. A link to a folder is followed where it
    leads out of the input, and each folder is entered once, so that loops end.

    Args:
        inputs: Folders, or files, which are taken whatever they are called. Several of them keep
            their names below the output, as `cp -r` does; a single folder does not.
        suffixes: Which files of a folder are wanted, as `.wav`.

    Raises:
        SourceError: An input does not exist.
    """
    found = Found()
    for root in map(Path, inputs):
        if not root.is_dir():
            _check_exists(root)
            found.sources.append(Source(root, Path(root.name)))
            continue
        top = Path(root.resolve().name if len(inputs) > 1 else "")
        for path in _files(root, found):
            if path.suffix.lower() in suffixes:
                found.sources.append(Source(path, top / path.relative_to(root)))
            else:
                found.others += 1
    found.sources.sort(key=lambda source: source.relative.as_posix())
    return found


def pair(sources: Sequence[Source], output: Path, suffix: str) -> list[Pair]:
    """Name the target of each file: `a.wav` becomes `a.dacz`.

    Where that name would be given twice, as for `a.wav` and `a.flac`, both keep their own suffix:
    `a.wav.dacz`, `a.flac.dacz`. The names depend on the list of files alone.

    Args:
        sources: From `find`.
        output: The folder of the targets.
        suffix: That of the targets, as `.dacz`.

    Raises:
        OutputError: Two inputs lie at the same place below the output.
    """
    short = [source.relative.with_suffix(suffix) for source in sources]
    long = [source.relative.with_name(source.relative.name + suffix) for source in sources]
    if twice := [path for path, count in Counter(long).items() if count > 1]:
        raise OutputError(
            f"two inputs found that would both become {output / twice[0]}; a place of its own for "
            "each is expected. Give the folder above them, or do them one after the other."
        )
    counts, taken = Counter(short), set(long)
    return [
        Pair(source.path, output / (a if counts[a] == 1 and a not in taken else b))
        for source, a, b in zip(sources, short, long, strict=True)
    ]


def _check_exists(path: Path) -> None:
    if not os.path.lexists(path):
        raise SourceError(
            f"nothing found at {path}; files or folders are expected. Check the path."
        )


def _files(root: Path, found: Found) -> Iterator[Path]:
    """Yield what is no folder below `root`; broken links too, so that they are named later."""
    top = root.resolve()
    entered, waiting = {top}, [root]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(folder.iterdir(), reverse=True)
        except OSError as error:
            found.unreadable.append((folder, error.strerror or str(error)))
            continue
        for path in entries:
            if path.name.startswith("."):
                continue
            if not path.is_dir():
                yield path
            elif _enters(path, top, entered):
                waiting.append(path)


def _enters(folder: Path, top: Path, entered: set[Path]) -> bool:
    """Tell whether a folder is to be searched, and remember it."""
    real = folder.resolve()
    leads_back = folder.is_symlink() and real.is_relative_to(top)
    if leads_back or real in entered:
        return False
    entered.add(real)
    return True
