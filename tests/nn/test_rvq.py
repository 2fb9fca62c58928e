"""The quantizer against a search in float64, and what follows from its weights."""

from __future__ import annotations

import networks as nw
import pytest
import torch
from tolerances import CODES_GAP
from torch.nn import functional as F

from dac_rocm.config import RVQConfig
from dac_rocm.errors import AudioError, ShapeError
from dac_rocm.nn.rvq import ResidualVectorQuantize, VectorQuantize


def by_brute_force(latents, entries):
    """Euclidean search between unit vectors, in float64."""
    a = F.normalize(latents.double().transpose(1, 2), dim=-1)
    b = F.normalize(entries.double(), dim=-1)
    return torch.cdist(a, b[None]).argmin(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_search_is_that_of_float64(dtype):
    torch.manual_seed(0)
    q = VectorQuantize(12, 64, 4).to(dtype).requires_grad_(False)
    latents = torch.randn(2, 4, 300, dtype=dtype)
    assert torch.equal(q.nearest(latents), by_brute_force(latents, q.codebook.weight))


def test_two_entries_that_almost_agree():
    q = VectorQuantize(12, 64, 4).requires_grad_(False)
    q.codebook.weight[1] = q.codebook.weight[0] + torch.tensor([0, 0, 1e-2, 0])
    q.normalise()
    latents = q.codebook.weight[:2].T[None] * torch.tensor([0.1, 30.0])
    assert q.nearest(latents).tolist() == [[0, 1]]


def test_length_does_not_matter_to_the_search_but_to_the_entry():
    q = VectorQuantize(6, 8, 3).requires_grad_(False)
    q.codebook.weight[3] *= 5
    q.normalise()
    assert q.nearest(q.codebook.weight[3].reshape(1, 3, 1)).item() == 3
    wanted = q.out_proj(q.codebook.weight[3].reshape(1, 3, 1))
    torch.testing.assert_close(q.decode(torch.tensor([[3]])), wanted)


def test_residuals_and_round_trips():
    torch.manual_seed(1)
    config = RVQConfig(codebook_size=32, codebook_dims=(2, 4, 8))
    rvq = ResidualVectorQuantize(10, config).requires_grad_(False)
    z = torch.randn(2, 10, 40)
    whole = rvq(z)
    assert whole.codes.shape == (2, 3, 40) and whole.latents.shape == (2, 14, 40)
    first = rvq(z, 1)
    assert torch.equal(first.codes, whole.codes[:, :1])
    second = rvq.quantizers[1].in_proj(z - first.z)
    torch.testing.assert_close(whole.latents[:, 2:6], second)
    assert torch.equal(rvq.from_codes(whole.codes), whole.z)
    again = rvq.from_latents(whole.latents[:, :6])
    assert torch.equal(again.codes, whole.codes[:, :2])
    assert torch.equal(again.z, rvq.from_codes(whole.codes[:, :2]))


def test_loaded_weights_are_searched():
    model, other = nw.build("even"), nw.build("even", seed=1)
    x = nw.noise(1, 1, 2000)
    model.load_state_dict(other.state_dict())
    assert torch.equal(model.encode(x), other.encode(x))


def test_what_models_refuse():
    model = nw.shared("even")
    with pytest.raises(ShapeError, match="latents of 5 channels found"):
        model.from_latents(torch.zeros(1, 5, 3))
    with pytest.raises(ShapeError, match="z of 3 channels found"):
        model.quantize(torch.zeros(1, 3, 3))
    with pytest.raises(AudioError, match="NaN or infinite values in z"):
        model.from_z(torch.full((1, 10, 2), float("inf")))


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
