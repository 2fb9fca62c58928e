"""Files that appear whole or not at all.

Everything this package writes goes through here. This room must not know what is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dac_rocm.errors import DacError, OutputError


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Open a file beside `path` that takes its name only once everything is on the disk.

    Whatever ends the block early, Ctrl-C included, removes the temporary file.

    Args:
        path: Where the file is to appear.
        overwrite: Replace what is there. Without it, nothing is, not even a file that appeared
            while this one was written.

    Yields:
        A binary file that can be written, read and sought.

    Raises:
        OutputError: The target exists, or cannot be written; the `OSError` is its `__cause__`.
    """
    target = Path(path)
    if not overwrite and os.path.lexists(target):
        raise _already_there(target)
    temporary = target.with_name(f".dac_rocm-{os.urandom(8).hex()}.part")
    try:
        with temporary.open("x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(temporary, target, overwrite)
    except DacError:
        raise
    except OSError as error:
        raise OutputError(
            f"{target} cannot be written: {error.strerror or error}; a folder with room and "
            "permission to write is expected. Free some space or choose another target."
        ) from error
    finally:
        _remove(temporary)


def _rename(temporary: Path, target: Path, overwrite: bool) -> None:
    if overwrite:
        temporary.replace(target)
        return
    try:
        target.hardlink_to(temporary)  # unlike a rename, fails where the target exists
    except FileExistsError as error:
        raise _already_there(target) from error
    except OSError:  # a file system without hard links: take the name first
        _claim(target)
        temporary.replace(target)


def _claim(target: Path) -> None:
    try:
        target.open("xb").close()
    except FileExistsError as error:
        raise _already_there(target) from error


def _remove(temporary: Path) -> None:
    try:
        temporary.unlink(missing_ok=True)
    except OSError:
        return  # the folder itself went away, or the disk did: nothing is left that we could do


def _already_there(target: Path) -> OutputError:
    return OutputError(
        f"{target} exists already; a new path is expected. Choose another one, or allow "
        "overwriting (`--force`, `overwrite=True`)."
    )
