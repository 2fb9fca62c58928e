"""Every real, odd and broken file behaves as its manifest says."""

import csv
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import soundfile

from dac_rocm.audio.files import open_audio, read_audio
from dac_rocm.errors import AudioError, DacError, SourceError

DATA = Path(__file__).parents[1] / "data"
SHARED = Path(__file__).parents[2].parent / "shared"
CUT = {"truncated_data.wav", "mp3_truncated.mp3", "ogg_truncated.ogg"}
LENGTHS = {
    "ima_adpcm.wav": (8000, 8505),
    "vbr_no_xing.mp3": (44100, 47000),
    "flac_truncated.flac": (1, 22049),
    "flac_damaged_frame.flac": (22050, 22050),
    "mp3_truncated.mp3": (1, 44100),
    "ogg_truncated.ogg": (12800, 24000),
}


def rows(name):
    """Rows of the manifests under tests/data, and those of ../shared that are not there."""
    found = {}
    for folder in (SHARED / name, DATA / name):
        if (folder / "MANIFEST.tsv").exists():
            with (folder / "MANIFEST.tsv").open(encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                    found[row["file"]] = pytest.param(folder, row, id=row["file"])
    return list(found.values())


@pytest.fixture
def tone(tmp_path):
    """Write a tone in a format, and return its path."""

    def write(name, n=48000, channels=1, rate=48000, **options):
        wave = 0.3 * np.sin(np.arange(n * channels).reshape(n, channels) * 0.05)
        soundfile.write(tmp_path / name, wave, rate, **options)
        return tmp_path / name

    return write


@pytest.mark.parametrize("folder, row", rows("audio"))
def test_real_clip(folder, row):
    path = folder / row["file"]
    with open_audio(path) as reader:
        assert reader.sample_rate == int(row["rate"])
        assert reader.length == int(row["frames"])
        assert row["subtype"].endswith(reader.subtype)
        blocks = list(reader.blocks(10_000))
    audio = np.concatenate(blocks, axis=1)
    assert audio.shape == (int(row["channels"]), int(row["frames"]))
    assert audio.dtype == np.float32 and audio.flags.c_contiguous
    assert abs(np.abs(audio).max() - float(row["peak"])) < 6e-4
    assert np.array_equal(audio, read_audio(path)[0])


@pytest.mark.parametrize("folder, row", rows("audio_odd"))
def test_odd_file(folder, row):
    name = row["file"].removesuffix("/inside.txt")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            audio, rate = read_audio(folder / name)
        except DacError as error:
            assert "error" in row["expect"]
            assert name in str(error) and "expected" in str(error)
            return
    assert "ok" in row["expect"]
    assert rate == int(row["rate"])
    assert not row["channels"] or len(audio) == int(row["channels"])
    low, high = LENGTHS.get(name, (row["frames"],) * 2)
    assert int(low) <= audio.shape[1] <= int(high)
    assert np.isfinite(audio).all()
    assert [name in str(w.message) for w in caught] == [True] * (name in CUT)


@pytest.mark.parametrize(
    "suffix, subtype",
    [
        ("wav", "PCM_16"),
        ("aiff", "PCM_24"),
        ("au", "PCM_16"),
        ("w64", "PCM_16"),
        ("rf64", "PCM_16"),
        ("ogg", "VORBIS"),
        ("opus", "OPUS"),
    ],
)
def test_a_cut_file_is_said(tone, suffix, subtype):
    formats = {"opus": "OGG"}
    path = tone(f"a.{suffix}", 480_000, format=formats.get(suffix, suffix.upper()), subtype=subtype)
    assert read_audio(path)[0].shape == (1, 480_000)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 4 // 5])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            assert 0 < read_audio(path)[0].shape[1] < 480_000
        except AudioError as error:
            assert f"a.{suffix}" in str(error)
        else:
            assert "cut short" in str(caught[0].message)


@pytest.mark.parametrize("channels", range(1, 9))
def test_up_to_8_channels(tone, channels):
    audio, _ = read_audio(tone("a.wav", 100, channels))
    assert audio.shape == (channels, 100)
    assert np.abs(audio[-1, 1] - 0.3 * np.sin((2 * channels - 1) * 0.05)) < 1e-4


def test_9_channels_are_refused(tone):
    with pytest.raises(AudioError, match=r"9 channels at 48000 Hz in .*a\.wav.*1 to 8"):
        open_audio(tone("a.wav", 100, 9))


def test_an_impossible_rate_is_refused(tone):
    with pytest.raises(AudioError, match="2000000000 Hz"):
        open_audio(tone("a.wav", 100, rate=2_000_000_000))


def test_missing_and_folder(tmp_path):
    with pytest.raises(SourceError, match=r"none\.wav \(No such file"):
        open_audio(tmp_path / "none.wav")
    with pytest.raises(SourceError, match="folder"):
        open_audio(tmp_path)


def test_the_first_bad_sample_is_named(tmp_path):
    audio = np.zeros((100_000, 2), np.float32)
    audio[70_000, 1], audio[70_001, 0] = np.inf, np.nan
    soundfile.write(tmp_path / "a.wav", audio, 16000, subtype="FLOAT")
    with (
        open_audio(tmp_path / "a.wav") as reader,
        pytest.raises(AudioError, match=r"sample 70000 \(4\.375000 s\)"),
    ):
        list(reader.blocks())


def test_a_length_that_flac_does_not_state(tone):
    path = tone("a.flac", 8000)
    data = bytearray(path.read_bytes())
    data[21] &= 0xF0
    data[22:26] = bytes(4)
    path.write_bytes(data)
    with open_audio(path) as reader:
        assert reader.length is None
        assert sum(block.shape[1] for block in reader.blocks()) == 8000


def test_a_minute_loads_quickly(tone):
    path = tone("a.wav", 60 * 44100, 2, 44100)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        read_audio(path)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.2
