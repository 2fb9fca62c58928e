from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dac_rocm.batch import AUDIO_SUFFIXES, find, pair
from dac_rocm.batch.paths import Source
from dac_rocm.errors import OutputError, SourceError


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return folder


def names(found):
    return [source.relative.as_posix() for source in found.sources]


def targets(*relative, suffix=".dacz"):
    sources = [Source(Path("in", name), Path(name)) for name in relative]
    return [job.target.as_posix() for job in pair(sources, Path("out"), suffix)]


def test_searches_to_the_bottom_in_any_case(tmp_path):
    make(tmp_path, "b.FLAC", "a/x.WAV", "a/deep/y.mp3", "a.wav", "notes.txt")
    found = find([tmp_path], AUDIO_SUFFIXES)
    assert names(found) == ["a.wav", "a/deep/y.mp3", "a/x.WAV", "b.FLAC"]
    assert found.others == 1
    assert found.sources[0].path == tmp_path / "a.wav"


def test_hidden_and_temporary_files_are_passed_over(tmp_path):
    make(tmp_path, ".a.wav", "._b.wav", ".git/c.wav", ".dac_rocm-0123.part", "d.wav.part", "e.wav~")
    assert names(find([tmp_path], AUDIO_SUFFIXES)) == []


def test_a_folder_with_a_suffix_is_a_folder(tmp_path):
    make(tmp_path, "x.wav/y.wav")
    assert names(find([tmp_path], AUDIO_SUFFIXES)) == ["x.wav/y.wav"]


def test_loops_end(tmp_path):
    make(tmp_path, "in/a/b.wav", "else/c.wav")
    (tmp_path / "in/a/up").symlink_to(tmp_path / "in")
    (tmp_path / "in/twin").symlink_to("a")
    (tmp_path / "in/out").symlink_to(tmp_path / "else")
    (tmp_path / "else/back").symlink_to(tmp_path)
    assert names(find([tmp_path / "in"], AUDIO_SUFFIXES)) == ["a/b.wav", "out/c.wav"]


def test_a_broken_link_is_named_later(tmp_path):
    (tmp_path / "a.wav").symlink_to("nowhere")
    assert names(find([tmp_path], AUDIO_SUFFIXES)) == ["a.wav"]


def test_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    make(tmp_path, "a/b.wav", "c.wav")
    listed = Path.iterdir

    def refuse(path):
        if path.name == "a":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    found = find([tmp_path], AUDIO_SUFFIXES)
    assert names(found) == ["c.wav"]
    assert found.unreadable == [(tmp_path / "a", "Permission denied")]


def test_several_inputs_keep_their_names(tmp_path):
    make(tmp_path, "one/a.wav", "two/a.wav", "b.any")
    inputs = [tmp_path / "one", tmp_path / "two", tmp_path / "b.any"]
    assert names(find(inputs, AUDIO_SUFFIXES)) == ["b.any", "one/a.wav", "two/a.wav"]


def test_nothing_there(tmp_path):
    with pytest.raises(SourceError, match="nothing found"):
        find([tmp_path / "a"], AUDIO_SUFFIXES)


def test_names_are_short_where_they_can_be():
    assert targets("a.wav", "b/a.flac", "take.2.wav") == [
        "out/a.dacz",
        "out/b/a.dacz",
        "out/take.2.dacz",
    ]


def test_those_that_would_collide_keep_their_suffix():
    assert targets("a.flac", "a.wav", "A.WAV") == [
        "out/a.flac.dacz",
        "out/a.wav.dacz",
        "out/A.dacz",
    ]
    assert targets("a.flac", "a.wav", "a.wav.mp3") == [
        "out/a.flac.dacz",
        "out/a.wav.dacz",
        "out/a.wav.mp3.dacz",
    ]


def test_two_inputs_for_one_place():
    with pytest.raises(OutputError, match=r"out/a\.wav\.dacz"):
        targets("a.wav", "a.wav")


PART = st.sampled_from(["a", "b", "a.wav", "a.flac", "A"])


@given(st.sets(st.tuples(PART, st.sampled_from([".wav", ".flac", ".WAV", ""])), min_size=1))
def test_no_two_targets_are_the_same(files):
    made = targets(*sorted({stem + suffix for stem, suffix in files}))
    assert len(set(made)) == len(made)
