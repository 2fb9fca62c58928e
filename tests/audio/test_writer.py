"""What is written is read back; what must not be written leaves nothing behind."""

import errno
import io

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from dac_rocm.audio.files import open_audio, read_audio
from dac_rocm.audio.stream import open_stream
from dac_rocm.audio.wav import WavHeader, make_header
from dac_rocm.audio.writer import SUBTYPES, create_audio, create_stream
from dac_rocm.errors import AudioError, OutputError, ShapeError

STEP = {"pcm16": 2.0**-15, "pcm24": 2.0**-23, "float32": 0.0}
TARGETS = [("a.wav", s) for s in SUBTYPES] + [("A.FLAC", "pcm16"), ("a.flac", "pcm24")]


def noise(channels=2, n=1000, peak=0.99):
    rng = np.random.default_rng(channels)
    return rng.uniform(-peak, peak, (channels, n)).astype(np.float32)


def write(path, audio, subtype="pcm16", cuts=(), **options):
    with create_audio(path, 16000, len(audio), subtype=subtype, **options) as writer:
        for part in np.split(audio, cuts, axis=1):
            writer.write(part)
    return writer


@pytest.mark.parametrize("channels", [1, 2, 3, 6, 8])
@pytest.mark.parametrize("name, subtype", TARGETS)
def test_round_trip(tmp_path, name, subtype, channels):
    audio = noise(channels, 1001)
    writer = write(tmp_path / name, audio, subtype, cuts=[1, 500])
    back, rate = read_audio(tmp_path / name)
    assert rate == 16000 and back.shape == audio.shape
    assert np.abs(back - audio).max() <= STEP[subtype] / 2
    assert writer.length == 1001 and writer.clipped == 0
    assert writer.peak == np.abs(audio).max()
    assert [p.name for p in tmp_path.iterdir()] == [name]
    info = soundfile.info(tmp_path / name)
    assert info.subtype == {"pcm16": "PCM_16", "pcm24": "PCM_24", "float32": "FLOAT"}[subtype]
    assert "(should be" not in info.extra_info


@pytest.mark.parametrize("name, subtype", TARGETS)
def test_what_was_read_is_written_unchanged(tmp_path, name, subtype):
    bits = {"pcm16": 16, "pcm24": 24, "float32": 24}[subtype]
    integers = np.random.default_rng(0).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (1, 999))
    audio = (integers / 2.0 ** (bits - 1)).astype(np.float32)
    write(tmp_path / name, audio, subtype)
    assert np.array_equal(read_audio(tmp_path / name)[0], audio)


@pytest.mark.parametrize("name, subtype", TARGETS)
def test_clips_and_counts(tmp_path, name, subtype):
    audio = np.array([[0.0, 1.0, 1.5, -1.0, -4.0, 42.4]], np.float32)
    writer = write(tmp_path / name, audio, subtype)
    back, _ = read_audio(tmp_path / name)
    floats = subtype == "float32"
    assert np.abs(back - (audio if floats else audio.clip(-1, 1))).max() <= STEP[subtype]
    assert writer.clipped == (0 if floats else 3)
    assert writer.peak == np.float32(42.4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_is_never_written(tmp_path, bad):
    audio = noise()
    audio[1, 700] = bad
    with pytest.raises(AudioError, match="NaN or infinity in the 500 samples from 500 on"):
        write(tmp_path / "a.wav", audio, cuts=[500])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name, subtype", TARGETS)
def test_an_error_leaves_what_was_there(tmp_path, name, subtype):
    path = tmp_path / name
    path.write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists already"):
        write(path, noise(), subtype)
    with (
        pytest.raises(RuntimeError),
        create_audio(path, 16000, 2, subtype=subtype, overwrite=True) as w,
    ):
        w.write(noise())
        raise RuntimeError
    assert path.read_bytes() == b"mine"
    write(path, noise(), subtype, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "name, subtype", [("a.mp3", "pcm16"), ("a", "pcm16"), ("a.flac", "float32"), ("a.wav", "s16")]
)
def test_refused_targets(tmp_path, name, subtype):
    with pytest.raises(AudioError, match="expected"):
        write(tmp_path / name, noise(), subtype)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [(1, 10), (10,), (3, 10)])
def test_wrong_channels(tmp_path, shape):
    with pytest.raises(ShapeError), create_audio(tmp_path / "a.wav", 16000, 2) as writer:
        writer.write(np.zeros(shape, np.float32))


def test_flac_says_what_it_cannot_hold(tmp_path):
    with (
        pytest.raises(OutputError, match="FLAC"),
        create_audio(tmp_path / "a.flac", 999_999, 1) as w,
    ):
        w.write(noise(1))
    assert list(tmp_path.iterdir()) == []


class Full(io.BytesIO):
    def write(self, data):
        if self.tell() > 1000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("subtype", SUBTYPES)
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_stream_is_wav_of_unknown_length(subtype, channels):
    audio = noise(channels)
    file = io.BytesIO()
    file.seek = None
    create_stream(file, 16000, channels, subtype=subtype).write(audio)
    data = io.BytesIO(file.getvalue())
    reader = open_stream(data)
    assert reader.length is None and reader.channels == channels
    (ours,) = reader.blocks()
    theirs, rate = soundfile.read(io.BytesIO(file.getvalue()), dtype="float32", always_2d=True)
    assert rate == 16000 and np.array_equal(ours, theirs.T)
    assert np.abs(ours - audio).max() <= STEP[subtype] / 2


def test_stream_on_a_full_disk():
    writer = create_stream(Full(), 16000, 2)
    writer.write(noise())
    with pytest.raises(OSError, match="No space"):
        writer.write(noise())


@given(
    st.lists(st.integers(0, 300), max_size=5),
    st.sampled_from(list(SUBTYPES)),
    st.integers(1, 3),
)
def test_any_division_writes_the_same_bytes(cuts, subtype, channels):
    audio = noise(channels, 300)
    whole, parts = io.BytesIO(), io.BytesIO()
    create_stream(whole, 8000, channels, subtype=subtype, raw=True).write(audio)
    writer = create_stream(parts, 8000, channels, subtype=subtype, raw=True)
    for part in np.split(audio, sorted(cuts), axis=1):
        writer.write(part)
    assert parts.getvalue() == whole.getvalue()
    assert writer.length == 300


@pytest.mark.parametrize("length", [2**31 - 100, 2**31, 2**33])
def test_beyond_4_gib(tmp_path, length):
    header = make_header(WavHeader(48000, 1, "s16", length))
    assert len(header) == len(make_header(WavHeader(48000, 1, "s16", 0)))
    with (tmp_path / "a.wav").open("wb") as file:
        file.write(header)
        file.truncate(len(header) + 2 * length)  # sparse
    with open_audio(tmp_path / "a.wav") as reader:
        assert reader.length == length
        assert next(reader.blocks(10)).shape == (1, 10)
