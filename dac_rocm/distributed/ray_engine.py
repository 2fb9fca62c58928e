"""Ray: an actor is a worker. It gets work once it is up; where it dies, another one is started.

Shards come back to the driver, which alone writes: nothing but the source must be seen by all.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from dac_rocm.distributed.engines import AHEAD, Lazy
from dac_rocm.distributed.extras import require
from dac_rocm.errors import BackendError

J = TypeVar("J")
R = TypeVar("R")

RETRIES = 3
"""Times that a job is done again after its worker died: it may be the job that kills."""


class OnRay:
    """Actors of a Ray cluster.

    Args:
        workers: How many actors; None for as many as the cluster has room for.
        threads: Cores of each.
        gpus: GPUs of each, also a part of one.
        address: Cluster to join; None starts one on this machine, or takes the one in use.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        threads: int = 1,
        gpus: float = 0.0,
        address: str | None = None,
    ) -> None:
        self.workers, self.threads, self.gpus = workers, threads, gpus
        self.address = address

    def __call__(
        self, factory: Callable[[], Callable[[J], R]], jobs: Sequence[J], /
    ) -> Generator[R, None, None]:
        """Run jobs; see `Engine`."""
        ray = require("ray")
        with _joined(ray, self.address):
            remote = ray.remote(num_cpus=self.threads, num_gpus=self.gpus)(_Actor)
            flow = _Flow(ray, partial(remote.remote, factory), jobs)
            try:
                yield from flow.results(min(self._count(ray), len(jobs)))
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            finally:
                flow.end()

    def _count(self, ray: Any) -> int:
        resources = ray.cluster_resources()
        if count := self.workers or self._room(resources):
            return count
        raise BackendError(
            f"a cluster without room for a worker found: {resources}; {self.threads} CPUs and "
            f"{self.gpus:g} GPUs are expected. Ask for less."
        )

    def _room(self, resources: dict[str, float]) -> int:
        """Workers that fit into a cluster; its nodes are taken for one."""
        room = int(resources.get("CPU", 0) // self.threads)
        return min(room, int(resources.get("GPU", 0) // self.gpus)) if self.gpus else room


class _Actor:
    """A worker inside an actor."""

    def __init__(self, factory: Callable[[], Callable[[Any], Any]]) -> None:
        self._work = Lazy(factory)

    def ready(self) -> None:
        self._work.make()

    def do(self, job: Any) -> Any:
        return self._work(job)


class _Flow:
    """Gives each actor that is up `AHEAD` jobs, and lets go of it when there are no more.

    The jobs of an actor that died are done by others, and another one is asked for. Ray's own
    retries do not wait for the end of a node, and so would be used up by it.
    """

    def __init__(self, ray: Any, start: Callable[[], Any], jobs: Sequence[Any]) -> None:
        self.ray, self.start = ray, start
        self.waiting = deque(enumerate(jobs))
        self.left = len(jobs)
        self.actors: list[Any] = []
        self.running: dict[Any, tuple[Any, tuple[int, Any] | None]] = {}
        self.deaths: Counter[int] = Counter()

    def results(self, count: int) -> Iterator[Any]:
        """Ask for actors, and yield results as they come."""
        for _ in range(count):
            self._add()
        while self.left:
            (ref,), _ = self.ray.wait(list(self.running), num_returns=1)
            actor, job = self.running.pop(ref)
            try:
                result = self.ray.get(ref)
            except self.ray.exceptions.RayActorError as error:
                self._replace(actor, job, error)
                continue
            self.left -= job is not None
            self._give(actor)
            if job is not None:
                yield result

    def end(self) -> None:
        """Let go of all actors."""
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors.clear()

    def _add(self) -> None:
        actor = self.start()
        self.actors.append(actor)
        self.running[actor.ready.remote()] = actor, None

    def _give(self, actor: Any) -> None:
        held = sum(other is actor for other, _ in self.running.values())
        while self.waiting and held < AHEAD:
            index, job = self.waiting.popleft()
            self.running[actor.do.remote(job)] = actor, (index, job)
            held += 1
        if not held:
            self._remove(actor)  # there may be one that waits for its place

    def _replace(self, actor: Any, job: tuple[int, Any] | None, error: Exception) -> None:
        number = -1 if job is None else job[0]
        self.deaths[number] += 1
        if self.deaths[number] > RETRIES:
            raise BackendError(
                f"a worker found that died {self.deaths[number]} times over one job ({error}); "
                "whole shards are kept. Run again with a smaller --shard-size or --batch, or look "
                "into Ray's logs."
            ) from error
        if job is not None:
            self.waiting.appendleft(job)
        if any(other is actor for other in self.actors):
            self._remove(actor)
            self._add()

    def _remove(self, actor: Any) -> None:
        self.actors = [other for other in self.actors if other is not actor]
        self.ray.kill(actor)


@contextmanager
def _joined(ray: Any, address: str | None) -> Iterator[None]:
    """Join a cluster for a while, or use the one that this process has joined already."""
    if ray.is_initialized():
        yield
        return
    ray.init(address=address, log_to_driver=False, include_dashboard=None if address else False)
    try:
        yield
    finally:
        ray.shutdown()
