"""A corpus on one machine: the same bytes however it is run, nothing lost, nothing mixed up."""

import functools
import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from corpora import (
    RATE,
    Killer,
    is_broken,
    samples,
    wav,
    write_arrow,
    write_folder,
    write_parquet,
    write_tar,
)
from networks import shared

import dac_rocm
from dac_rocm.distributed import (
    Local,
    Settings,
    detokenize,
    manifest,
    read_shard,
    run,
    tokenize,
    worker,
)
from dac_rocm.distributed.engines import Lazy
from dac_rocm.distributed.manifest import Folder, Report, read_manifest, shard_files
from dac_rocm.errors import BackendError, ContainerError, OutputError, ShapeError, SourceError
from dac_rocm.runtime.threads import intra_op_threads


def shards(folder):
    return {p.name: p.read_bytes() for p in folder.glob("shard-*") if p.suffix != ".json"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """23 clips, of which one is broken; the last two in tables."""
    folder = write_folder(tmp_path_factory.mktemp("source"), 19)
    write_parquet(folder / "rows.parquet", [wav(20), wav(21)])
    write_tar(folder / "train.tar", [wav(22), wav(23)])
    return folder


@pytest.fixture(scope="module")
def whole(source, saved, tmp_path_factory):
    """The shards of this source, and what was said of them."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    summary = tokenize(source, folder, load=loading(saved), shard_size=5)
    return folder, summary


def loading(saved):
    return {"source": saved, "device": "cpu"}


def test_every_item_is_in_a_shard_or_listed(source, whole):
    folder, summary = whole
    assert (summary.items, summary.done, summary.made, summary.shards) == (23, 22, 5, 5)
    ((name, why),) = summary.failures
    assert name == "00/00007.wav" and "cannot be decoded" in why
    (line,) = (folder / "failures.jsonl").read_text().splitlines()
    assert json.loads(line) == {"id": name, "error": why}
    names = [name for path in shard_files(folder) for name, _ in read_shard(path)]
    assert len(names) == 22 and names == sorted(names)
    seconds = sum(len(samples(i)) for i in [*range(19), 20, 21, 22, 23] if not is_broken(i)) / RATE
    assert summary.seconds == pytest.approx(seconds)
    assert summary.speed > 0 and len(summary.speeds) == 1
    assert summary.cpu > 0 and sum(busy for _, busy in summary.workers.values()) < summary.elapsed


def test_codes_are_those_of_a_file(source, whole, saved):
    folder, _ = whole
    model = dac_rocm.load(saved, device="cpu")
    for path in shard_files(folder):
        for name, found in read_shard(path):
            if (source / name).is_file():
                alone = dac_rocm.encode_file(model, source / name)
                np.testing.assert_array_equal(found.codes, alone.codes)
                assert (found.level, found.length) == (alone.level, alone.length)
                assert found.model.differs_from(alone.model) is False


def test_two_processes_make_the_same_bytes(source, whole, saved, tmp_path):
    summary = tokenize(source, tmp_path, load=loading(saved), shard_size=5, engine=Local(2))
    assert shards(tmp_path) == shards(whole[0])
    assert summary.failures == whole[1].failures
    assert 1 <= len(summary.speeds) <= 2


def test_readers_and_threads_of_the_caller_change_no_byte(source, whole, saved, tmp_path):
    with intra_op_threads(2):
        tokenize(source, tmp_path, load=loading(saved), shard_size=5, readers=3)
        assert torch.get_num_threads() == 2
    assert shards(tmp_path) == shards(whole[0])


def test_a_run_goes_on_where_it_was_stopped(source, whole, saved, tmp_path):
    class StoppedError(Exception):
        pass

    def stop(summary):
        if summary.made == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        tokenize(source, tmp_path, load=loading(saved), shard_size=5, tell=stop)
    assert len(shards(tmp_path)) == 2
    (tmp_path / ".dac_rocm-0123456789abcdef.part").touch()  # what SIGKILL leaves
    (tmp_path / "shard-000004.json").write_text("{")  # a report whose shard is absent
    seen = []
    summary = tokenize(source, tmp_path, load=loading(saved), shard_size=5, tell=seen.append)
    assert (summary.skipped, summary.made, summary.done, len(seen)) == (2, 3, 22, 3)
    assert shards(tmp_path) == shards(whole[0])
    assert not list(tmp_path.glob("*.part"))
    again = tokenize(source, tmp_path, load=loading(saved), shard_size=5)
    assert (again.skipped, again.made, again.speeds) == (5, 0, {})
    assert again.failures == whole[1].failures


@pytest.mark.parametrize("kind", ["parquet", "webdataset"])
def test_a_spoilt_report_makes_its_shard_again(source, saved, tmp_path, kind):
    settings = Settings(format=kind)
    kwargs = {"load": loading(saved), "shard_size": 12, "settings": settings}
    tokenize(source, tmp_path, **kwargs)
    (tmp_path / "shard-000001.json").write_text("{}")
    assert tokenize(source, tmp_path, **kwargs).made == 1


def test_another_run_is_refused(source, whole, saved, saved_vae, tmp_path):
    folder, _ = whole
    before = (folder / "manifest.json").read_bytes()
    refused = functools.partial(tokenize, source, folder, load=loading(saved), shard_size=5)
    with pytest.raises(OutputError, match="n_codebooks was None, and is 2"):
        refused(settings=Settings(n_codebooks=2))
    with pytest.raises(OutputError, match=r"plan was .* shards was 5, and is 4"):
        refused(shard_size=6)
    with pytest.raises(OutputError, match="name was even-0, and is meta-0"):
        refused(load=loading(saved_vae))
    assert (folder / "manifest.json").read_bytes() == before


def test_a_manifest_that_cannot_be_read_is_refused(source, saved, tmp_path):
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ContainerError, match="no manifest that can be read"):
        tokenize(source, tmp_path, load=loading(saved))
    (tmp_path / "manifest.json").write_text('{"version": 2}')
    with pytest.raises(ContainerError, match="its version is 2, and 1 is known"):
        read_manifest(tmp_path)


def test_a_run_stops_at_too_many_failures(saved, tmp_path):
    for i in range(6):
        (tmp_path / f"{i}.wav").write_bytes(b"broken" if i < 4 else wav(i))
    out = tmp_path / "out"
    run_it = functools.partial(tokenize, tmp_path, out, load=loading(saved), shard_size=2)
    summary = run_it(max_failures=2)
    assert summary.stopped and summary.made == 2 and len(summary.failures) == 4
    assert run_it(max_failures=2).made == 0
    summary = run_it(max_failures=4)
    assert not summary.stopped and summary.done == 2


def test_failures_can_be_tried_again(saved, tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(4):
        (tmp_path / "in" / f"{i}.wav").write_bytes(wav(0))
    broken = bytearray(wav(0))
    broken[:4] = b"XXXX"
    (tmp_path / "in/2.wav").write_bytes(broken)
    run_it = functools.partial(
        tokenize, tmp_path / "in", tmp_path / "out", load=loading(saved), shard_size=2
    )
    assert len(run_it().failures) == 1
    (tmp_path / "in/2.wav").write_bytes(wav(0))  # of the same size, and so of the same plan
    assert run_it().made == 0
    summary = run_it(retry_failed=True)
    assert (summary.made, summary.skipped, summary.failures) == (1, 1, [])
    assert not (tmp_path / "out/failures.jsonl").exists()


def test_cut_files_are_encoded_and_named(saved, tmp_path):
    (tmp_path / "cut.wav").write_bytes(wav(0)[:8000])
    (tmp_path / "b.parquet").touch()
    write_parquet(tmp_path / "b.parquet", [wav(1)[:8000]])
    summary = tokenize(tmp_path, tmp_path / "out", load=loading(saved))
    assert summary.done == 2
    assert sorted(w.split(" in ")[1].split(";")[0] for w in summary.warnings) == [
        str(tmp_path / "cut.wav"),
        "b.parquet_0",
    ]


def test_wrong_options_end_a_run_before_it_begins(source, saved, tmp_path):
    for engine in (Local(), Local(2)):
        with pytest.raises(ShapeError, match="n_codebooks=9"):
            tokenize(
                source,
                tmp_path,
                load=loading(saved),
                shard_size=5,
                settings=Settings(n_codebooks=9),
                engine=engine,
            )
    assert not shards(tmp_path)
    with pytest.raises(SourceError):
        tokenize(source, tmp_path / "b", load={"source": str(tmp_path / "no-model")})
    assert not (tmp_path / "b").exists()


def test_other_weights_on_a_worker_are_refused(source, saved):
    model = shared("even")
    header = worker.header_of(model)
    other = replace(header, model=replace(header.model, fingerprints={"encoder": "00" * 8}))
    setup = worker.Setup(source="", load=loading(saved), settings=Settings(), header=other)
    with pytest.raises(ContainerError, match="Bring the same weights to every machine"):
        worker.ShardEncoder(setup)


def test_notes_of_the_weights_are_said(source, saved, tmp_path, monkeypatch):
    real = run.load_checkpoint

    def noted(*args, **kwargs):
        return replace(real(*args, **kwargs), notes=("Mind the gap.",))

    monkeypatch.setattr(run, "load_checkpoint", noted)
    with pytest.warns(UserWarning, match="Mind the gap"):
        tokenize(source, tmp_path, load=loading(saved), max_failures=-1)


def test_a_worker_that_dies_is_named():
    engine = Local(2)
    with pytest.raises(BackendError, match="ended before its job did"):
        list(engine(Killer, [0, 1, 2, 3]))


def test_a_worker_is_made_once_and_late():
    made = []
    work = Lazy(lambda: made.append(1) or (lambda job: job + 1))
    assert not made and [work(1), work(2)] == [2, 3] and made == [1]


def test_few_jobs_need_few_processes():
    assert list(Local(8)(Killer, [])) == []
    assert list(Local(8)(Killer, [4])) == [8]
    assert not [t for t in threading.enumerate() if "Executor" in t.name]


def test_back_to_audio(source, whole, saved, tmp_path):
    summary = detokenize(whole[0], tmp_path, load={"device": "cpu"})
    assert (summary.done, summary.failures, summary.items) == (22, [], 23)
    model = dac_rocm.load(saved, device="cpu")
    for path in shard_files(whole[0]):
        for name, encoded in read_shard(path):
            target = tmp_path / (name if name.endswith(".wav") else f"{name}.wav")
            audio, rate = soundfile.read(target, dtype="float32")
            expected, _ = dac_rocm.decode_audio(model, encoded)
            np.testing.assert_allclose(audio, expected[0], atol=1e-6)
            assert rate == RATE
    assert len(list(tmp_path.rglob("*.wav"))) == 22


def test_back_again_skips_overwrites_or_lists(whole, tmp_path):
    load = {"device": "cpu"}
    detokenize(whole[0], tmp_path, load=load)
    again = detokenize(whole[0], tmp_path, load=load)
    assert len(again.failures) == 22 and "exists already" in again.failures[0][1]
    assert detokenize(whole[0], tmp_path, load=load, skip_existing=True).failures == []
    done = detokenize(whole[0], tmp_path, load=load, overwrite=True, subtype="pcm24")
    assert done.seconds > 0 and not done.failures
    assert {soundfile.info(p).subtype for p in tmp_path.rglob("*.wav")} == {"PCM_24"}


def test_ids_cannot_leave_the_folder(saved, tmp_path):
    bad = ["../out.wav", str(tmp_path / "abs.wav"), "a/../../b", ".."]
    write_arrow(tmp_path / "in", [wav(i) for i in range(5)], id=[*bad, "good/one"])
    assert tokenize(tmp_path / "in", tmp_path / "codes", load=loading(saved)).done == 5
    summary = detokenize(tmp_path / "codes", tmp_path / "audio", load={"device": "cpu"})
    assert sorted(why.split("; ")[0] for _, why in summary.failures) == sorted(
        f"an id found that is no path below a folder, {name!r}" for name in bad
    )
    assert [p.relative_to(tmp_path / "audio") for p in (tmp_path / "audio").rglob("*.wav")] == [
        Path("good/one.wav")
    ]


def test_another_model_is_refused_back(whole, saved_vae, tmp_path):
    summary = detokenize(whole[0], tmp_path, load={"source": saved_vae, "device": "cpu"})
    assert len(summary.failures) == 22 and "decodes latents" in summary.failures[0][1]


def test_latents_there_and_back(source, saved_vae, tmp_path):
    settings = Settings(latents_dtype="float16", format="webdataset")
    summary = tokenize(source, tmp_path / "a", load=loading(saved_vae), settings=settings)
    assert summary.done == 22
    ((_, first), *_) = read_shard(shard_files(tmp_path / "a")[0])
    assert first.latents.dtype == np.float16 and first.level.db == 0
    assert detokenize(tmp_path / "a", tmp_path / "b", load={"device": "cpu"}).done == 22


def test_a_report_and_its_shard_are_written_in_that_order(tmp_path, monkeypatch):
    folder, report = Folder(tmp_path, "parquet"), Report(items=1, seconds=1.0)
    written = []
    real = manifest.atomic_write
    monkeypatch.setattr(
        manifest,
        "atomic_write",
        lambda path, **options: written.append(path.suffix) or real(path, **options),
    )
    assert folder.report(0) is None
    folder.write(0, b"data", report)
    assert written == [".json", ".parquet"] and folder.report(0) == report
