from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from networks import noise, shared

import dac_rocm
from dac_rocm.container import read_info
from dac_rocm.encoded import Gain, Loudness
from dac_rocm.errors import ContainerError, OutputError, ShapeError
from dac_rocm.repack import repack

DESCRIPT = Path(__file__).parent / "data/descript_files"
LEVEL = 2e-5
"""Two paths to one factor of level, in float32, at full scale."""


@pytest.fixture
def model():
    return shared("even")


def encode(model, path, channels=1, gain=0.1, **options):
    audio = gain * noise(channels, 9000).numpy()
    encoded = dac_rocm.encode_audio(model, audio, 22050, **options)
    dac_rocm.write_encoded(path, encoded)
    return path


def heard(model, path):
    return dac_rocm.decode_audio(model, dac_rocm.read_encoded(path))[0]


def test_drops_codebooks(model, tmp_path):
    before = dac_rocm.read_encoded(encode(model, tmp_path / "a.dacz"))
    after = repack(tmp_path / "a.dacz", tmp_path / "b.dacz", n_codebooks=2)
    read = dac_rocm.read_encoded(tmp_path / "b.dacz")
    np.testing.assert_array_equal(read.codes, before.codes[:, :2])
    assert (read.level, read.model, read.length) == (before.level, before.model, before.length)
    assert read.source_subtype == before.source_subtype
    np.testing.assert_array_equal(after.codes, read.codes)


def test_what_is_left_is_what_fewer_codebooks_give(model, tmp_path):
    encode(model, tmp_path / "a.dacz")
    encode(model, tmp_path / "two.dacz", n_codebooks=2)
    repack(tmp_path / "a.dacz", tmp_path / "b.dacz", n_codebooks=2)
    assert (tmp_path / "b.dacz").read_bytes() == (tmp_path / "two.dacz").read_bytes()


@pytest.mark.parametrize("n", [0, -1, 5])
def test_codebooks_that_are_not_there(model, tmp_path, n):
    encode(model, tmp_path / "a.dacz")
    with pytest.raises(ShapeError, match="1 to 4"):
        repack(tmp_path / "a.dacz", tmp_path / "b.dacz", n_codebooks=n)
    assert not (tmp_path / "b.dacz").exists()


@pytest.mark.parametrize("options", [{}, {"loudness": False}, {"gain_db": -7.0}])
@pytest.mark.parametrize("channels", [1, 2])
def test_to_dac_and_back(model, tmp_path, channels, options):
    """Whatever the gain was, all three decode to the same audio, and the codes are the same."""
    paths = [tmp_path / name for name in ("a.dacz", "b.dac", "c.dacz")]
    encode(model, paths[0], channels, **options)
    for source, target in pairwise(paths):
        repack(source, target, model=model)
    a, b, c = map(dac_rocm.read_encoded, paths)
    np.testing.assert_array_equal(a.codes, b.codes)
    np.testing.assert_array_equal(a.codes, c.codes)
    assert isinstance(b.level, Loudness) and isinstance(c.level, Gain)
    assert c.level.db == pytest.approx(a.level.db, abs=1e-4)
    assert (c.model, c.model_rate, c.hop_length) == (a.model, a.model_rate, a.hop_length)
    for path in paths[1:]:
        np.testing.assert_allclose(heard(model, path), heard(model, paths[0]), atol=LEVEL)


def test_silence_stays_silence(model, tmp_path):
    encode(model, tmp_path / "a.dacz", gain=0.0)
    repack(tmp_path / "a.dacz", tmp_path / "b.dac", model=model)
    a, b = (heard(model, tmp_path / name) for name in ("a.dacz", "b.dac"))
    np.testing.assert_allclose(b, a, atol=LEVEL)


def test_drops_codebooks_of_a_chunked_dac(tmp_path):
    repack(DESCRIPT / "mono_chunked_nq2.dac", tmp_path / "a.dac", n_codebooks=1)
    info = read_info(tmp_path / "a.dac")
    assert info.width == 1 and info.chunk_frames


@pytest.mark.parametrize("name", ["mono_chunked_nq2", "old_mono"])
@pytest.mark.parametrize("with_model", [False, True])
def test_codes_made_by_other_rules(model, tmp_path, name, with_model):
    with pytest.raises(ContainerError, match="--decode-again"):
        repack(DESCRIPT / f"{name}.dac", tmp_path / "a.dacz", model=model if with_model else None)


def test_decode_again(model, tmp_path):
    encode(model, tmp_path / "a.dacz")
    repack(tmp_path / "a.dacz", tmp_path / "b.dac", model=model, decode_again=True, n_codebooks=3)
    info = read_info(tmp_path / "b.dac")
    assert (info.width, info.length, info.sample_rate) == (3, 9000, 22050)


@pytest.mark.parametrize("again", [False, True])
def test_a_model_is_needed(model, tmp_path, again):
    encode(model, tmp_path / "a.dacz")
    with pytest.raises(ContainerError, match="no model"):
        repack(tmp_path / "a.dacz", tmp_path / "b.dac", decode_again=again)


def test_another_model(model, tmp_path):
    encode(model, tmp_path / "a.dacz")
    with pytest.raises(ContainerError):
        repack(tmp_path / "a.dacz", tmp_path / "b.dac", model=shared("odd"))


def test_latents(tmp_path):
    model = shared("mova")
    audio = noise(1, 3000).numpy()
    before = dac_rocm.encode_audio(model, audio, 48000)
    dac_rocm.write_encoded(tmp_path / "a.dacz", before)
    repack(tmp_path / "a.dacz", tmp_path / "b.dacz", latents_dtype="float16")
    read = dac_rocm.read_encoded(tmp_path / "b.dacz")
    np.testing.assert_array_equal(read.latents, before.latents.astype("f2"))
    with pytest.raises(ContainerError, match="latents"):
        repack(tmp_path / "a.dacz", tmp_path / "c.dac", model=model)
    with pytest.raises(ContainerError, match="latents"):
        repack(tmp_path / "a.dacz", tmp_path / "c.dacz", n_codebooks=1)
    with pytest.raises(ShapeError, match="int8"):
        repack(tmp_path / "a.dacz", tmp_path / "c.dacz", latents_dtype="int8")


def test_too_few_frames_for_descript(tmp_path):
    """Odd strides fall short, and Descript's decoder does not add the zeros that ours does."""
    model = shared("odd")
    audio = noise(1, 40 * 10).numpy()
    dac_rocm.write_encoded(tmp_path / "a.dacz", dac_rocm.encode_audio(model, audio, 24000))
    with pytest.raises(ContainerError, match="frames found"):
        repack(tmp_path / "a.dacz", tmp_path / "b.dac", model=model)


def test_never_overwrites_unasked(model, tmp_path):
    encode(model, tmp_path / "a.dacz")
    before = (tmp_path / "a.dacz").read_bytes()
    with pytest.raises(OutputError, match="exists"):
        repack(tmp_path / "a.dacz", tmp_path / "a.dacz", n_codebooks=1)
    assert (tmp_path / "a.dacz").read_bytes() == before
    repack(tmp_path / "a.dacz", tmp_path / "a.dacz", n_codebooks=1, overwrite=True)
    assert read_info(tmp_path / "a.dacz").width == 1
