import threading
from pathlib import Path

import pytest

from dac_rocm.batch import Pair, Result, run
from dac_rocm.batch.result import attempt

PAIRS = [Pair(Path(f"{i}.wav"), Path(f"{i}.dacz")) for i in range(20)]


def result(job):
    return Result(source=str(job.source), target=str(job.target), status="done")


def threads():
    return {t for t in threading.enumerate() if "_work_on" in t.name}


@pytest.mark.parametrize("jobs", [1, 3, 30])
@pytest.mark.parametrize("group", [1, 7])
def test_every_file_once(jobs, group):
    groups = []

    def work(jobs, watch):
        groups.append(tuple(jobs))
        yield from map(result, jobs)

    done = [r.source for r in run(work, PAIRS, jobs=jobs, group=group)]
    assert sorted(done) == sorted(str(job.source) for job in PAIRS)
    assert {job for jobs in groups for job in jobs} == set(PAIRS)
    assert not threads()


def test_groups_are_neighbours():
    seen = list(run(lambda jobs, _: [list(jobs)], PAIRS, group=8))
    assert seen == [PAIRS[:8], PAIRS[8:16], PAIRS[16:]]


def test_they_run_at_the_same_time():
    meeting = threading.Barrier(2, timeout=10)

    def work(jobs, watch):
        meeting.wait()
        yield result(jobs[0])

    assert len(list(run(work, PAIRS[:2], jobs=2))) == 2


def test_what_one_raises_stops_all():
    def work(jobs, watch):
        if jobs[0] is PAIRS[3]:
            raise ZeroDivisionError
        if jobs[0] is PAIRS[4]:
            while True:
                watch.check()
        yield result(jobs[0])

    with pytest.raises(ZeroDivisionError):
        list(run(work, PAIRS, jobs=3))
    assert not threads()


def test_closing_stops_all():
    begun = []

    def work(jobs, watch):
        begun.append(jobs)
        yield result(jobs[0])

    results = run(work, PAIRS, jobs=1)
    next(results)
    results.close()
    assert not threads()


def test_attempt(tmp_path):
    job = Pair(tmp_path / "a.wav", tmp_path / "a.dacz")

    def write():
        job.target.write_bytes(b"123")
        return 2.5

    def fail():
        raise ValueError("two\nlines")

    done = attempt(job, write)
    assert (done.status, done.seconds, done.bytes, done.error) == ("done", 2.5, 3, None)
    assert attempt(job, fail, skip_existing=True).status == "skipped"
    failed = attempt(job, fail)
    assert (failed.status, failed.error) == ("failed", "ValueError: two lines")
    assert failed.to_line().endswith('"error": "ValueError: two lines"}\n')


def test_a_target_that_appears_meanwhile_is_skipped(tmp_path):
    job = Pair(tmp_path / "a.wav", tmp_path / "a.dacz")

    def another_process_was_faster():
        job.target.write_bytes(b"123")
        raise FileExistsError

    assert attempt(job, another_process_was_faster, skip_existing=True).status == "skipped"
