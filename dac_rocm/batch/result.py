"""What became of one file, and how a failure becomes one.

This file must not decide what to do to a file.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

from dac_rocm.batch.paths import Pair
from dac_rocm.errors import DacError

Status = Literal["done", "skipped", "failed"]

_ENDS_THE_RUN = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
"""A full or read-only disk: no other file would fare better."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one file.

    Args:
        source: What was read.
        target: What was to be written.
        status: `done`, `skipped` since the target exists, or `failed`.
        seconds: Duration of the audio.
        bytes: Size of the target.
        elapsed: Seconds that it took.
        error: Why it failed.
    """

    source: str
    target: str
    status: Status
    seconds: float = 0.0
    bytes: int = 0
    elapsed: float = 0.0
    error: str | None = None

    def to_line(self) -> str:
        """Return one line of JSON, its end included."""
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"


def attempt(job: Pair, action: Callable[[], float], *, skip_existing: bool = False) -> Result:
    """Do something to one file, and tell how it went.

    Args:
        job: The file.
        action: Writes the target and returns the seconds of audio in it.
        skip_existing: Leave a file alone whose target is there, be it by another process meanwhile.

    Raises:
        OutputError: The disk is full or cannot be written at all.
    """
    started = time.perf_counter()
    if skip_existing and job.target.exists():
        return _result(job, "skipped", bytes=job.target.stat().st_size)
    try:
        seconds = action()
    except Exception as error:  # whatever one file does, the others are worked on
        if _cause_number(error) in _ENDS_THE_RUN:
            raise
        if skip_existing and job.target.exists():
            return _result(job, "skipped", bytes=job.target.stat().st_size)
        return failure(job, error, time.perf_counter() - started)
    return _result(
        job,
        "done",
        seconds=seconds,
        bytes=job.target.stat().st_size,
        elapsed=time.perf_counter() - started,
    )


def failure(job: Pair, error: Exception, elapsed: float = 0.0) -> Result:
    """Tell why a file failed; an error that is not ours is named with its type."""
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    if not isinstance(error, DacError):
        text = f"{type(error).__name__}: {text}"
    return _result(job, "failed", error=" ".join(text.split()), elapsed=elapsed)


def _cause_number(error: Exception) -> int | None:
    cause = error.__cause__ if isinstance(error, DacError) else error
    return cause.errno if isinstance(cause, OSError) else None


def _result(
    job: Pair,
    status: Status,
    *,
    seconds: float = 0.0,
    bytes: int = 0,  # noqa: A002 - the word of the report
    elapsed: float = 0.0,
    error: str | None = None,
) -> Result:
    return Result(
        source=str(job.source),
        target=str(job.target),
        status=status,
        seconds=seconds,
        bytes=bytes,
        elapsed=round(elapsed, 4),
        error=error,
    )
