"""Engines: who runs jobs. Jobs are pure, so an engine decides when and where, never what.

This file must not know what a job does, nor Ray: that is `ray_engine.py`.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import torch

from dac_rocm.errors import BackendError
from dac_rocm.runtime.threads import intra_op_threads

J = TypeVar("J")
R = TypeVar("R")

AHEAD = 2
"""Jobs that a worker has at most: one at work, one waiting."""


class Engine(Protocol):
    """Runs jobs."""

    def __call__(
        self, factory: Callable[[], Callable[[J], R]], jobs: Sequence[J], /
    ) -> Generator[R, None, None]:
        """Make workers, let them do all jobs, and yield each result when it is there.

        Args:
            factory: Makes a worker, where it is to run; it can be pickled.
            jobs: In the order in which they are begun.

        Raises:
            BackendError: Workers died. What was yielded before is whole.
            Exception: What a job raised.
        """


class Lazy(Generic[J, R]):
    """A worker that is made when its first job comes, so that what is wrong is that job's error.

    Args:
        factory: Makes the worker.
    """

    def __init__(self, factory: Callable[[], Callable[[J], R]]) -> None:
        self._factory = factory
        self._work: Callable[[J], R] | None = None

    def make(self) -> Callable[[J], R]:
        """Make the worker, unless it is there."""
        if self._work is None:
            self._work = self._factory()
        return self._work

    def __call__(self, job: J) -> R:
        """Do a job."""
        return self.make()(job)


class Local:
    """This process, or several processes of this machine.

    Args:
        workers: How many; one is this process itself.
    """

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def __call__(
        self, factory: Callable[[], Callable[[J], R]], jobs: Sequence[J], /
    ) -> Generator[R, None, None]:
        """Run jobs; see `Engine`."""
        workers = min(self.workers, len(jobs))
        if workers <= 1:
            with intra_op_threads(torch.get_num_threads()):  # a worker may change that
                work = Lazy(factory)
                for job in jobs:
                    yield work(job)
            return
        context = multiprocessing.get_context("spawn")  # a fork does not get on with threads
        pool = ProcessPoolExecutor(workers, context, _start, (factory,))
        try:
            yield from _flow(pool, jobs, AHEAD * workers)
        except BrokenProcessPool as error:
            raise BackendError(
                "a worker found that ended before its job did, as for want of memory; whole shards "
                "are kept. Run again, with fewer --workers or a smaller --batch."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _flow(pool: ProcessPoolExecutor, jobs: Sequence[Any], most: int) -> Iterator[Any]:
    """Yield results as they come, with at most `most` jobs begun."""
    waiting = iter(jobs)
    running: set[Future[Any]] = {pool.submit(_do, job) for job in islice(waiting, most)}
    while running:
        done, running = wait(running, return_when=FIRST_COMPLETED)
        running |= {pool.submit(_do, job) for job in islice(waiting, len(done))}
        for future in done:
            yield future.result()


_WORKERS: list[Lazy[Any, Any]] = []
"""The worker of a process of the pool."""


def _start(factory: Callable[[], Any]) -> None:
    _WORKERS.append(Lazy(factory))


def _do(job: Any) -> Any:
    return _WORKERS[0](job)
