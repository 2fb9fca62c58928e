"""What the Ray engine does when workers come, die and wait for room; Ray itself is a stand-in.

`tests/distributed/test_on_ray.py` runs the real one.
"""

import sys
from types import SimpleNamespace

import pytest

from dac_rocm.distributed import OnRay
from dac_rocm.errors import BackendError, ShapeError


class ActorError(Exception):
    pass


class TaskError(Exception):
    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class Actor:
    """An actor whose calls are done when they are asked for; it may die of one."""

    def __init__(self, ray, make):
        self.ray, self.worker, self.dead = ray, make(), False
        self.ready = SimpleNamespace(remote=lambda: self.call(self.worker.ready))
        self.do = SimpleNamespace(remote=lambda job: self.call(self.worker.do, job))

    def call(self, method, *args):
        ref = object()
        self.ray.calls[ref] = (self, method, args)
        return ref


class FakeRay:
    """As much of Ray as the engine uses; `dies(number, method, args)` says which calls kill."""

    exceptions = SimpleNamespace(RayActorError=ActorError, RayTaskError=TaskError)

    def __init__(self, cpus=2, gpus=0, dies=lambda *_: False):
        self.resources = {"CPU": float(cpus), "GPU": float(gpus)}
        self.dies, self.calls, self.actors, self.log = dies, {}, [], []
        self.joined = False

    def is_initialized(self):
        return self.joined

    def init(self, **options):
        self.joined = True
        self.log.append(("init", options["address"]))

    def shutdown(self):
        self.joined = False
        self.log.append(("shutdown",))

    def cluster_resources(self):
        return self.resources

    def remote(self, **options):
        self.options = options

        def wrap(cls):
            def start(*args):
                self.actors.append(Actor(self, lambda: cls(*args)))
                return self.actors[-1]

            return SimpleNamespace(remote=start)

        return wrap

    def placed(self):
        """Actors that have room: the first ones that live."""
        living = [actor for actor in self.actors if not actor.dead]
        return living[: int(self.resources["CPU"])]

    def wait(self, refs, num_returns):
        for ref in refs:
            actor = self.calls[ref][0]
            if actor.dead or actor in self.placed():
                return [ref], []
        raise AssertionError("the run hangs")

    def get(self, ref):
        actor, method, args = self.calls.pop(ref)
        if self.dies(self.actors.index(actor), method.__name__, args):
            actor.dead = True
        if actor.dead:
            raise ActorError("the actor died")
        try:
            return method(*args)
        except ValueError as error:
            raise TaskError(error) from None

    def kill(self, actor):
        actor.dead = True


def run(monkeypatch, ray, jobs, factory=lambda: lambda job: 10 * job, **options):
    monkeypatch.setitem(sys.modules, "ray", ray)
    return list(OnRay(**options)(factory, jobs))


def test_all_jobs_are_done_and_the_cluster_is_left(monkeypatch):
    ray = FakeRay(cpus=3)
    assert sorted(run(monkeypatch, ray, range(7), address="a:1")) == list(range(0, 70, 10))
    assert len(ray.actors) == 3 and all(actor.dead for actor in ray.actors)
    assert ray.log == [("init", "a:1"), ("shutdown",)]
    assert ray.options == {"num_cpus": 1, "num_gpus": 0.0}


def test_a_cluster_that_is_in_use_stays(monkeypatch):
    ray = FakeRay()
    ray.joined = True
    assert run(monkeypatch, ray, [1]) == [10]
    assert ray.log == [] and len(ray.actors) == 1


@pytest.mark.parametrize(
    "options, actors",
    [({}, 8), ({"threads": 3}, 2), ({"gpus": 0.5}, 4), ({"workers": 5}, 5), ({"gpus": 2.0}, 1)],
)
def test_as_many_workers_as_fit_or_as_asked(monkeypatch, options, actors):
    ray = FakeRay(cpus=8, gpus=2)
    run(monkeypatch, ray, range(20), **options)
    assert len(ray.actors) == actors


def test_a_cluster_without_room_is_named(monkeypatch):
    with pytest.raises(BackendError, match="without room for a worker found"):
        run(monkeypatch, FakeRay(), [1], gpus=1.0)


@pytest.mark.parametrize("method", ["ready", "do"])
@pytest.mark.parametrize("victims", [{0}, {1}, {0, 1}])
def test_another_worker_does_the_jobs_of_a_dead_one(monkeypatch, method, victims):
    ray = FakeRay(dies=lambda number, called, _: number in victims and called == method)
    assert sorted(run(monkeypatch, ray, range(9))) == list(range(0, 90, 10))
    assert len(ray.actors) == 2 + len(victims)


def test_a_worker_that_waits_for_room_gets_it(monkeypatch):
    """After a node is lost there is room for one: the new actor starts when that one is done."""
    ray = FakeRay(cpus=2)
    lost = []

    def dies(number, called, args):
        if number == 1 and called == "do" and not lost:
            lost.append(args)
            ray.resources["CPU"] = 1.0
        return number == 1 and bool(lost)

    ray.dies = dies
    assert sorted(run(monkeypatch, ray, range(9), workers=2)) == list(range(0, 90, 10))
    assert lost and len(ray.actors) == 3


def test_a_job_that_kills_every_worker_ends_the_run(monkeypatch):
    ray = FakeRay(dies=lambda _, called, args: called == "do" and args == (3,))
    with pytest.raises(BackendError, match="died 4 times over one job"):
        run(monkeypatch, ray, [0, 1, 2, 3, 4])
    assert all(actor.dead for actor in ray.actors)


def test_workers_that_never_start_end_the_run(monkeypatch):
    with pytest.raises(BackendError, match="died 4 times"):
        run(monkeypatch, FakeRay(dies=lambda _, called, __: called == "ready"), [0])


def test_an_error_of_a_job_is_raised_as_it_was(monkeypatch):
    def fail(job):
        raise ShapeError("wrong options")

    ray = FakeRay()
    with pytest.raises(ShapeError, match="wrong options"):
        run(monkeypatch, ray, [0], lambda: fail)
    assert ray.log[-1] == ("shutdown",)


def test_a_run_that_is_left_lets_go_of_its_workers(monkeypatch):
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    results = OnRay(2)(lambda: lambda job: job, list(range(9)))
    first = next(results)
    results.close()
    assert first in range(9) and all(actor.dead for actor in ray.actors)


def test_ray_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendError, match=r"pip install 'dac_rocm\[ray\]'"):
        list(OnRay()(lambda: None, [1]))
