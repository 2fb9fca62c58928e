"""Frame headers of MP3, made here byte by byte."""

import pytest

from dac_rocm.audio.mp3 import refuse_unknown_length, walk
from dac_rocm.errors import AudioError

KBPS = (None, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)


def frame(kbps, body=b"", mono=True):
    """Return one MPEG-1 layer III frame at 44.1 kHz."""
    header = bytes([0xFF, 0xFB, KBPS.index(kbps) << 4, 0xC0 if mono else 0x40])
    return (header + body).ljust(144_000 * kbps // 44100, b"\0")


def info(tag, mono, flags):
    return frame(128, bytes(17 if mono else 32) + tag + bytes([0, 0, 0, flags]), mono)


def id3(size, footer=False):
    sizes = bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0))
    tag = b"ID3\x04\0" + bytes([0x10 if footer else 0]) + sizes + b"\xff\xfb\x90\xc0" * (size // 4)
    return tag.ljust(10 + size, b"\0") + bytes(10 if footer else 0)


@pytest.fixture
def check(tmp_path):
    def check(data):
        (tmp_path / "a.mp3").write_bytes(data)
        refuse_unknown_length(tmp_path / "a.mp3")

    return check


def test_walk_finds_every_frame():
    rates = [32, 320, 128, 64]
    data = b"".join(map(frame, rates))
    assert [f.kbps for f in walk(data)] == rates
    assert sum(f.size for f in walk(data)) == len(data)


@pytest.mark.parametrize("footer", [False, True])
def test_walk_skips_id3(footer):
    tag = id3(3000, footer)
    frames = list(walk(tag + frame(64) * 3 + b"TAG".ljust(128, b"\0")))
    assert frames[0].offset == len(tag)
    assert len(frames) == 3


def test_walk_skips_noise_before_the_first_frame():
    data = b"\xff\xfb\x90\xc0 noise" + frame(96) * 2
    assert [f.offset for f in walk(data)] == [10, 10 + len(frame(96))]


@pytest.mark.parametrize(
    "header, size",
    [
        ("fffb90c0", 417),  # MPEG-1 layer III, 128 kbit/s, 44.1 kHz
        ("fffb92c0", 418),  # padded
        ("fffd90c0", 522),  # layer II, 160
        ("ffff90c0", 312),  # layer I, 288
        ("fff390c0", 261),  # MPEG-2 layer III, 80, 22.05 kHz
        ("fff590c0", 522),  # MPEG-2 layer II, 80
        ("ffe398c0", 720),  # MPEG-2.5 layer III, 80, 8 kHz
    ],
)
def test_frame_sizes(header, size):
    data = bytes.fromhex(header).ljust(size, b"\0")
    assert [f.size for f in walk(data * 2)] == [size, size]


@pytest.mark.parametrize("header", ["ffeb90c0", "fff990c0", "fffb00c0", "fffbf0c0", "fffb9cc0"])
def test_no_header(header):
    assert list(walk(bytes.fromhex(header) * 300)) == []


def test_constant_bitrate_is_fine(check):
    check(frame(64) * 20)
    check(b"no mp3 at all")


def test_changing_bitrate_is_refused(check):
    with pytest.raises(AudioError, match=r"of 32 to 96 kbit/s and no Xing .*a\.mp3"):
        check(frame(64) + frame(32) * 3 + frame(96))


@pytest.mark.parametrize("mono", [True, False])
@pytest.mark.parametrize("tag", [b"Xing", b"Info"])
def test_a_header_with_the_length_is_fine(check, tag, mono):
    check(info(tag, mono, 1) + frame(32, mono=mono) + frame(96, mono=mono))


def test_a_header_without_the_length_is_not(check):
    with pytest.raises(AudioError):
        check(info(b"Xing", True, 2) + frame(32) + frame(96))


def test_vbri_does_not_help_libsndfile(check):
    vbri = frame(128, bytes(32) + b"VBRI")
    check(vbri + frame(64) * 3)
    with pytest.raises(AudioError):
        check(vbri + frame(32) + frame(96))
