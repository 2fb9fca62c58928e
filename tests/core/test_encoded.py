"""EncodedAudio and its parts: plain data that tells what it is."""

from __future__ import annotations

import numpy as np
import pytest

from dac_rocm.encoded import EncodedAudio, Gain, Loudness, ModelStamp
from dac_rocm.errors import ContainerError, ShapeError

CODES = np.arange(24, dtype=np.uint16).reshape(2, 3, 4)


def encoded(data=CODES, **changes):
    return EncodedAudio(
        data=data, **{"sample_rate": 8000, "channels": 2, "length": 4000, **changes}
    )


def test_codes():
    audio = encoded()
    assert audio.is_codes
    assert audio.codes is CODES
    assert (audio.frames, audio.seconds) == (4, 0.5)
    assert audio.level == Gain(0.0)
    with pytest.raises(
        ContainerError, match=r"codes found where latents are expected; use `\.codes`"
    ):
        _ = audio.latents


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_latents(dtype):
    audio = encoded(CODES.astype(dtype))
    assert not audio.is_codes
    assert audio.latents.dtype == dtype
    with pytest.raises(ContainerError, match="latents found where codes are expected"):
        _ = audio.codes


@pytest.mark.parametrize("dtype", [np.int64, np.int32, bool, np.complex64])
def test_other_types_are_refused(dtype):
    """Signed codes would pass for latents."""
    with pytest.raises(ShapeError):
        encoded(CODES.astype(dtype))


@pytest.mark.parametrize("shape", [(3, 4), (4,), (0, 3, 4), (2, 0, 4), (1, 2, 3, 4)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ShapeError, match=r"encoded data of shape .* found"):
        encoded(np.zeros(shape, np.uint16))


def test_no_frames_are_allowed():
    assert encoded(CODES[..., :0]).frames == 0


def test_seconds_of_old_files():
    """Before release 1.0 the length counts samples at the model's rate."""
    assert encoded(length_at_model_rate=True, model_rate=16000).seconds == 0.25
    assert encoded(length_at_model_rate=True).seconds == 0.5  # the model is not known yet


@pytest.mark.parametrize(
    ("ours", "theirs", "differs"),
    [
        ({}, {}, None),
        ({"codebooks": "a"}, {"encoder": "a"}, None),
        ({"codebooks": "a"}, {"codebooks": "a"}, False),
        ({"codebooks": "a"}, {"codebooks": "b"}, True),
        ({"codebooks": "a", "encoder": "b"}, {"codebooks": "a", "decoder": "c"}, False),
        ({"encoder": "a", "decoder": "b"}, {"encoder": "a", "decoder": "c"}, True),
    ],
)
def test_stamps(ours, theirs, differs):
    one = ModelStamp(name="x", fingerprints=ours)
    other = ModelStamp(name="y", fingerprints=theirs)
    assert one.differs_from(other) is differs
    assert other.differs_from(one) is differs


def test_levels_are_not_the_same():
    assert Gain(-16.0) != Loudness(-16.0)
    assert encoded() != encoded()  # arrays do not compare as one
