"""Workers that take jobs from one list until it ends or somebody says stop.

This file must not know what a job does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import TypeVar

from dac_rocm.audio.reader import AudioReader, Planar, Source
from dac_rocm.batch.paths import Pair
from dac_rocm.batch.result import Result

T = TypeVar("T")


class Stopped(BaseException):
    """The run is to end: not an error, and so not caught as one."""


class Watch:
    """Tells workers that they are to stop, block by block."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def stop(self) -> None:
        """Let every worker stop at its next block."""
        self._event.set()

    def check(self) -> None:
        """Raise `Stopped` once `stop` was called."""
        if self._event.is_set():
            raise Stopped

    def blocks(self, blocks: Iterable[T]) -> Iterator[T]:
        """Yield the same blocks until somebody says stop."""
        for block in blocks:
            self.check()
            yield block

    def reader(self, reader: AudioReader) -> AudioReader:
        """Return a reader of the same audio that stops when it is told to."""
        return replace(reader, source=_Watched(reader.source, self))


class _Watched:
    def __init__(self, source: Source, watch: Watch) -> None:
        self._source, self._watch = source, watch

    def read(self, n: int) -> Planar:
        self._watch.check()
        return self._source.read(n)

    def close(self) -> None:
        self._source.close()


Work = Callable[[Sequence[Pair], Watch], Iterable[Result]]
"""Works on a few files, and yields what became of each."""


def run(
    work: Work, pairs: Sequence[Pair], *, jobs: int = 1, group: int = 1
) -> Generator[Result, None, None]:
    """Work on files in parallel threads, and yield each result when it is there.

    While one thread waits for a file or decodes it, another computes. At most `jobs` groups are in
    memory. However the iteration ends, no thread is left after it, and no half-written file.

    Args:
        work: See `Work`.
        pairs: The files, in the order in which they are begun.
        jobs: Number of threads.
        group: Files that `work` is given at once: always the same neighbours of the list.

    Raises:
        BaseException: What `work` raised; the other threads are stopped.
    """
    watch, results = Watch(), SimpleQueue[Result | BaseException | None]()
    groups = _Shared(pairs[first : first + group] for first in range(0, len(pairs), group))
    threads = [
        threading.Thread(target=_work_on, args=(work, groups, watch, results)) for _ in range(jobs)
    ]
    try:  # from the first thread on: Ctrl-C may come between two
        for thread in threads:
            thread.start()
        yield from _until_done(results, jobs)
    finally:
        watch.stop()
        for thread in filter(threading.Thread.is_alive, threads):
            thread.join()


def _until_done(results: SimpleQueue[Result | BaseException | None], jobs: int) -> Iterator[Result]:
    while jobs:
        result = results.get()
        if isinstance(result, BaseException):
            raise result
        if result is None:
            jobs -= 1
        else:
            yield result


def _work_on(
    work: Work,
    groups: _Shared,
    watch: Watch,
    results: SimpleQueue[Result | BaseException | None],
) -> None:
    try:
        for group in watch.blocks(groups):
            for result in work(group, watch):
                results.put(result)
    except Stopped:
        pass
    except BaseException as error:  # raised again where the results are read
        results.put(error)
    results.put(None)


class _Shared:
    """An iterator that several threads take from."""

    def __init__(self, groups: Iterator[Sequence[Pair]]) -> None:
        self._groups, self._lock = groups, threading.Lock()

    def __iter__(self) -> _Shared:
        return self

    def __next__(self) -> Sequence[Pair]:
        with self._lock:
            return next(self._groups)
