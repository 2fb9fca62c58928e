"""The folder that a run writes to: it can be written, and what a killed run left is removed.

This file must not touch anything but temporary files of this package.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dac_rocm.errors import OutputError

if sys.platform != "win32":
    import fcntl

_TEMPORARY = re.compile(r"\.dac_rocm-[0-9a-f]{16}\.part")


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make a folder, and hold it while a run writes there.

    Runs share a folder. One that starts while no other is at work removes the temporary files of
    those that were killed; the lock is on the folder itself and ends with its process.

    Raises:
        OutputError: The folder cannot be made or written to.
    """
    _check_writable(folder)
    if sys.platform == "win32":  # there, an open file cannot be removed: no lock is needed
        _sweep(folder)
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # another run is at work, or the file system has no locks
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sweep(folder)
        with suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_SH)
        yield
    finally:
        os.close(number)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be written to: {error.strerror or error}; a folder with room and "
            "permission to write is expected. Free some space or choose another one."
        ) from error


def _sweep(folder: Path) -> None:
    for path in folder.rglob(".dac_rocm-*.part"):
        if _TEMPORARY.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()
