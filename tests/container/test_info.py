import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dac_rocm.container import container_format, read_encoded, read_info, write_encoded
from dac_rocm.encoded import EncodedAudio, Gain, Loudness, ModelStamp
from dac_rocm.errors import (
    ContainerError,
    OutputError,
    SourceError,
    TruncatedFileError,
    UnknownContainerError,
)

DATA = Path(__file__).parents[1] / "data" / "descript_files"


def example(**changes):
    values = {
        "data": np.arange(2 * 9 * 100, dtype=np.uint16).reshape(2, 9, 100) % 1000,
        "sample_rate": 48000,
        "channels": 2,
        "length": 55_000,
        "model_rate": 44100,
        "hop_length": 512,
        "codebook_size": 1000,
        "level": Gain(-3.5),
        "model": ModelStamp(name="tiny", fingerprints={"codebooks": "0" * 16}),
        "source_subtype": "PCM_24",
    }
    return EncodedAudio(**{**values, **changes})


def test_info_of_dacz(tmp_path):
    path = tmp_path / "a.dacz"
    write_encoded(path, example())
    info = read_info(path)
    assert (info.container, info.version, info.kind, info.dtype) == ("dacz", "1", "codes", "uint16")
    assert (info.model_rate, info.sample_rate, info.hop_length) == (44100, 48000, 512)
    assert (info.channels, info.rows, info.width, info.codebook_size) == (2, 2, 9, 1000)
    assert (info.frames, info.length, info.seconds) == (100, 55_000, 55_000 / 48000)
    assert info.file_bytes == path.stat().st_size
    assert info.kbps == pytest.approx(info.file_bytes * 8 / info.seconds / 1000)
    assert (info.level, info.model, info.source_subtype) == (
        Gain(-3.5),
        example().model,
        "PCM_24",
    )


def test_info_of_latents(tmp_path):
    latents = np.ones((1, 16, 9), np.float16)
    path = tmp_path / "a.dacz"
    write_encoded(path, example(data=latents, length=1000, codebook_size=None))
    info = read_info(path)
    assert (info.kind, info.width, info.rows, info.dtype) == ("latents", 16, 1, "float16")
    np.testing.assert_array_equal(read_encoded(path).latents, latents)
    assert read_encoded(path).latents.dtype == np.float16


def test_info_of_dac():
    info = read_info(DATA / "mono_chunked_nq2.dac")
    assert (info.container, info.version, info.width, info.frames) == ("dac", "1.0.0", 2, 232)
    assert (info.chunk_frames, info.length, info.sample_rate) == (58, 9637, 16000)
    assert info.kbps == pytest.approx(1481 * 8 / (9637 / 16000) / 1000)


def test_info_of_an_old_dac():
    info = read_info(DATA / "old_mono.dac")
    assert (info.version, info.seconds, info.kbps) == ("0.0", None, None)
    assert isinstance(info.level, Loudness)


@pytest.mark.parametrize("name", ["a.dacz", "old_mono.dac"])
def test_info_needs_neither_torch_nor_numpy(tmp_path, name):
    path = DATA / name
    if name == "a.dacz":
        path = tmp_path / name
        write_encoded(path, example())
    code = (
        "import sys; sys.modules.update(torch=None, numpy=None)\n"
        f"from dac_rocm.container import read_info; print(read_info({str(path)!r}).frames)"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(run.stdout) == read_info(path).frames


def test_the_content_tells_the_container(tmp_path):
    write_encoded(tmp_path / "a.wav", example(), format="dacz")
    assert read_info(tmp_path / "a.wav").container == "dacz"
    np.testing.assert_array_equal(read_encoded(tmp_path / "a.wav").codes, example().codes)


@pytest.mark.parametrize(
    ("path", "wanted", "found"),
    [("a.dacz", None, "dacz"), ("A.DAC", None, "dac"), ("a.dac", "dacz", "dacz")],
)
def test_container_format(path, wanted, found):
    assert container_format(path, wanted) == found


@pytest.mark.parametrize(("path", "wanted"), [("a.wav", None), ("a", None), ("a.dac", "DAC")])
def test_unknown_formats(path, wanted):
    with pytest.raises(UnknownContainerError, match="`dacz` or `dac` is expected"):
        container_format(path, wanted)


@pytest.mark.parametrize("content", [b"", b"RIFF....WAVE", b"\x89DACZ\n\n", b"\x93NUM"])
def test_unknown_files(tmp_path, content):
    (tmp_path / "a.dacz").write_bytes(content)
    for reader in (read_encoded, read_info):
        with pytest.raises(UnknownContainerError, match="neither"):
            reader(tmp_path / "a.dacz")


def test_missing_files_and_folders(tmp_path):
    for path in (tmp_path / "none.dacz", tmp_path):
        with pytest.raises(SourceError, match="cannot be read") as caught:
            read_encoded(path)
        assert isinstance(caught.value.__cause__, OSError)


def test_a_file_cut_short_has_no_info(tmp_path):
    write_encoded(tmp_path / "a.dacz", example())
    (tmp_path / "b.dacz").write_bytes((tmp_path / "a.dacz").read_bytes()[:-1])
    with pytest.raises(TruncatedFileError, match="--salvage"):
        read_info(tmp_path / "b.dacz")


def test_writing_leaves_no_partial_file(tmp_path):
    with pytest.raises(ContainerError):
        write_encoded(tmp_path / "a.dac", example())
    with pytest.raises(ContainerError):
        write_encoded(tmp_path / "a.dacz", example(length=10**9))
    assert list(tmp_path.iterdir()) == []


def test_writing_never_overwrites_unasked(tmp_path):
    write_encoded(tmp_path / "a.dacz", example())
    with pytest.raises(OutputError, match="exists already"):
        write_encoded(tmp_path / "a.dacz", example())
    write_encoded(tmp_path / "a.dacz", example(length=7), overwrite=True)
    assert read_info(tmp_path / "a.dacz").length == 7
