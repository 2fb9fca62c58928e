"""One error for each wrong argument, before any kernel runs."""

from __future__ import annotations

import networks as nw
import numpy as np
import pytest
import torch

from dac_rocm import checks
from dac_rocm.errors import AudioError, ShapeError

RVQ = nw.CONFIGS["even"].bottleneck
GAUSSIAN = nw.CONFIGS["mova"].bottleneck
AUDIO = torch.zeros(1, 1, 9)


@pytest.mark.parametrize(
    ("audio", "match"),
    [
        (AUDIO[0], r"audio of shape \(1, 9\) found; \[batch, 1, samples\]"),
        (AUDIO[None], r"audio of shape \(1, 1, 1, 9\)"),
        (AUDIO.long(), "audio of torch.int64 found; a float type"),
        (AUDIO.bool(), "audio of torch.bool found; a float type"),
        (AUDIO.to(torch.complex64), "audio of torch.complex64 found; a float type"),
        (AUDIO.expand(1, 2, 9), "2 channels found; this model takes 1. Fold channels"),
        (AUDIO[..., :0], r"audio of shape \(1, 1, 0\) found; samples are expected"),
        (AUDIO[:0], r"audio of shape \(0, 1, 9\) found"),
        (np.zeros((1, 1, 9)), "audio of type ndarray found; a tensor"),
        (None, "audio of type NoneType found"),
    ],
)
def test_audio(audio, match):
    with pytest.raises(ShapeError, match=match):
        checks.check_audio(audio, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_audio_that_is_not_finite(value):
    audio = AUDIO.clone()
    audio[0, 0, 4] = value
    with pytest.raises(AudioError, match="NaN or infinite samples found"):
        checks.check_audio(audio, 1)


def test_audio_that_is_taken():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        checks.check_audio(AUDIO.to(dtype), 1)
    checks.check_audio(AUDIO[..., :0], 1, empty=True)
    checks.check_audio(AUDIO.expand(3, 2, 9), 2)
    with pytest.raises(ShapeError, match=r"1 channels found; this model takes 2\. Mix"):
        checks.check_audio(AUDIO, 2)


@pytest.mark.parametrize(
    ("codes", "match"),
    [
        (torch.zeros(4, 9).long(), r"codes of shape \(4, 9\) found"),
        (torch.zeros(1, 4, 9), "codes of torch.float32 found; an integer type"),
        (torch.zeros(1, 4, 9).bool(), "codes of torch.bool found"),
        (torch.zeros(1, 5, 9).long(), "codes of 5 codebooks found; 1 to 4"),
        (torch.zeros(1, 0, 9).long(), "codes of 0 codebooks found"),
        (torch.full((1, 4, 9), 32), r"codes in 32\.\.32 found; 0\.\.31 are expected"),
        (torch.full((1, 4, 9), -1), r"codes in -1\.\.-1 found"),
        (torch.full((1, 4, 9), 255, dtype=torch.uint8), r"codes in 255\.\.255 found"),
        ([[1]], "codes of type list found"),
    ],
)
def test_codes(codes, match):
    with pytest.raises(ShapeError, match=match):
        checks.check_codes(codes, RVQ)


def test_codes_that_are_taken():
    for dtype in (torch.uint8, torch.int16, torch.uint16, torch.int32, torch.int64):
        checks.check_codes(torch.full((2, 3, 4), 31).to(dtype), RVQ)
    checks.check_codes(torch.zeros(1, 4, 0).long(), RVQ)


@pytest.mark.parametrize("n", [0, -1, 5, 2.5, 2.0, True, "2", float("nan")])
def test_number_of_codebooks(n):
    with pytest.raises(ShapeError, match=r"n_codebooks=.* found; an integer in 1\.\.4"):
        checks.check_n_codebooks(n, RVQ)


def test_number_of_codebooks_that_is_taken():
    assert [checks.check_n_codebooks(n, RVQ) for n in (None, 1, 4)] == [4, 1, 4]
    with pytest.raises(ShapeError, match="a continuous model has none"):
        checks.check_n_codebooks(1, GAUSSIAN)


@pytest.mark.parametrize("length", [-1, 11, True, 5.0, "5"])
def test_lengths(length):
    with pytest.raises(ShapeError, match=r"length=.* found; an integer in 0\.\.10"):
        checks.check_length(length, 10)


def test_lengths_that_are_taken():
    for length in (None, 0, 10):
        checks.check_length(length, 10)


def test_widths():
    checks.check_width("z", torch.zeros(1, 5, 0), 5)
    for z, match in (
        (torch.zeros(5, 9), r"z of shape \(5, 9\)"),
        (
            torch.zeros(1, 5, 9).long(),
            "z of torch.int64 found; a float type is expected. For codes",
        ),
        (torch.zeros(1, 4, 9), "z of 4 channels found; 5 are expected"),
    ):
        with pytest.raises(ShapeError, match=match):
            checks.check_width("z", z, 5)


def test_batches_and_lists():
    checks.check_batch(2, 2)
    with pytest.raises(ShapeError, match="a push of 3 items found; the stream began with 2"):
        checks.check_batch(3, 2)
    checks.check_items("codes", [AUDIO[0]])
    for items, match in (([], "empty list"), ([AUDIO], r"codes\[0\] of shape"), ([1], "type int")):
        with pytest.raises(ShapeError, match=match):
            checks.check_items("codes", items)
