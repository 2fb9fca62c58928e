import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from dac_rocm.container import read_encoded, write_encoded
from dac_rocm.container.dac import check_dac, read_dac, write_dac
from dac_rocm.encoded import EncodedAudio, Gain, Loudness
from dac_rocm.errors import ContainerError, UnsafeFileError, UnsupportedVersionError

HERE = Path(__file__).parents[1] / "data" / "descript_files"
KIT = Path(__file__).parents[2].parent / "shared" / "reference" / "descript_files"
FILES = [*sorted(HERE.glob("*.dac")), *sorted(KIT.glob("*.dac"))]
CODES = np.arange(2 * 3 * 4, dtype=np.uint16).reshape(2, 3, 4)


def reference(path):
    return load_file(
        path.with_name(path.stem.removesuffix("_plain").removesuffix("_numpy1") + ".safetensors")
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_real_files(path):
    encoded = read_encoded(path)
    np.testing.assert_array_equal(encoded.codes, reference(path)["codes"])
    assert encoded.codes.dtype == np.uint16
    assert (encoded.model_rate, encoded.hop_length, encoded.codebook_size) == (None, None, None)
    assert encoded.length_at_model_rate == path.stem.startswith("old")
    twin = path.with_name(path.name.replace("old_mono.", "old_mono_plain."))
    if twin.stem != "old_stereo":  # numpy would load torch for its tensor
        check_against(encoded, np.load(twin, allow_pickle=True).item()["metadata"])


def check_against(encoded, metadata):
    is_old = "original_sr" in metadata
    chunks = None if is_old or metadata["padding"] else metadata["chunk_length"]
    level = metadata["original_db" if is_old else "input_db"].item()
    assert encoded.length == metadata["original_length"]
    assert encoded.channels == metadata["channels"]
    assert encoded.sample_rate == metadata["original_sr" if is_old else "sample_rate"]
    assert encoded.level == Loudness(level)
    assert encoded.chunk_frames == chunks


needs_kit = pytest.mark.skipif(not KIT.is_dir(), reason="the reference kit is not beside us")


@needs_kit
def test_the_kit_has_its_files():
    assert len(list(KIT.glob("*.dac"))) >= 20


@needs_kit
def test_a_real_old_stereo_file():
    encoded = read_encoded(KIT / "old_stereo.dac")
    assert (encoded.level, encoded.length, encoded.channels) == (Loudness(-20.5), 9001, 2)


def example(**changes):
    values = {"data": CODES, "sample_rate": 44100, "channels": 2, "length": 2000}
    return EncodedAudio(**{**values, "level": Loudness(-23.25), **changes})


def written(encoded):
    file = io.BytesIO()
    write_dac(file, encoded)
    return file.getvalue()


def test_numpy_reads_what_we_write(tmp_path):
    write_encoded(tmp_path / "a.dac", example())
    content = np.load(tmp_path / "a.dac", allow_pickle=True).item()
    codes, metadata = content["codes"], content["metadata"]
    np.testing.assert_array_equal(codes, CODES)
    assert (codes.dtype, list(content)) == (np.uint16, ["codes", "metadata"])
    level = metadata.pop("input_db")
    assert (level.dtype, level.shape, level[0]) == (np.float32, (1,), -23.25)
    assert metadata == {
        "original_length": 2000,
        "sample_rate": 44100,
        "chunk_length": 4,
        "channels": 2,
        "padding": True,
        "dac_version": "1.0.0",
    }
    assert {type(value) for value in metadata.values()} == {int, bool, str}


def test_real_files_survive_a_rewrite():
    for path in HERE.glob("*.dac"):
        encoded = read_encoded(path)
        if not encoded.length_at_model_rate:
            again = read_dac(io.BytesIO(written(encoded)))
            np.testing.assert_array_equal(again.codes, encoded.codes)
            assert again.level == encoded.level
            assert again.chunk_frames == encoded.chunk_frames


@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 50),
    st.integers(1, 2**20),
    st.floats(-70, 10),
)
@settings(max_examples=60, deadline=None)
def test_round_trip(channels, width, frames, length, level):
    data = np.random.default_rng(frames).integers(0, 65536, (channels, width, frames), np.uint16)
    encoded = example(data=data, channels=channels, length=length, level=Loudness(level))
    again = read_dac(io.BytesIO(written(encoded)))
    np.testing.assert_array_equal(again.codes, data)
    assert (again.length, again.channels, again.sample_rate) == (length, channels, 44100)
    assert again.level == Loudness(float(np.float32(level)))


def test_wider_codes_are_narrowed():
    np.testing.assert_array_equal(
        read_dac(io.BytesIO(written(example(data=CODES.astype(np.uint64))))).codes, CODES
    )


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"data": CODES.astype(np.float32)}, r"`\.dacz` file"),
        ({"level": Gain(0.0)}, "another rule than Descript's"),
        ({"length_at_model_rate": True}, "another rule than Descript's"),
        ({"channels": 1}, "a row for each"),
        ({"data": CODES[:, :, :0]}, "at least 1"),
        ({"data": CODES.astype(np.uint32) + 70_000}, "uint16"),
        ({"length": 0}, "original_length 0"),
        ({"sample_rate": 10**7}, "sample_rate 10000000"),
        ({"chunk_frames": 3}, "chunks of 3 frames"),
        ({"level": Loudness(float("nan"))}, "input_db nan"),
    ],
)
def test_what_cannot_be_written(changes, match):
    file = io.BytesIO()
    with pytest.raises(ContainerError, match=match):
        write_dac(file, example(**changes))
    assert not file.getvalue()


METADATA = {
    "input_db": np.array([-20.0], np.float32),
    "original_length": 2000,
    "sample_rate": 44100,
    "chunk_length": 4,
    "channels": 2,
    "padding": True,
    "dac_version": "1.0.0",
}
OLD = {
    "original_db": np.array([-20.0], np.float32),
    "overlap_hop_duration": 2.5,
    "original_length": 2000,
    "is_overlap": False,
    "batch_size": 1,
    "channels": 2,
    "original_sr": 44100,
}


def saved(value):
    file = io.BytesIO()
    np.save(file, value, allow_pickle=True)
    file.seek(0)
    return file


@pytest.mark.parametrize("metadata", [METADATA, OLD])
def test_numpy_scalars_are_numbers(metadata):
    scalars = {
        key: np.int64(value) if type(value) is int else value for key, value in metadata.items()
    }
    encoded = read_dac(saved({"codes": CODES, "metadata": scalars}))
    assert (encoded.length, encoded.sample_rate, encoded.channels) == (2000, 44100, 2)
    assert type(encoded.length) is int


@pytest.mark.parametrize(
    "codes",
    [CODES.astype(np.int32), CODES[0], CODES[:0], CODES[:, :, :0], CODES.tolist(), None, "codes"],
)
def test_wrong_codes(codes):
    with pytest.raises(ContainerError, match=r"codes.* found"):
        read_dac(saved({"codes": codes, "metadata": METADATA}))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"original_length": -1}, "original_length -1"),
        ({"original_length": 2.5}, "original_length 2.5"),
        ({"original_length": True}, "original_length True"),
        ({"original_length": 1 << 60}, "original_length 1152921504606846976"),
        ({"original_length": 1 << 1000}, "original_length of type int"),
        ({"original_length": None}, "original_length None"),
        ({"sample_rate": "x" * 100}, "sample_rate 'x{40}' found"),
        ({"sample_rate": [1]}, "sample_rate of type list"),
        ({"channels": 0}, "channels 0"),
        ({"channels": 3}, "codes of 2 rows"),
        ({"channels": 1}, "a batch of 2 recordings"),
        ({"chunk_length": 3, "padding": False}, "chunks of 3 frames"),
        ({"chunk_length": 2}, "chunks of 2 frames"),
        ({"chunk_length": 5}, "chunk_length 5"),
        ({"padding": 1}, "padding 1"),
        ({"input_db": np.array([np.inf], np.float32)}, "input_db inf"),
        ({"input_db": np.zeros(2)}, "input_db of several recordings"),
        ({"input_db": "loud"}, "input_db 'loud'"),
    ],
)
def test_wrong_fields(changes, match):
    with pytest.raises(ContainerError, match=match):
        check_dac(saved({"codes": CODES, "metadata": {**METADATA, **changes}}))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"batch_size": 2}, "codes of 2 rows"),
        ({"batch_size": 2, "channels": 1}, "a batch of 2 recordings"),
        ({"is_overlap": True}, "overlapping windows"),
        ({"original_db": None}, "original_db None"),
    ],
)
def test_wrong_fields_of_old_files(changes, match):
    with pytest.raises(ContainerError, match=match):
        check_dac(saved({"codes": CODES, "metadata": {**OLD, **changes}}))


@pytest.mark.parametrize("version", ["2.0.0", "1.0.1", None, 1.0])
def test_other_versions(version):
    with pytest.raises(UnsupportedVersionError, match="dac_version"):
        check_dac(saved({"codes": CODES, "metadata": {**METADATA, "dac_version": version}}))


@pytest.mark.parametrize("content", [{}, {"metadata": 3}, {"codes": CODES}])
def test_other_content(content):
    with pytest.raises(ContainerError, match="a dict with `codes` and `metadata`"):
        check_dac(saved(content))


def test_a_missing_field():
    fields = {key: value for key, value in METADATA.items() if key != "channels"}
    with pytest.raises(ContainerError, match="channels None"):
        check_dac(saved({"codes": CODES, "metadata": fields}))


def test_objects_are_refused():
    with pytest.raises(UnsafeFileError, match="datetime"):
        check_dac(saved({"codes": CODES, "metadata": {"when": np.datetime64("2020").item()}}))
