"""Weights: a name or a path becomes a config and canonical, folded tensors.

Every checkpoint of the family is a rename table into one layout (Descript's names, weight norm
folded). Nothing here builds a network, and no file is trusted to run code.
"""

from __future__ import annotations

from dac_rocm.weights.checkpoint import Checkpoint, load_checkpoint
from dac_rocm.weights.convert import convert_checkpoint
from dac_rocm.weights.inspect import Inspection, inspect_checkpoint
from dac_rocm.weights.push import push_checkpoint
from dac_rocm.weights.save import save_checkpoint
from dac_rocm.weights.stored import Packing, Sources

__all__ = [
    "Checkpoint",
    "Inspection",
    "Packing",
    "Sources",
    "convert_checkpoint",
    "inspect_checkpoint",
    "load_checkpoint",
    "push_checkpoint",
    "save_checkpoint",
]
