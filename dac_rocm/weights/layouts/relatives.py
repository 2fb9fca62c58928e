"""Known relatives whose graph is another one: refused by name, with what differs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from dac_rocm.weights.layouts.base import Fields


class Relative(NamedTuple):
    """A codec that looks like one of the family and is none.

    Args:
        name: What it is.
        pattern: Found in a tensor name of every such checkpoint.
        differs: In what it differs from DAC.
    """

    name: str
    pattern: str
    differs: str


RELATIVES = (
    Relative(
        "Fish modded DAC",
        r"quantizer\.semantic_quantizer\.",
        "causal convolutions, a window transformer and a semantic codebook",
    ),
    Relative(
        "SNAC",
        r"(^|\.)decoder\.model\.\d+\.block\.2\.linear\.|\.to_qkv\.|\.rel_pos\.",
        "depthwise units, noise blocks and codebooks of several rates",
    ),
    Relative(
        "X-Codec or Higgs audio",
        r"(^|\.)acoustic_(en|de)coder\.",
        "a semantic branch and Euclidean codebooks",
    ),
    Relative("VoxCPM", r"(^|\.)fc_(mu|logvar)\.", "causal, depthwise convolutions"),
    Relative(
        "PE-Audio",
        r"(^|\.)dac_encoder\.",
        "an encoder whose bottleneck keeps only the mean",
    ),
    Relative(
        "SAME or TAAE",
        r"(^|\.)(en|de)coder\.layers\..*\.(self_attn|transformers?)\.",
        "transformer blocks between the convolutions",
    ),
    Relative(
        "EnCodec",
        r"(^|\.)encoder\.(layers|model)\.\d+\.(conv|lstm)\.",
        "ELU and LSTM in place of snakes",
    ),
    Relative(
        "a BigVGAN codec such as MiniMax H3",
        r"(^|\.)(decoder\.)?(ups|resblocks)\.\d+\.",
        "a BigVGAN decoder",
    ),
)
"""In the order in which they are tried."""
AGC = Relative("AGC", "", "noise on the input and a latent constant")
"""Known by its fields, not by its names."""


def relative_of(names: Iterable[str], fields: Fields) -> Relative | None:
    """Return the relative that a checkpoint is of, if any.

    Args:
        names: Of its tensors, without prefix.
        fields: What its config says.
    """
    if {"continuous", "vae"} <= fields.keys():
        return AGC
    listed = list(names)
    for relative in RELATIVES:
        pattern = re.compile(relative.pattern)
        if any(pattern.search(name) for name in listed):
            return relative
    return None
