"""EncodedAudio and ModelStamp."""

from __future__ import annotations

import numpy as np
import pytest

from dac_rocm.encoded import EncodedAudio, Gain, Loudness, ModelStamp
from dac_rocm.errors import ContainerError, ShapeError


def encoded(data, **facts):
    return EncodedAudio(data=data, sample_rate=16000, channels=1, length=8000, **facts)


def test_codes_and_latents_are_not_confused():
    codes = encoded(np.zeros((1, 2, 3), np.uint16))
    assert codes.is_codes and codes.frames == 3 and codes.codes.shape == (1, 2, 3)
    with pytest.raises(ContainerError, match=r"use `.codes`"):
        _ = codes.latents
    latents = encoded(np.zeros((1, 2, 3), np.float32))
    assert not latents.is_codes and latents.latents.dtype == np.float32
    with pytest.raises(ContainerError, match=r"use `.latents`"):
        _ = latents.codes


@pytest.mark.parametrize("shape", [(2, 3), (0, 2, 3), (1, 0, 3)])
def test_shapes_are_checked(shape):
    with pytest.raises(ShapeError, match="is expected"):
        encoded(np.zeros(shape, np.uint16))


def test_seconds():
    data = np.zeros((1, 2, 3), np.uint16)
    assert encoded(data).seconds == 0.5
    assert encoded(data, length_at_model_rate=True, model_rate=8000).seconds == 1.0


def test_stamps_compare_what_both_know():
    a = ModelStamp(name="a", fingerprints={"codebooks": "1", "encoder": "2"})
    assert a.differs_from(ModelStamp(fingerprints={"codebooks": "1", "decoder": "9"})) is False
    assert a.differs_from(ModelStamp(fingerprints={"codebooks": "3"})) is True
    assert a.differs_from(ModelStamp(fingerprints={"decoder": "9"})) is None


@pytest.mark.parametrize("dtype", [np.int64, np.int32, bool, np.complex64])
def test_other_types_are_refused(dtype):
    """Signed codes would pass for latents."""
    with pytest.raises(ShapeError):
        encoded(np.zeros((1, 2, 3), dtype))


def test_no_frames_are_allowed():
    assert encoded(np.zeros((1, 2, 0), np.uint16)).frames == 0


def test_levels_are_not_the_same():
    assert Gain(-16.0) != Loudness(-16.0)
