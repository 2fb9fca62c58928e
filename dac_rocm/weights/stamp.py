"""Fingerprints: which weights made a file, in 16 digits per group of tensors.

Source: `.dacz`, version 1 (README): only tensors that no folding touches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from torch import Tensor

from dac_rocm.encoded import ModelStamp

GROUPS = {
    "codebooks": ("quantizer.quantizers.", (".codebook.weight",)),
    "encoder": ("encoder.", (".bias", ".alpha", ".beta")),
    "decoder": ("decoder.", (".bias", ".alpha", ".beta")),
}
"""Group to prefix and endings of its canonical names."""


def stamp_of(name: str, tensors: Mapping[str, Tensor]) -> ModelStamp:
    """Take the fingerprints of the groups that are there.

    Args:
        name: Name of the model.
        tensors: Canonical names; float32, on the CPU.
    """
    prints = {}
    for group, (prefix, endings) in GROUPS.items():
        names = sorted(n for n in tensors if n.startswith(prefix) and n.endswith(endings))
        if names:
            prints[group] = _fingerprint([tensors[n] for n in names])
    return ModelStamp(name=name, fingerprints=prints)


def _fingerprint(tensors: list[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.numpy().astype("<f4").tobytes())
    return digest.hexdigest()[:16]
