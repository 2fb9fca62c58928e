"""The quantizer against a brute-force search in float64."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from tolerances import CODES_GAP
from torch.nn import functional as F

from dac_rocm.nn.rvq import VectorQuantize


def brute_force(model, z, n):
    """Nearest unit vectors by distance, entry by entry, float64; z of the chosen entries."""
    residual, total = z.double(), torch.zeros_like(z, dtype=torch.float64)
    codes, latents = [], []
    for q in model.quantizer.quantizers[:n]:
        asked = F.conv1d(residual, q.in_proj.weight.double(), q.in_proj.bias.double())
        unit = F.normalize(asked, dim=1)
        entries = F.normalize(q.codebook.weight.double())
        distance = (unit[:, None] - entries[None, :, :, None]).square().sum(2)  # [B, K, F]
        index = distance.argmin(1)
        chosen = q.codebook.weight.double()[index].transpose(1, 2)
        part = F.conv1d(chosen, q.out_proj.weight.double(), q.out_proj.bias.double())
        residual, total = residual - part, total + part
        codes.append(index)
        latents.append(asked)
    return total, torch.stack(codes, 1), torch.cat(latents, 1)


@pytest.mark.parametrize("shape", nw.CODES)
def test_against_brute_force(shape):
    model = nw.shared(shape)
    z = model.encode_z(nw.noise(2, 1, 3000))
    for n in (1, 2, None):
        quantized = model.quantize(z, n_codebooks=n)
        total, codes, latents = brute_force(model, z, n)
        sure = nw.sure(nw.gaps(model, z), CODES_GAP)[:, : codes.shape[1]]
        assert sure.float().mean() > 0.95
        assert (quantized.codes == codes)[sure].all()
        same = sure.all(1)[:, None]
        assert ((quantized.z - total) * same).abs().max() < 1e-5
        assert ((quantized.latents - latents) * same).abs().max() < 1e-5


@pytest.mark.parametrize("shape", nw.CODES)
def test_codes_in_float64_are_those_of_brute_force(shape):
    model = nw.shared(shape, torch.float64)
    z = model.encode_z(nw.noise(1, 1, 3000, dtype=torch.float64))
    assert torch.equal(model.quantize(z).codes, brute_force(model, z, None)[1])


@pytest.mark.parametrize("shape", nw.CODES)
def test_every_entry_can_be_reached(shape):
    model = nw.shared(shape)
    codes = model.encode(nw.noise(4, 1, 20_000) * 2)
    for book in codes.transpose(0, 1):
        assert book.unique().numel() > model.rvq.codebook_size // 3


def test_from_codes_and_back():
    model = nw.shared("listdim")
    quantized = model.quantize(model.encode_z(nw.noise(1, 1, 999)))
    again = model.from_latents(quantized.latents)
    assert torch.equal(again.codes, quantized.codes)
    assert torch.equal(again.latents, quantized.latents)
    assert torch.equal(model.from_codes(quantized.codes), again.z)
    assert (quantized.z - again.z).abs().max() < 1e-6
    first = model.from_latents(quantized.latents[:, :6])
    assert torch.equal(first.codes, quantized.codes[:, :2])


def test_latents_of_another_width_are_refused():
    from dac_rocm.errors import ShapeError

    with pytest.raises(ShapeError, match="latents of 5 channels found"):
        nw.shared("listdim").from_latents(torch.zeros(1, 5, 3))
    with pytest.raises(ShapeError, match=r"latents of torch\.int64 found"):
        nw.shared("listdim").from_latents(torch.zeros(1, 14, 3).long())


def test_the_search_looks_at_directions_only():
    book = VectorQuantize(4, 3, 2)
    with torch.no_grad():
        book.codebook.weight.copy_(torch.tensor([[9.0, 0.0], [0.0, 0.1], [-1.0, -1.0]]))
    book.normalise()
    latents = torch.tensor([[[0.1, 0.01, -3.0], [0.05, 5.0, -2.0]]])
    assert book.nearest(latents).tolist() == [[0, 1, 2]]
    assert book.nearest(latents * 1e-6).tolist() == [[0, 1, 2]]


def test_two_near_equal_entries_in_bfloat16():
    """The search is made in float32: user demand 20. Entries and latents that bf16 holds apart."""
    book = VectorQuantize(4, 2, 2)
    with torch.no_grad():
        book.codebook.weight.copy_(torch.tensor([[1.0, 0.0078125], [1.0, 0.015625]]))
    book.to(torch.bfloat16)
    latents = torch.tensor([[[1.0, 1.0], [0.0125, 0.0110]]], dtype=torch.bfloat16)
    wide = F.normalize(latents.double(), dim=1).transpose(1, 2)
    entries = F.normalize(book.codebook.weight.double())
    assert torch.equal(book.nearest(latents), (wide @ entries.T).argmax(-1))
    assert book.unit_codebook.dtype == torch.float32
    assert book.to(torch.float64).unit_codebook.dtype == torch.float64


def test_a_zero_latent_takes_some_entry():
    model = nw.shared("even")
    codes = model.quantizer.quantizers[0].nearest(torch.zeros(1, 4, 3))
    assert ((codes >= 0) & (codes < 32)).all()
