"""Weight norm folds to what torch computes, in three spellings, and back."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from dac_rocm.errors import WeightsError, WeightsMismatchError
from dac_rocm.weights.fold import entries_of, fold, plain, spelling_of, unfold

KINDS = [nn.Conv1d(3, 5, 7), nn.ConvTranspose1d(4, 2, 6), nn.Conv1d(8, 8, 1)]


def stored_as(spelling: str, module: nn.Module) -> dict[str, torch.Tensor]:
    state = {f"x.{name}": tensor.detach() for name, tensor in module.state_dict().items()}
    if spelling == "legacy":
        names = {"parametrizations.weight.original0": "weight_g"}
        names["parametrizations.weight.original1"] = "weight_v"
        state = {f"x.{names.get(n[2:], n[2:])}": tensor for n, tensor in state.items()}
    return state


@pytest.mark.parametrize("spelling", ["legacy", "parametrization"])
@pytest.mark.parametrize("index", range(len(KINDS)))
def test_folding_is_what_torch_computes(spelling: str, index: int) -> None:
    template = KINDS[index]
    torch.manual_seed(index)
    module = parametrizations.weight_norm(type(template)(*sizes(template)))
    with torch.no_grad():
        module.parametrizations.weight.original0.uniform_(0.3, 2.0)
    state = stored_as(spelling, module)
    assert spelling_of(state) == spelling
    entries = entries_of({name: tuple(t.shape) for name, t in state.items()})
    assert entries.keys() == {"x.weight", "x.bias"}
    entry = entries["x.weight"]
    made = entry.make(*(state[source].clone() for source in entry.sources))
    assert made.shape == entry.shape == module.weight.shape
    torch.testing.assert_close(made, module.weight, rtol=3e-7, atol=1e-8)


def sizes(module: nn.Module) -> tuple[int, int, int]:
    return module.in_channels, module.out_channels, module.kernel_size[0]


def test_folding_undoes_unfolding_to_the_bit() -> None:
    torch.manual_seed(0)
    for shape in ((64, 32, 7), (1, 96, 7), (256, 1, 1)):
        weight = torch.randn(shape)
        assert torch.equal(fold(*unfold(weight.clone())), weight)


def test_half_precision_is_folded_in_float32() -> None:
    torch.manual_seed(1)
    g, v = torch.rand(16, 1, 1).half(), torch.randn(16, 8, 3).half()
    wide = v.double() * g.double() / v.double().norm(dim=(1, 2), keepdim=True)
    made = fold(g, v)
    assert made.dtype == torch.float32
    torch.testing.assert_close(made.double(), wide, rtol=2e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float32])
def test_plain_tensors_become_float32(dtype: torch.dtype) -> None:
    stored = torch.tensor([1.5, -2.0], dtype=dtype)
    made = plain(stored)
    assert made.dtype == torch.float32
    assert made.tolist() == [1.5, -2.0]


def test_both_spellings_in_one_file() -> None:
    names = ["a.weight_g", "a.weight_v", "b.parametrizations.weight.original0"]
    assert spelling_of(names) == "legacy and parametrization"
    assert spelling_of(["a.weight", "a.bias"]) == "folded"


@pytest.mark.parametrize("shape", [(4, 1, 1), (2,), (6, 1, 1, 1)])
def test_a_magnitude_of_another_dim_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(WeightsMismatchError, match=r"x\.weight_g .*dim 0.*dim=0"):
        entries_of({"x.weight_g": shape, "x.weight_v": (6, 4, 3)})


@pytest.mark.parametrize("leaf", ["weight_g", "weight_v"])
def test_half_a_pair_is_refused(leaf: str) -> None:
    with pytest.raises(WeightsMismatchError, match="needs both"):
        entries_of({f"x.{leaf}": (6, 1, 1)})


def test_a_row_without_direction_is_refused() -> None:
    v = torch.ones(2, 3, 1)
    v[1] = 0
    with pytest.raises(WeightsError, match="row of zeros"):
        fold(torch.ones(2, 1, 1), v)
