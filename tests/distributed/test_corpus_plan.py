"""Plans: which items, in which shards, from the source alone; and the items as audio."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from corpora import RATE, samples, wav, write_arrow, write_folder, write_parquet, write_tar

from dac_rocm.batch import Found
from dac_rocm.distributed import Shard, Span, items, make_plan, plan
from dac_rocm.distributed.items import items_of, open_bytes, row_item, without_temporary_paths
from dac_rocm.errors import AudioError, BackendError, OutputError, ShapeError, SourceError


@pytest.fixture
def mixture(tmp_path):
    write_folder(tmp_path, 5)
    write_parquet(tmp_path / "rows.parquet", [wav(i) for i in range(10, 21)])
    write_arrow(tmp_path / "saved", [wav(i) for i in range(30, 37)])
    write_tar(tmp_path / "train.tar", [wav(i) for i in range(40, 44)])
    (tmp_path / "notes.txt").write_text("passed over")
    return tmp_path


def test_every_kind_of_file_is_counted(mixture):
    made = make_plan(mixture, 10)
    assert made.items == 5 + 11 + 7 + 4
    assert [shard.items for shard in made.shards] == [10, 10, 7]
    assert made.shards[1] == Shard(
        1, (Span("rows.parquet", 5, 11), Span("saved/data-00000-of-00001.arrow", 0, 4))
    )


def test_a_plan_is_a_function_of_the_files(mixture):
    before = make_plan(mixture, 10)
    assert make_plan(mixture, 10) == before
    assert make_plan(mixture, 9).digest != before.digest
    (mixture / "00/00000.wav").write_bytes(wav(4))  # longer
    assert make_plan(mixture, 10).digest != before.digest


def read(root, made, column="audio"):
    for shard in made.shards:
        for item in items_of(root, shard.spans, column):
            with item.open() as reader:
                yield item.id, np.concatenate(list(reader.blocks()), axis=1)[0]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_items_are_the_audio_in_order(mixture, size):
    found = list(read(mixture, make_plan(mixture, size)))
    numbers = [*range(5), *range(10, 21), *range(30, 37), *range(40, 44)]
    for (_, audio), i in zip(found, numbers, strict=True):
        np.testing.assert_array_equal(audio, samples(i)[:, 0])
    names = [name for name, _ in found]
    assert len(set(names)) == len(names)
    assert names[0] == "00/00000.wav" and names[5] == "rows.parquet/0"
    assert names[16] == "saved/data-00000-of-00001.arrow/0" and names[-1] == "train.tar/0003.wav"


@pytest.mark.parametrize("name", ["rows.parquet", "train.tar", "00/00003.wav"])
def test_a_source_may_be_one_file(mixture, name):
    found = list(read(mixture / name, make_plan(mixture / name)))
    assert len(found) == {"rows.parquet": 11, "train.tar": 4}.get(name, 1)
    assert found[0][0].startswith(name.rsplit("/", maxsplit=1)[-1])


def test_ids_come_from_a_column(tmp_path):
    write_arrow(tmp_path / "saved", [wav(0), wav(1)], id=["a/x", "b"])
    assert [name for name, _ in read(tmp_path, make_plan(tmp_path))] == ["a/x", "b"]


def test_an_arrow_file_without_a_state_is_data(tmp_path):
    write_arrow(tmp_path / "saved", [wav(0)])
    (tmp_path / "saved/state.json").unlink()
    assert make_plan(tmp_path).items == 2


def test_a_state_that_cannot_be_read_is_refused(tmp_path):
    write_arrow(tmp_path / "saved", [wav(0)])
    (tmp_path / "saved/state.json").write_text("{")
    with pytest.raises(SourceError, match=r"state\.json"):
        make_plan(tmp_path)


@pytest.mark.parametrize(
    "row",
    [
        {"audio": {"array": samples(3)[:, 0].tolist(), "sampling_rate": RATE}},
        {"audio": samples(3)[:, 0].tolist(), "sample_rate": RATE},
        {"audio": samples(3).T.tolist(), "sampling_rate": RATE},
        {"audio": wav(3)},
        {"audio": {"bytes": wav(3), "path": None}},
    ],
    ids=["array", "samples", "channels", "bytes", "struct"],
)
def test_rows_hold_audio_in_many_ways(row):
    with row_item("x", row, "audio").open() as reader:
        audio = np.concatenate(list(reader.blocks()), axis=1)
    np.testing.assert_array_equal(audio[0], samples(3)[:, 0])
    assert reader.sample_rate == RATE


def test_rows_may_name_files(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(wav(2))
    for value in (str(path), {"bytes": None, "path": str(path)}):
        with row_item("x", {"audio": value}, "audio").open() as reader:
            assert reader.length == len(samples(2))


@pytest.mark.parametrize("value", [None, {"bytes": None, "path": None}, [0.0, 0.1]])
def test_a_row_without_audio_says_what_it_has(value):
    with pytest.raises(AudioError, match="no audio found in column 'audio' of x, which has audio"):
        row_item("x", {"audio": value, "text": "words"}, "audio").open()


def test_broken_files_are_items_that_fail(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "b.tar").write_bytes(b"no tar")
    (tmp_path / "c.wav").symlink_to(tmp_path / "nowhere")
    made = make_plan(tmp_path)
    assert made.items == 3
    found = list(items_of(tmp_path, made.shards[0].spans, "audio"))
    assert [item.id for item in found] == ["a.parquet/0", "b.tar/0", "c.wav"]
    for item in found:
        with pytest.raises(Exception, match=r"."):
            item.open()


def test_a_file_that_lost_items_since_the_plan_fails_by_item(tmp_path):
    write_parquet(tmp_path / "rows.parquet", [wav(i) for i in range(6)])
    made = make_plan(tmp_path)
    write_parquet(tmp_path / "rows.parquet", [wav(i) for i in range(4)])
    found = list(items_of(tmp_path, made.shards[0].spans, "audio"))
    assert [item.id for item in found] == [f"rows.parquet/{i}" for i in range(6)]
    with pytest.raises(AudioError, match=r"fewer items found in rows\.parquet than when the plan"):
        found[5].open()


def test_large_batches_of_rows_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(items, "ROWS", 2)
    write_parquet(tmp_path / "rows.parquet", [wav(i) for i in range(7)], rows=5)
    found = list(read(tmp_path, make_plan(tmp_path, 3)))
    assert [name for name, _ in found] == [f"rows.parquet/{i}" for i in range(7)]
    np.testing.assert_array_equal(found[6][1], samples(6)[:, 0])


def test_nothing_to_do_is_refused(tmp_path):
    with pytest.raises(SourceError, match="no items found"):
        make_plan(tmp_path)
    with pytest.raises(SourceError, match="nothing found"):
        make_plan(tmp_path / "nowhere")
    with pytest.raises(ShapeError, match="shards of 0 items"):
        make_plan(tmp_path, 0)


def test_a_folder_that_cannot_be_listed_ends_the_plan(mixture, monkeypatch):
    found = Found(unreadable=[(mixture / "x", "Permission denied")])
    monkeypatch.setattr(plan, "find", lambda *_: found)
    with pytest.raises(SourceError, match="Permission denied"):
        make_plan(mixture)


def test_messages_do_not_name_temporary_files():
    with pytest.raises(AudioError) as caught:
        open_bytes("a/b c.wav", b"no audio")
    text = without_temporary_paths(str(caught.value))
    assert "decoded in a_b_c.wav (" in text and "tmp" not in text


def test_a_full_disk_is_no_fault_of_the_item(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(items.Path, "write_bytes", full)
    with pytest.raises(OutputError, match="No space left"):
        open_bytes("a", wav(0))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    write_parquet(tmp_path / "rows.parquet", [wav(0)])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(BackendError, match=r"pip install 'dac_rocm\[ray\]'"):
        make_plan(tmp_path)


def test_real_files_of_datasets_are_read_as_they_are_documented(tmp_path):
    """The columns that the Hub's Parquet files have: a struct with bytes and path."""
    soundfile.write(tmp_path / "x.flac", samples(4), RATE)
    row = {"bytes": (tmp_path / "x.flac").read_bytes(), "path": "x.flac"}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"speech": pa.array([row], kind)}), tmp_path / "t.parquet")
    (tmp_path / "x.flac").unlink()
    ((_, audio),) = read(tmp_path, make_plan(tmp_path), "speech")
    np.testing.assert_allclose(audio, samples(4)[:, 0], atol=1 / 32768)
