"""Shards as files: what goes in comes out, the same bytes each time, damage is named."""

import io
import json
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from networks import shared

import dac_rocm
from dac_rocm import EncodedAudio
from dac_rocm.distributed import read_shard, tables
from dac_rocm.distributed.header import Header, header_of
from dac_rocm.distributed.shards import FORMATS, write_shard
from dac_rocm.distributed.tables import from_table, to_table
from dac_rocm.encoded import Gain, ModelStamp
from dac_rocm.errors import ContainerError, SourceError

KINDS = list(FORMATS)
DTYPES = ("uint16", "float32", "float16")


HASHES = {"codebooks": "ab" * 8, "encoder": "cd" * 8}


def header(dtype):
    """That of a model whose latents, as those of all, have no codebooks."""
    known = HASHES if dtype == "uint16" else {"encoder": HASHES["encoder"]}
    return Header(
        model=ModelStamp(name="m", fingerprints=known),
        model_rate=16000,
        hop_length=320,
        codebook_size=1024 if dtype == "uint16" else None,
        dtype=dtype,
    )


def recordings(dtype, count=5):
    rng = np.random.default_rng(0)
    made = []
    for i in range(count):
        data = (1000 * rng.random((1 + i % 2, 3, 10 * i + 1))).astype(dtype)
        encoded = EncodedAudio(
            data=data,
            sample_rate=44100,
            channels=1 + i % 2,
            length=1000 * i + 7,
            level=Gain(-3.5 + i),
            source_subtype="PCM_16" if i else None,
        )
        made.append((f"ordner/ä{i}.wav", encoded))
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(tmp_path, kind, dtype):
    about, wanted = header(dtype), recordings(dtype)
    path = tmp_path / f"shard{FORMATS[kind].suffix}"
    path.write_bytes(write_shard(wanted, about, 3, kind))
    for (name, found), (expected_name, expected) in zip(read_shard(path), wanted, strict=True):
        assert name == expected_name
        assert found.data.dtype == dtype
        np.testing.assert_array_equal(found.data, expected.data)
        for key in ("sample_rate", "channels", "length", "level", "source_subtype"):
            assert getattr(found, key) == getattr(expected, key)
        assert (found.model, found.model_rate, found.hop_length) == (about.model, 16000, 320)
        assert found.codebook_size == about.codebook_size


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_a_function_of_the_recordings(kind):
    one, two = (write_shard(recordings("uint16"), header("uint16"), 0, kind) for _ in range(2))
    assert one == two
    assert one != write_shard(recordings("uint16", 4), header("uint16"), 0, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_may_be_empty(tmp_path, kind):
    path = tmp_path / f"shard{FORMATS[kind].suffix}"
    path.write_bytes(write_shard([], header("uint16"), 0, kind))
    assert list(read_shard(path)) == []


def test_row_groups_have_a_fixed_size(monkeypatch):
    monkeypatch.setattr(tables, "ROW_GROUP", 2)
    data = write_shard(recordings("uint16"), header("uint16"), 0, "parquet")
    groups = pq.ParquetFile(io.BytesIO(data)).metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [2, 2, 1]


def test_codes_take_about_their_bits():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 1024, (1, 8, 5000)).astype(np.uint16)
    encoded = EncodedAudio(data=codes, sample_rate=16000, channels=1, length=1)
    data = write_shard([("a", encoded)], header("uint16"), 0, "parquet")
    assert 10 * codes.size / 8 < len(data) < 1.1 * (10 * codes.size / 8 + 8192)


def test_members_of_a_tar_have_no_time_and_sorted_names():
    data = write_shard(recordings("uint16"), header("uint16"), 12, "webdataset")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
    names = [m.name for m in members]
    assert names == sorted(names) and names[0] == "000012-000000.codes.npy"
    assert {(m.mtime, m.uid, m.uname, m.mode) for m in members} == {(0, 0, "", 0o644)}


def test_rows_that_failed_are_null(tmp_path):
    (name, encoded), *_ = recordings("uint16")
    table = to_table([(name, encoded), ("bad", "why")], header("uint16"), failures=True)
    assert table.column("error").to_pylist() == [None, "why"]
    assert table.column("codes").null_count == table.column("shape").null_count == 1
    assert [found for found, _ in from_table(table)] == [name]
    pq.write_table(table, tmp_path / "x.parquet")
    assert [found for found, _ in read_shard(tmp_path / "x.parquet")] == [name]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_table_that_lost_its_header_still_names_its_model(dtype):
    wanted = recordings(dtype)
    table = to_table(wanted, header(dtype)).replace_schema_metadata(None)
    for (_, found), (_, expected) in zip(from_table(table), wanted, strict=True):
        np.testing.assert_array_equal(found.data, expected.data)
        assert found.data.dtype == dtype and found.model_rate is None
        assert found.model.fingerprints == {
            k: v for k, v in HASHES.items() if k == "encoder" or dtype == "uint16"
        }


def test_a_slice_of_a_table_is_read_right():
    wanted = recordings("uint16")
    table = to_table(wanted, header("uint16"))
    ((name, found),) = from_table(table.slice(3, 1))
    assert name == wanted[3][0]
    np.testing.assert_array_equal(found.data, wanted[3][1].data)


def spoil(kind, data):
    return {"cut": data[: len(data) // 2], "other": b"no shard" * 100, "empty": b""}[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["cut", "other", "empty"])
def test_damage_is_named(tmp_path, kind, damage):
    path = tmp_path / f"shard{FORMATS[kind].suffix}"
    path.write_bytes(spoil(damage, write_shard(recordings("uint16"), header("uint16"), 0, kind)))
    with pytest.raises(ContainerError, match="a shard that cannot be read found"):
        list(read_shard(path))


def test_what_is_no_shard_is_refused(tmp_path):
    with pytest.raises(SourceError, match="no shard found"):
        list(read_shard(tmp_path / "none.parquet"))
    with pytest.raises(ContainerError, match=r"ends with \.parquet or \.tar"):
        list(read_shard(tmp_path / "a.wav"))
    pq.write_table(pa.table({"codes": [[1]]}), tmp_path / "a.parquet")
    with pytest.raises(ContainerError, match="without the column 'id'"):
        list(read_shard(tmp_path / "a.parquet"))
    table = to_table(recordings("uint16"), header("uint16")).drop_columns(["shape"])
    with pytest.raises(ContainerError, match="without the column 'shape'"):
        list(from_table(table))


def test_a_header_that_is_none_is_refused():
    about = header("uint16")
    assert Header.from_dict(json.loads(json.dumps(about.to_dict()))) == about
    with pytest.raises(ContainerError, match="lacks or spoils 'hop_length'"):
        Header.from_dict({k: v for k, v in about.to_dict().items() if k != "hop_length"})
    with pytest.raises(ContainerError, match="lacks or spoils"):
        Header.from_dict({**about.to_dict(), "dtype": "no type"})


def test_the_model_hash_is_that_of_the_encoding_half():
    whole = header_of(shared("even"))
    assert set(whole.model.fingerprints) == {"codebooks", "encoder"}
    assert whole.model_hash == "-".join(whole.model.fingerprints.values())
    assert header_of(shared("meta"), "float16").dtype == "float16"
    assert "-" not in header_of(shared("meta")).model_hash


def test_recordings_decode_as_files_do(tmp_path):
    model = shared("even")
    audio = np.random.default_rng(0).uniform(-0.3, 0.3, 5000).astype(np.float32)
    encoded = dac_rocm.encode_audio(model, audio, 22050)
    path = tmp_path / "a.tar"
    path.write_bytes(write_shard([("a", encoded)], header_of(model), 0, "webdataset"))
    ((_, found),) = read_shard(path)
    expected, rate = dac_rocm.decode_audio(model, encoded)
    again, rate_again = dac_rocm.decode_audio(model, found)
    np.testing.assert_array_equal(again, expected)
    assert rate == rate_again == 22050
