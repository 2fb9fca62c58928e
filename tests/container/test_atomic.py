import errno
from pathlib import Path

import pytest

from dac_rocm.atomic import atomic_write
from dac_rocm.errors import AudioError, OutputError


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_whole_at_the_end(tmp_path):
    target = tmp_path / "a.bin"
    with atomic_write(target) as file:
        file.write(b"12")
        file.seek(0)
        assert file.read() == b"12"
        assert not target.exists()
        assert len(files(tmp_path)) == 1
    assert target.read_bytes() == b"12"
    assert files(tmp_path) == ["a.bin"]


def test_the_mode_is_that_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    with atomic_write(tmp_path / "a"):
        pass
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_never_overwrites_unasked(tmp_path):
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with pytest.raises(OutputError, match="exists already"), atomic_write(target):
        pytest.fail("nothing should be computed for nothing")
    with atomic_write(target, overwrite=True) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"


def test_a_dangling_link_is_something(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError), atomic_write(tmp_path / "link"):
        pass


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appeared_meanwhile_is_kept(tmp_path, monkeypatch, has_links):
    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", refuse_links)
    target = tmp_path / "a"
    with pytest.raises(OutputError, match="exists already"), atomic_write(target):
        target.write_bytes(b"theirs")
    assert target.read_bytes() == b"theirs"
    assert files(tmp_path) == ["a"]


def refuse_links(self, target):
    raise OSError(errno.EPERM, "no hard links here")


def test_file_systems_without_hard_links(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "hardlink_to", refuse_links)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"1")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert files(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError, AudioError])
def test_nothing_is_left_after(tmp_path, error):
    with pytest.raises(error), atomic_write(tmp_path / "a") as file:
        file.write(b"1")
        raise error
    assert files(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_errors_of_the_disk(tmp_path, number):
    with (
        pytest.raises(OutputError, match="cannot be written") as caught,
        atomic_write(tmp_path / "a"),
    ):
        raise OSError(number, "the disk says so")
    assert caught.value.__cause__.errno == number
    assert files(tmp_path) == []


def test_a_missing_folder(tmp_path):
    with pytest.raises(OutputError, match="No such file") as caught, atomic_write(tmp_path / "b/a"):
        pass
    assert caught.value.__cause__.errno == errno.ENOENT


def test_a_folder_that_vanishes(tmp_path):
    folder = tmp_path / "b"
    folder.mkdir()
    with pytest.raises(OutputError, match="cannot be written"), atomic_write(folder / "a"):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def test_a_temporary_that_cannot_be_removed(tmp_path, monkeypatch):
    def refuse(self, missing_ok=False):
        raise OSError(errno.EIO, "gone")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "a"):
        raise ZeroDivisionError


def test_a_folder_as_target(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(OutputError), atomic_write(tmp_path / "b", overwrite=True) as file:
        file.write(b"1")
    assert files(tmp_path) == ["b"]


def test_the_longest_name(tmp_path):
    with atomic_write(tmp_path / ("x" * 255)):
        pass
    assert files(tmp_path) == ["x" * 255]
