"""Which model may decode which recording."""

from __future__ import annotations

import warnings
from dataclasses import replace

import networks as nw
import numpy as np
import pytest

from dac_rocm.encoded import EncodedAudio, ModelStamp
from dac_rocm.errors import ContainerError
from dac_rocm.pipeline.match import check_model

MODEL = nw.shared("even")
CODES = EncodedAudio(
    data=np.zeros((1, 4, 3), np.uint16),
    sample_rate=16000,
    channels=1,
    length=90,
    model_rate=16000,
    hop_length=32,
    codebook_size=32,
    model=MODEL.stamp,
)


def test_the_model_that_made_it():
    check_model(MODEL, CODES)
    check_model(MODEL, replace(CODES, data=CODES.data[:, :2]))  # fewer codebooks


def test_one_that_is_not_known():
    """Descript's `.dac` says nothing, which is no reason to warn."""
    check_model(MODEL, replace(CODES, model=ModelStamp()))
    check_model(
        MODEL,
        replace(CODES, model=ModelStamp(), model_rate=None, hop_length=None, codebook_size=None),
    )


def test_another_model_names_both():
    other = replace(CODES, model=nw.build("even", 1).stamp)
    with pytest.raises(ContainerError, match=r"model 'even-1' found.*of model 'even-0'.*any_model"):
        check_model(MODEL, other)
    check_model(MODEL, other, any_model=True)
    unnamed = replace(other, model=replace(other.model, name=""))
    with pytest.raises(ContainerError, match="made by an unnamed model found"):
        check_model(MODEL, unnamed)


def test_only_what_both_know_is_compared():
    prints = dict(MODEL.stamp.fingerprints)
    part = {"codebooks": prints["codebooks"]}
    check_model(MODEL, replace(CODES, model=ModelStamp(name="renamed", fingerprints=part)))
    wrong = {**part, "decoder": "0" * 16}
    with pytest.raises(ContainerError, match="'renamed'"):
        check_model(MODEL, replace(CODES, model=ModelStamp(name="renamed", fingerprints=wrong)))


def test_names_are_all_there_is():
    nothing = ModelStamp(name="even-0")
    check_model(MODEL, replace(CODES, model=nothing))
    with pytest.warns(UserWarning, match=r"'mine' is decoded by model 'even-0'; their weights"):
        check_model(MODEL, replace(CODES, model=ModelStamp(name="mine")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_model(MODEL, replace(CODES, model=ModelStamp(name="mine")), any_model=True)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"model_rate": 24000}, "rate 24000 made by model 'even-0' found; .* has 16000"),
        ({"hop_length": 64}, "hop length 64"),
        ({"codebook_size": 1024}, "codebook size 1024"),
        ({"data": np.zeros((1, 4, 3), np.float32)}, "latents found; model 'even-0' decodes codes"),
        ({"channels": 2}, "1 rows for 2 channels found; 2 are expected"),
    ],
)
def test_shapes_must_fit_in_any_case(changes, match):
    for any_model in (False, True):
        with pytest.raises(ContainerError, match=match):
            check_model(MODEL, replace(CODES, **changes), any_model=any_model)


def test_stereo_models_have_one_row():
    model = nw.shared("oobleck")
    latents = EncodedAudio(
        data=np.zeros((1, 6, 3), np.float32),
        sample_rate=44100,
        channels=2,
        length=9,
        model=model.stamp,
    )
    check_model(model, latents)
    check_model(model, replace(latents, channels=1))
    with pytest.raises(ContainerError, match="2 rows for 2 channels found; 1 are expected"):
        check_model(model, replace(latents, data=np.zeros((2, 6, 3), np.float32)))
    with pytest.raises(ContainerError, match="codes found; model 'oobleck-0' decodes latents"):
        check_model(model, CODES)


def test_latents_of_another_width():
    """As any other shape, before anything is decoded."""
    model = nw.shared("oobleck")
    latents = EncodedAudio(
        data=np.zeros((1, 7, 3), np.float32),
        sample_rate=44100,
        channels=2,
        length=9,
        model=model.stamp,
    )
    with pytest.raises(ContainerError, match="7"):
        check_model(model, latents)
    with pytest.raises(ContainerError, match="5"):
        check_model(MODEL, replace(CODES, data=np.zeros((1, 5, 3), np.uint16)))
