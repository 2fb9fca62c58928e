import errno
import fcntl
import os
import tempfile

import pytest

from dac_rocm.batch import claimed
from dac_rocm.errors import OutputError

STALE = ".dac_rocm-0123456789abcdef.part"


def test_what_a_killed_run_left_is_removed(tmp_path):
    (tmp_path / "deep").mkdir()
    kept = {"a.dacz", ".dac_rocm-mine.part", "b.part"}
    for name in (STALE, f"deep/{STALE}", *kept):
        (tmp_path / name).write_bytes(b"")
    with claimed(tmp_path):
        assert {p.name for p in tmp_path.rglob("*") if p.is_file()} == kept


def test_not_while_another_run_is_at_work(tmp_path):
    with claimed(tmp_path):
        (tmp_path / STALE).write_bytes(b"theirs")
        with claimed(tmp_path):
            assert (tmp_path / STALE).exists()
    with claimed(tmp_path):
        assert not (tmp_path / STALE).exists()


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / STALE).write_bytes(b"")
    with claimed(tmp_path):
        assert (tmp_path / STALE).exists()


def test_the_folder_is_made(tmp_path):
    with claimed(tmp_path / "a/b"):
        assert (tmp_path / "a/b").is_dir()
    assert not list((tmp_path / "a/b").iterdir())


def test_a_file_in_its_place(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(OutputError, match="cannot be written to"), claimed(tmp_path / "a"):
        pass


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch, number):
    def refuse(**_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(OutputError, match="expected"), claimed(tmp_path):
        pass
