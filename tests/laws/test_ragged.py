"""Batches of clips of different lengths: each item as alone, to its last frame."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import CODES_GAP, EXACT_LAW, FLOAT32_LAW

from dac_rocm.errors import AudioError, ShapeError
from dac_rocm.nn.gaussian import Gaussian

SECONDS = (0.3, 1.7, 5.0)


def clips(model, lengths):
    channels = model.config.audio_channels
    return [nw.noise(channels, n, seed=i, dtype=model.dtype) for i, n in enumerate(lengths)]


def lengths_of(model):
    """0.3, 1.7 and 5 s of a model of 4 kHz, which keeps the test short; not whole hops."""
    return [int(s * 4000) + 1 for s in SECONDS]


@pytest.mark.parametrize("shape", nw.CODES)
def test_codes(shape):
    model = nw.shared(shape)
    items = clips(model, lengths_of(model))
    many = model.encode_many(items)
    for item, codes in zip(items, many, strict=True):
        alone = model.encode(item[None])[0]
        assert codes.shape == alone.shape
        assert codes.dtype == torch.long
        gap = nw.gaps(model, model.encode_z(item[None]))[0]
        assert (codes == alone)[nw.sure(gap[None], CODES_GAP)[0]].all()
        assert nw.sure(gap[None], CODES_GAP).float().mean() > 0.9, "hardly anything was compared"
    wanted = [item.shape[-1] for item in items]
    audio = model.decode_many(many, lengths=wanted)
    for codes, y, n in zip(many, audio, wanted, strict=True):
        alone = model.decode(codes[None], length=n)[0]
        assert y.shape == alone.shape == (1, n)
        assert (y - alone).abs().max() <= FLOAT32_LAW


@pytest.mark.parametrize("shape", ("mova", "meta", "oobleck"))
def test_latents(shape):
    model = nw.shared(shape)
    items = clips(model, lengths_of(model))
    many = model.encode_many(items)
    for item, gaussian in zip(items, many, strict=True):
        alone = model.encode(item[None])
        assert (gaussian.mean - alone.mean[0]).abs().max() <= FLOAT32_LAW
        torch.testing.assert_close(gaussian.std, alone.std[0], rtol=1e-4, atol=1e-5)
    audio = model.decode_many([g.mode() for g in many], lengths=[x.shape[-1] for x in items])
    for gaussian, y, item in zip(many, audio, items, strict=True):
        alone = model.decode(gaussian.mean[None], length=item.shape[-1])[0]
        assert (y - alone).abs().max() <= FLOAT32_LAW


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    shape=st.sampled_from(("even", "odd", "listdim", "mova", "meta", "oobleck")),
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=4),
)
def test_any_lengths(shape, lengths):
    model = nw.shared(shape, torch.float64)
    many = model.encode_many(clips(model, lengths))
    for item, found in zip(clips(model, lengths), many, strict=True):
        alone = model.encode(item[None])
        if isinstance(found, Gaussian):
            assert (found.mean - alone.mean[0]).abs().max() <= EXACT_LAW
        else:
            assert torch.equal(found, alone[0])
    data = [f.mean if isinstance(f, Gaussian) else f for f in many]
    for frames, y in zip(data, model.decode_many(data), strict=True):
        alone = model.decode(frames[None])[0]
        assert y.shape == alone.shape
        assert (y - alone).abs().max() <= EXACT_LAW


def test_zero_padding_into_one_batch_is_not_the_same():
    """What peers do changes codes near the end: the law above is no tautology."""
    model = nw.shared("even", torch.float64)
    short, long = clips(model, [20 * model.hop_length, 60 * model.hop_length])
    padded = torch.nn.functional.pad(short, (0, long.shape[-1] - short.shape[-1]))
    together = model.encode(torch.stack([padded, long]))[0, :, :20]
    alone = model.encode(short[None])[0]
    assert not torch.equal(together, alone)
    assert torch.equal(model.encode_many([short, long])[0], alone)


def test_fewer_codebooks_and_mixed_numbers():
    model = nw.shared("even")
    items = clips(model, [100, 500])
    many = model.encode_many(items, n_codebooks=2)
    assert [c.shape[0] for c in many] == [2, 2]
    mixed = [many[0], model.encode_many(items)[1]]
    for codes, y in zip(mixed, model.decode_many(mixed), strict=True):
        assert (y - model.decode(codes[None])[0]).abs().max() <= FLOAT32_LAW


def test_items_without_frames():
    model = nw.shared("odd")
    some = nw.frames(model, 1, 7)[0]
    audio = model.decode_many([some[:, :0], some])
    assert audio[0].shape == (1, 0)
    assert (audio[1] - model.decode(some[None])[0]).abs().max() <= FLOAT32_LAW
    assert [y.shape[-1] for y in model.decode_many([some[:, :0]] * 2)] == [0, 0]


def test_what_is_refused():
    model, vae = nw.shared("even"), nw.shared("meta")
    clip = nw.noise(1, 99)
    for call, match in (
        (lambda: model.encode_many([]), "empty list of audio"),
        (lambda: model.encode_many([clip[None]]), r"audio\[0\] of shape"),
        (lambda: model.encode_many([clip, nw.noise(2, 99)]), "2 channels found"),
        (lambda: model.encode_many([clip, clip[:, :0]]), "samples are expected"),
        (lambda: model.encode_many([clip.long()]), "a float type is expected"),
        (lambda: model.encode_many([clip], n_codebooks=0), "n_codebooks=0"),
        (lambda: model.decode_many([]), "empty list of codes"),
        (lambda: model.decode_many([torch.zeros(4, 3)]), "an integer type is expected"),
        (lambda: model.decode_many([torch.zeros(4, 3).long()], lengths=[1, 2]), "2 lengths"),
        (lambda: model.decode_many([torch.zeros(4, 3).long()], lengths=[97]), "length=97"),
        (lambda: vae.decode_many([torch.zeros(4, 3)]), "4 channels found; 5 are expected"),
        (lambda: vae.decode_many([torch.zeros(5, 3).long()]), "For codes use decode"),
    ):
        with pytest.raises(ShapeError, match=match):
            call()
    with pytest.raises(AudioError, match="NaN"):
        model.encode_many([clip, torch.full((1, 9), float("inf"))])
    with pytest.raises(ShapeError, match="type list"):
        model.encode_many([[0.0, 0.1]])
