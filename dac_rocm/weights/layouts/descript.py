"""Descript's own names, which are the canonical ones; also with a KL head.

Descript, Parler's `.pth` spellings, hance-ai and IBM hold codes. MOVA and HunyuanVideo-Foley are
the same network with a Gaussian bottleneck, whose decoders keep one more sample at odd strides.

Source: descriptinc/descript-audio-codec c7cfc5d; OpenMOSS/MOVA 595a976.
"""

from __future__ import annotations

from dac_rocm.config import CodecConfig, GaussianConfig, RVQConfig
from dac_rocm.weights.fold import Entries
from dac_rocm.weights.layouts.base import Family, Fields, Layout, Sizes, assembled

CODES = Family()
"""Descript Audio Codec."""
KL = Family(keeps_odd=True, spread="logvar")
"""MOVA and HunyuanVideo-Foley."""
HEADS = {"quant_conv.": "quantizer.in_proj.", "post_quant_conv.": "quantizer.out_proj."}
"""The KL heads, which stand at the root there."""


def doubling_config(
    family: Family,
    bottleneck: RVQConfig | GaussianConfig,
    *,
    sample_rate: int,
    encoder_dim: int,
    encoder_rates: tuple[int, ...],
    latent_dim: int,
    decoder_dim: int,
    decoder_rates: tuple[int, ...],
) -> CodecConfig:
    """Return the mono config that these constructor arguments of Descript's `DAC` mean.

    Widths double at each level of the encoder and halve at each level of the decoder.
    """
    down = tuple(encoder_dim << i for i in range(len(encoder_rates) + 1))
    up = tuple(decoder_dim >> i for i in range(len(decoder_rates) + 1))
    return assembled(
        family,
        sample_rate,
        Sizes(1, down, encoder_rates, latent_dim, 3, final_bias=True),
        Sizes(latent_dim, up, decoder_rates, 1, 7, final_bias=True),
        bottleneck,
    )


def _matches(entries: Entries, fields: Fields) -> bool:
    return "encoder.block.0.weight" in entries or "decoder.model.0.weight" in entries


def _rename(entries: Entries) -> Entries:
    return {_canonical(name): entry for name, entry in entries.items()}


def _canonical(name: str) -> str:
    for head, projection in HEADS.items():
        if name.startswith(head):
            return projection + name.removeprefix(head)
    return name


def _family(entries: Entries, fields: Fields) -> Family:
    projections = {"quantizer.in_proj.weight", "quantizer.out_proj.weight"}
    return KL if projections & entries.keys() else CODES


DESCRIPT = Layout(name="descript", matches=_matches, rename=_rename, family=_family)
