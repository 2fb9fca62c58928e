"""How far a run over many files is: a bar on a terminal, lines in a log, a report on disk.

This file must not work on files.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from dac_rocm.errors import OutputError

if TYPE_CHECKING:
    from dac_rocm.batch import Result

LOG_SECONDS = 30.0
"""Between two lines where there is no terminal."""


class Tally:
    """Takes results as files end, and shows and keeps them; a context manager.

    Args:
        total: Number of files.
        report: Where to append a line of JSON for each; None for nowhere.

    Raises:
        OutputError: The report cannot be written.
    """

    def __init__(self, total: int, report: str | None = None) -> None:
        self.counts = {"done": 0, "skipped": 0, "failed": 0}
        self.failures: list[dict[str, Any]] = []
        self.seconds = 0.0
        self._total = total
        self._started = self._said = time.perf_counter()
        self._report = _opened(report)
        self._bar = _bar(total)

    @property
    def failed(self) -> bool:
        """Whether any file failed."""
        return bool(self.failures)

    def __enter__(self) -> Tally:
        self._show_warning = warnings.showwarning
        if self._bar is not None:
            warnings.showwarning = self._above_bar
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        warnings.showwarning = self._show_warning
        if self._bar is not None:
            self._bar.close()
        if self._report is not None:
            self._report.close()

    def take(self, result: Result) -> None:
        """Count, keep and show one result."""
        self.counts[result.status] += 1
        self.seconds += result.seconds
        if result.error is not None:
            self.failures.append({"source": result.source, "error": result.error})
        if self._report is not None:
            self._report.write(result.to_line())
            self._report.flush()
        if self._bar is not None:
            self._bar.set_postfix_str(self._words(), refresh=False)
            self._bar.update()
        elif time.perf_counter() - self._said > LOG_SECONDS:
            self._log()

    def take_unreadable(self, folders: Sequence[tuple[Path, str]]) -> None:
        """Count folders that could not be listed as failures."""
        from dac_rocm.batch import Result

        for path, why in folders:
            error = f"a folder found that cannot be listed ({why}); check its permissions"
            self.take(Result(source=str(path), target="", status="failed", error=error))

    def finish(self, elapsed: float) -> None:
        """Close the bar, list the failures, and sum up."""
        from dac_rocm.cli.main import say

        if self._bar is not None:
            self._bar.close()
        for failure in self.failures:
            say(f"failed: {failure['source']}: {failure['error']}")
        counts = ", ".join(f"{count} {status}" for status, count in self.counts.items())
        say(f"{counts} of {self._total} in {elapsed:.1f} s: {self._words()}")

    def _words(self) -> str:
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        return f"{len(self.failures)} failed, {self.seconds / elapsed:.1f}x real time"

    def _log(self) -> None:
        from dac_rocm.cli.main import say

        self._said = time.perf_counter()
        ended = sum(self.counts.values())
        left = (self._said - self._started) / ended * (self._total - ended)
        say(f"{ended} of {self._total} files, {self._words()}, {max(left, 0):.0f} s left")

    def _above_bar(self, message: Warning | str, *_: Any, **__: Any) -> None:
        self._bar.write(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


def _opened(report: str | None) -> TextIO | None:
    if report is None:
        return None
    try:
        return Path(report).open("a", encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"{report} cannot be written: {error.strerror}; a path for the report is expected. "
            "Choose another one."
        ) from error


def _bar(total: int) -> Any:
    if not sys.stderr.isatty():
        return None
    from tqdm import tqdm

    return tqdm(total=total, unit="file", file=sys.stderr, dynamic_ncols=True)
