"""Weight norm, folded away: three spellings of (g, v) become plain weights.

An `Entry` says how one tensor is made of stored ones, without reading any. This room must not
know layouts.

Source: Salimans and Kingma 2016 (arXiv:1602.07868), equation 2; torch's `weight_norm` with dim 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dac_rocm.errors import WeightsError, WeightsMismatchError

Shape = tuple[int, ...]

LEGACY = (".weight_g", ".weight_v")
"""Magnitude and direction as torch's old `weight_norm` names them."""
PARAMETRIZED = (".parametrizations.weight.original0", ".parametrizations.weight.original1")
"""The same, as `torch.nn.utils.parametrizations.weight_norm` names them."""


class Entry(NamedTuple):
    """How one tensor is made of stored ones.

    Args:
        shape: What comes out.
        sources: Names of the stored tensors.
        make: Takes them in that order and returns float32; it may use their memory.
    """

    shape: Shape
    sources: tuple[str, ...]
    make: Callable[..., Tensor]


Entries = dict[str, Entry]


def entries_of(shapes: Mapping[str, Shape]) -> Entries:
    """Pair the stored names: one entry per plain tensor, one `.weight` per (g, v).

    Raises:
        WeightsMismatchError: A g or v is alone, or g has not the shape that dim 0 gives.
    """
    entries: Entries = {}
    for name, shape in shapes.items():
        stem, spelling = _spelling(name)
        if spelling is None:
            entries[name] = Entry(shape, (name,), plain)
        elif name.endswith(spelling[1]):
            entries[f"{stem}.weight"] = _normed(stem, spelling, shapes)
        elif stem + spelling[1] not in shapes:
            raise _lonely(name, stem + spelling[1])
    return entries


def spelling_of(names: Iterable[str]) -> str:
    """Name the spelling of weight norm: `legacy`, `parametrization`, both, or `folded`."""
    found = {_spelling(name)[1] for name in names}
    kinds = [
        kind for kind, s in (("legacy", LEGACY), ("parametrization", PARAMETRIZED)) if s in found
    ]
    return " and ".join(kinds) or "folded"


def plain(stored: Tensor) -> Tensor:
    """Return a stored tensor as float32."""
    return stored.float()


def fold(g: Tensor, v: Tensor) -> Tensor:
    """Return g · v / ‖v‖ in float32; norms over all dims but the first, in float64.

    Rows whose g is their norm, rounded to float32, are returned as they are, so that folding
    undoes `unfold` to the bit. A float32 v is overwritten.

    Args:
        g: [C, 1, 1], any float type.
        v: [C, ...], any float type.

    Raises:
        WeightsError: A row of v is zero, so it has no direction.
    """
    wide = v.float()
    norm = _norms(wide)
    if not norm.all():
        raise WeightsError(
            "a row of zeros found in `weight_v`; every row needs a direction. "
            "Take an undamaged copy of the checkpoint."
        )
    scale = torch.where(g.float() == norm.float(), 1.0, g.double() / norm).float()
    return wide.mul_(scale)


def unfold(w: Tensor) -> tuple[Tensor, Tensor]:
    """Return (g, v) with v = w, for readers that expect weight norm.

    Args:
        w: [C, ...], any float type.
    """
    return _norms(w.float()).to(w.dtype), w


def _norms(w: Tensor) -> Tensor:
    """Return the norms [C, 1, 1] of float32 rows, in float64; numpy is five times as fast here."""
    rows = w.flatten(1).numpy()
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return torch.from_numpy(np.sqrt(squares))[:, None, None]


def _spelling(name: str) -> tuple[str, tuple[str, str] | None]:
    for spelling in (LEGACY, PARAMETRIZED):
        for leaf in spelling:
            if name.endswith(leaf):
                return name.removesuffix(leaf), spelling
    return name, None


def _normed(stem: str, spelling: tuple[str, str], shapes: Mapping[str, Shape]) -> Entry:
    g, v = (stem + leaf for leaf in spelling)
    if g not in shapes:
        raise _lonely(v, g)
    expected = (shapes[v][0], 1, 1) if len(shapes[v]) == 3 else None
    if shapes[g] != expected:
        raise WeightsMismatchError(
            f"{g} of shape {list(shapes[g])} found beside {v} of shape {list(shapes[v])}; "
            f"{list(expected) if expected else 'three axes'} is expected (weight norm over dim 0). "
            "Export the checkpoint again with dim=0."
        )
    return Entry(shapes[v], (g, v), fold)


def _lonely(found: str, missing: str) -> WeightsMismatchError:
    return WeightsMismatchError(
        f"{found} found without {missing}; weight norm needs both. Take a complete checkpoint."
    )
