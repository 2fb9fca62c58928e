"""Real Ray, on a cluster of two nodes of one CPU each: the same bytes, whoever is killed.

The reference is the local engine. Commands run in processes of their own, as users run them.
"""

import contextlib
import json
import operator
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from corpora import check_codes, content, is_broken, samples, wav, write_folder, write_parquet
from networks import shared

import dac_rocm
from dac_rocm.distributed import OnRay, read_shard, tokenize
from dac_rocm.distributed.manifest import shard_files
from dac_rocm.errors import BackendError, ShapeError

pytestmark = pytest.mark.ray

ray = pytest.importorskip("ray")

COUNT, SHARD = 1050, 50
"""Clips, of which 11 are broken, and 21 shards of them."""
PATIENCE = 120
"""Seconds after which something hangs."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("source"), COUNT)


@pytest.fixture(scope="module")
def reference(source, saved, tmp_path_factory):
    """What the local engine makes: bytes by name, and the failures."""
    folder = tmp_path_factory.mktemp("local")
    summary = tokenize(source, folder, load={"source": saved, "device": "cpu"}, shard_size=SHARD)
    return shards(folder), summary.failures, folder


@pytest.fixture(scope="module")
def cluster():
    """Two nodes that this process starts; the second may be taken away and come back."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        made.second = made.add_node(num_cpus=1)
        yield made
        made.shutdown()


@pytest.fixture
def joined(cluster):
    """Let this process be a driver, too."""
    ray.init(address=cluster.address, log_to_driver=False)
    yield
    ray.shutdown()


def shards(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def begin(cluster, source, target, saved, *flags):
    """Start the command; its output is read when it ends."""
    command = [sys.executable, "-m", "dac_rocm", "tokenize", source, target, "--json"]
    chosen = ["--model", saved, "--device", "cpu", "--shard-size", SHARD, "--engine", "ray"]
    argv = [*command, *chosen, "--address", cluster.address, *flags]
    return subprocess.Popen(
        [str(part) for part in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(process):
    """Wait for a command, and return what it reported."""
    output, said = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 1 and output, said  # some items failed, and that is said
    return json.loads(output)


def check(report, target, reference):
    bytes_by_name, failures, _ = reference
    assert shards(target) == bytes_by_name
    assert [tuple(pair) for pair in report["failures"]] == failures
    assert report["done"] == COUNT - len(failures)
    assert not list(target.glob(".dac_rocm-*"))


def wait_for_shards(process, target, count):
    """Wait until some shards are there, while others are being made."""
    limit = time.monotonic() + PATIENCE
    while len(shards_there(target)) < count:
        assert process.poll() is None and time.monotonic() < limit, "it ended too early"
        time.sleep(0.02)


def shards_there(target):
    return list(target.glob("shard-*.parquet"))


def actors():
    """Process ids of our workers: Ray names them, and their nodes are children of this process."""
    found = {int(path.name): status(path) for path in Path("/proc").glob("[0-9]*")}
    for pid, (name, _) in found.items():
        if name.startswith("ray::_Actor") and os.getpid() in ancestors(pid, found):
            yield pid


def status(path):
    """Read the command and the parent of a process; nothing of one that has just ended."""
    with contextlib.suppress(OSError):
        parent = re.search(r"^PPid:\s+(\d+)", (path / "status").read_text(), re.M)[1]
        return (path / "cmdline").read_text(errors="replace"), int(parent)
    return "", 0


def ancestors(pid, found):
    while pid in found:
        pid = found[pid][1]
        yield pid


def test_one_broken_clip_per_hundred_is_listed(reference):
    _, failures, _ = reference
    broken = [f"{i // 100:02}/{i:05}.wav" for i in range(COUNT) if is_broken(i)]
    assert [name for name, _ in failures] == broken and len(broken) == 11


def test_codes_are_those_of_encode(reference):
    model, folder = shared("even"), reference[2]
    for path in shard_files(folder)[::5]:
        for name, encoded in read_shard(path):
            check_codes(model, encoded, int(Path(name).stem))


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_no_byte(cluster, source, saved, reference, tmp_path, workers):
    report = end(begin(cluster, source, tmp_path, saved, "--workers", workers))
    check(report, tmp_path, reference)
    assert len(report["workers"]) == workers


def test_a_killed_worker_changes_no_byte(cluster, source, saved, reference, tmp_path):
    process = begin(cluster, source, tmp_path, saved)
    wait_for_shards(process, tmp_path, 3)
    victim, *_ = actors()
    os.kill(victim, signal.SIGKILL)
    assert len(shards_there(tmp_path)) < COUNT // SHARD
    report = end(process)
    check(report, tmp_path, reference)
    assert len(report["workers"]) in (2, 3)  # the killed one may have made none


def test_a_killed_driver_leaves_whole_shards(cluster, source, saved, reference, tmp_path):
    process = begin(cluster, source, tmp_path, saved)
    wait_for_shards(process, tmp_path, 3)
    process.kill()
    process.communicate()
    there = shards(tmp_path)
    assert 3 <= len(there) < COUNT // SHARD
    assert there.items() <= reference[0].items()
    report = end(begin(cluster, source, tmp_path, saved))
    check(report, tmp_path, reference)
    assert report["skipped"] == len(there)


def test_a_lost_node_changes_no_byte(cluster, source, saved, reference, tmp_path):
    process = begin(cluster, source, tmp_path, saved)
    wait_for_shards(process, tmp_path, 3)
    cluster.remove_node(cluster.second, allow_graceful=False)
    try:
        check(end(process), tmp_path, reference)
    finally:
        cluster.second = cluster.add_node(num_cpus=1)


def test_errors_of_workers_are_those_of_the_command(cluster, joined, source, saved, tmp_path):
    load = {"source": saved, "device": "cpu"}
    settings = dac_rocm.distributed.Settings(n_codebooks=9)
    with pytest.raises(ShapeError, match="n_codebooks=9"):
        tokenize(source, tmp_path, load=load, settings=settings, engine=OnRay())
    with pytest.raises(BackendError, match="without room for a worker"):
        tokenize(source, tmp_path, load=load, settings=settings, engine=OnRay(gpus=1))
    assert not shards_there(tmp_path)


def test_a_job_that_kills_its_workers_is_named(cluster, joined):
    assert sorted(OnRay(2)(partial(getattr, operator, "neg"), [1, 2, 3])) == [-3, -2, -1]
    with pytest.raises(BackendError, match="died 4 times over one job"):
        list(OnRay(1)(partial(getattr, os, "_exit"), [1]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray Data's own
def test_stages_of_ray_data(cluster, joined, saved, tmp_path):
    """Files and tables, through actors of Ray Data, to Parquet files and back to audio."""
    from dac_rocm.distributed import DecodeActor, EncodeActor

    numbers = range(4, 12)
    write_parquet(tmp_path / "in.parquet", [content(i) for i in numbers])
    options = {"batch_format": "pyarrow", "batch_size": 4, "concurrency": 1, "num_cpus": 0.5}
    load = {"device": "cpu"}
    encoded = ray.data.read_parquet(str(tmp_path / "in.parquet")).map_batches(
        EncodeActor, fn_constructor_args=(saved,), fn_constructor_kwargs={"load": load}, **options
    )
    encoded.write_parquet(str(tmp_path / "out"))
    found = [pair for path in (tmp_path / "out").glob("*.parquet") for pair in read_shard(path)]
    good = [i for i in numbers if not is_broken(i)]
    assert len(found) == len(good)
    by_length = {}
    for _, recording in found:
        by_length.setdefault(recording.length, []).append(recording.codes)
    model = shared("even")
    for i in good:
        alone = dac_rocm.encode_audio(model, samples(i)[:, 0], 16000)
        assert any(np.array_equal(alone.codes, codes) for codes in by_length[alone.length])
    back = ray.data.read_parquet(str(tmp_path / "out")).map_batches(
        DecodeActor, fn_constructor_args=(saved,), fn_constructor_kwargs={"load": load}, **options
    )
    rows = back.take_all()
    assert sorted(len(row["audio"]) for row in rows) == sorted(len(samples(i)) for i in good)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray Data's own
def test_files_are_a_source_of_ray_data(cluster, joined, saved, tmp_path):
    from dac_rocm.distributed import EncodeActor

    (tmp_path / "a.wav").write_bytes(wav(3))
    made = ray.data.read_binary_files(str(tmp_path), include_paths=True).map_batches(
        EncodeActor,
        fn_constructor_args=(saved,),
        fn_constructor_kwargs={"audio_column": "bytes", "id_column": "path"},
        batch_format="pyarrow",
        concurrency=1,
        num_cpus=0.5,
    )
    (row,) = made.take_all()
    assert row["id"].endswith("a.wav") and row["error"] is None and len(row["codes"])


def test_pyarrow_reads_shards(reference):
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(sorted(map(str, shard_files(reference[2])))).to_table()
    assert table.num_rows == COUNT - 11
    assert table.column("model").unique().to_pylist() == [model_hash()]
    row = table.slice(0, 1).to_pylist()[0]
    assert np.reshape(row["codes"], row["shape"]).shape == (1, 4, 100)


def model_hash():
    from dac_rocm.distributed.header import header_of

    return header_of(shared("even")).model_hash


def test_datasets_reads_shards(reference, tmp_path):
    datasets = pytest.importorskip("datasets")
    files = sorted(map(str, shard_files(reference[2])))
    made = datasets.load_dataset(
        "parquet", data_files=files, split="train", cache_dir=str(tmp_path)
    )
    assert len(made) == COUNT - 11
    ((name, encoded), *_) = read_shard(shard_files(reference[2])[0])
    assert made[0]["id"] == name
    np.testing.assert_array_equal(np.reshape(made[0]["codes"], made[0]["shape"]), encoded.codes)


READ_WEBDATASET = """
import json, sys, webdataset
for sample in webdataset.WebDataset(sys.argv[1], shardshuffle=False).decode():
    print(json.dumps([sample["json"]["id"], sample["codes.npy"].tolist()]))
"""


def test_webdataset_reads_shards(source, saved, tmp_path):
    pytest.importorskip("webdataset")
    settings = dac_rocm.distributed.Settings(format="webdataset")
    load = {"source": saved, "device": "cpu"}
    tokenize(source / "00", tmp_path, load=load, settings=settings, shard_size=SHARD)
    wanted = [pair for path in shard_files(tmp_path) for pair in read_shard(path)]
    command = [sys.executable, "-c", READ_WEBDATASET, tmp_path / "shard-{000000..000001}.tar"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line, (name, encoded) in zip(done.stdout.splitlines(), wanted, strict=True):
        found, codes = json.loads(line)
        assert found == name
        np.testing.assert_array_equal(codes, encoded.codes)


def test_datasets_saves_what_we_read(saved, tmp_path):
    """The folder that `save_to_disk` writes, as a source."""
    datasets = pytest.importorskip("datasets")
    rows = {"audio": [{"bytes": wav(i), "path": None} for i in range(6)]}
    made = datasets.Dataset.from_dict(rows).cast_column("audio", datasets.Audio(decode=False))
    made.save_to_disk(str(tmp_path / "saved"), num_shards=2)
    summary = tokenize(tmp_path / "saved", tmp_path / "out", load={"source": saved})
    assert (summary.items, summary.done) == (6, 6)
    for i, (_, encoded) in enumerate(read_shard(shard_files(tmp_path / "out")[0])):
        check_codes(shared("even"), encoded, i)
