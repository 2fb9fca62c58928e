"""What reads shards, and the building blocks for pipelines of one's own; no Ray here."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
import soundfile
import torch
from corpora import RATE, content, samples, wav, write_folder
from networks import shared
from torch.utils.data import DataLoader

import dac_rocm
from dac_rocm.distributed import (
    DecodeActor,
    EncodeActor,
    Settings,
    ShardDataset,
    dataset,
    read_shard,
    tokenize,
)
from dac_rocm.distributed.manifest import shard_files
from dac_rocm.errors import ContainerError, ShapeError


@pytest.fixture(scope="module", params=["parquet", "webdataset"])
def corpus(request, saved, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_folder(folder / "in", 20)
    settings = Settings(format=request.param)
    load = {"source": saved, "device": "cpu"}
    tokenize(folder / "in", folder / "out", load=load, shard_size=3, settings=settings)
    return folder / "out"


def ids(recordings):
    return [recording["id"] for recording in recordings]


def test_recordings_are_tensors_with_what_training_needs(corpus):
    found = list(ShardDataset(corpus))
    wanted = [pair for path in shard_files(corpus) for pair in read_shard(path)]
    assert ids(found) == [name for name, _ in wanted] and len(found) == 19
    for recording, (_, encoded) in zip(found, wanted, strict=True):
        assert recording["codes"].dtype == torch.int64
        np.testing.assert_array_equal(recording["codes"].numpy(), encoded.codes)
        assert recording["length"] == encoded.length
        assert recording["sample_rate"] == RATE
        assert recording["gain_db"] == encoded.level.db


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of DataLoader, from 3.12 on
@pytest.mark.parametrize("workers", [0, 2])
def test_every_recording_is_read_once(corpus, workers):
    loader = DataLoader(ShardDataset(corpus), batch_size=None, num_workers=workers)
    assert sorted(ids(loader)) == ids(ShardDataset(corpus))


def test_ranks_and_their_workers_share_the_shards(corpus, monkeypatch):
    class Info:
        num_workers = 2

    parts = []
    for rank in range(2):
        for number in range(2):
            Info.id = number
            monkeypatch.setattr(dataset, "get_worker_info", lambda: Info)
            parts.append(ids(ShardDataset(corpus, rank=rank, world_size=2)))
    assert all(parts) and sorted(itertools.chain(*parts)) == ids_alone(corpus, monkeypatch)


def ids_alone(corpus, monkeypatch):
    monkeypatch.setattr(dataset, "get_worker_info", lambda: None)
    return ids(ShardDataset(corpus))


def test_a_wrong_rank_or_folder_is_refused(corpus, tmp_path):
    with pytest.raises(ShapeError, match="rank 2 of 2"):
        ShardDataset(corpus, rank=2, world_size=2)
    with pytest.raises(ContainerError, match="no manifest"):
        ShardDataset(tmp_path)


def test_latents_are_as_stored(saved_vae, tmp_path):
    (tmp_path / "a.wav").write_bytes(wav(0))
    settings = Settings(latents_dtype="float16")
    tokenize(tmp_path, tmp_path / "out", load={"source": saved_vae}, settings=settings)
    (recording,) = ShardDataset(tmp_path / "out")
    assert recording["latents"].dtype == torch.float16


def test_an_actor_encodes_a_column(saved):
    numbers = range(5, 9)
    table = pa.table(
        {"path": [f"{i}.wav" for i in numbers], "bytes": [content(i) for i in numbers]}
    )
    actor = EncodeActor(
        saved, audio_column="bytes", id_column="path", load={"device": "cpu"}, readers=2
    )
    made = actor(table)
    assert made.column("id").to_pylist() == ["5.wav", "6.wav", "7.wav", "8.wav"]
    errors = made.column("error").to_pylist()
    assert [e is None for e in errors] == [True, True, False, True]
    model = shared("even")
    for i, codes, shape in zip(
        numbers, made.column("codes").to_pylist(), made.column("shape").to_pylist(), strict=True
    ):
        if codes is not None:
            alone = dac_rocm.encode_audio(model, samples(i)[:, 0], RATE)
            np.testing.assert_array_equal(np.reshape(codes, shape), alone.codes)


def test_actors_go_there_and_back(saved):
    table = pa.table({"audio": [{"bytes": content(i), "path": None} for i in range(6, 9)]})
    load = {"device": "cpu"}
    made = EncodeActor(saved, settings={"n_codebooks": 2, "batch": 2}, load=load)(table)
    assert made.column("id").to_pylist() == ["0", "1", "2"]
    back = DecodeActor(saved, load=load)(made)
    assert back.column("id").to_pylist() == ["0", "2"]
    model = shared("even")
    for row, i in zip(back.to_pylist(), (6, 8), strict=True):
        encoded = dac_rocm.encode_audio(model, samples(i)[:, 0], RATE, n_codebooks=2)
        expected, rate = dac_rocm.decode_audio(model, encoded)
        np.testing.assert_allclose(row["audio"], expected[0], atol=1e-5)
        assert (row["sample_rate"], row["channels"], row["error"]) == (rate, 1, None)


def test_an_actor_names_what_it_cannot_decode(saved, saved_vae):
    table = pa.table({"audio": [wav(0)]})
    made = EncodeActor(saved, load={"device": "cpu"})(table)
    (row,) = DecodeActor(saved_vae, load={"device": "cpu"})(made).to_pylist()
    assert row["audio"] is None and "decodes latents" in row["error"]


def test_an_actor_refuses_wrong_settings_at_once(saved):
    with pytest.raises(ShapeError, match="n_codebooks=9"):
        EncodeActor(saved, settings={"n_codebooks": 9})


def test_formats_of_libsndfile_may_lie_in_a_table(saved, tmp_path):
    soundfile.write(tmp_path / "a.flac", samples(2), RATE)
    made = EncodeActor(saved)(pa.table({"audio": [(tmp_path / "a.flac").read_bytes()]}))
    assert made.column("source_subtype").to_pylist() == ["PCM_16"]
