"""Ray: an actor is a worker. It gets work once it is up, and again when Ray has restarted it.

Shards come back to the driver, which alone writes: nothing but the source must be seen by all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
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
            actors = self._actors(ray, factory, len(jobs))
            try:
                yield from _Flow(ray, actors, jobs).results()
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayActorError as error:
                raise BackendError(
                    f"a worker found that died {RETRIES + 1} times over one shard ({error}); whole "
                    "shards are kept. Run again with a smaller --shard-size or --batch, or look "
                    "into Ray's logs."
                ) from error
            finally:
                for actor in actors:
                    ray.kill(actor)

    def _actors(self, ray: Any, factory: Callable[[], Any], jobs: int) -> list[Any]:
        count = self.workers or self._room(ray.cluster_resources())
        if not count:
            raise BackendError(
                f"a cluster without room for a worker found: {ray.cluster_resources()}; "
                f"{self.threads} CPUs and {self.gpus:g} GPUs are expected. Ask for less."
            )
        options = {
            "num_cpus": self.threads,
            "num_gpus": self.gpus,
            "max_restarts": -1,
            "max_task_retries": RETRIES,
        }
        remote = ray.remote(**options)(_Actor)
        return [remote.remote(factory) for _ in range(min(count, jobs))]

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

    An actor that is let go of makes room for one that Ray has to start anew elsewhere.
    """

    def __init__(self, ray: Any, actors: Sequence[Any], jobs: Sequence[Any]) -> None:
        self.ray, self.waiting, self.left = ray, deque(jobs), len(jobs)
        self.starting = {actor.ready.remote(): actor for actor in actors}
        self.running: dict[Any, Any] = {}

    def results(self) -> Iterator[Any]:
        """Yield results as they come."""
        while self.left:
            (ref,), _ = self.ray.wait([*self.starting, *self.running], num_returns=1)
            if ref in self.starting:
                self.ray.get(ref)
                self._give(self.starting.pop(ref))
                continue
            result, self.left = self.ray.get(ref), self.left - 1
            self._give(self.running.pop(ref))
            yield result

    def _give(self, actor: Any) -> None:
        while self.waiting and self._load(actor) < AHEAD:
            self.running[actor.do.remote(self.waiting.popleft())] = actor
        if not self._load(actor):
            self.ray.kill(actor)

    def _load(self, actor: Any) -> int:
        return sum(other is actor for other in self.running.values())


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
