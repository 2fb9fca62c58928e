"""Meta's DACVAE: Descript's names, with a watermark branch woven into the decoder.

The branch is left out. The codec's own units are numbered around it, and its output layers lie
inside it.

Source: facebookresearch/dacvae, through the copy stllfe/dacvae 414c207.
"""

from __future__ import annotations

import re

from dac_rocm.weights.fold import Entries
from dac_rocm.weights.layouts.base import Family, Fields, Layout, highest

META = Family(pads_down=True, keeps_odd=True, spread="softplus", input_padding="reflect")
"""Meta DACVAE."""
WATERMARK = "decoder.wm_model."
"""Where the watermark lies."""
HEAD = f"{WATERMARK}encoder_block.pre."
"""Where the output layers lie: snake 0, convolution 1."""
CODEC_UNITS = {"0": "0", "1": "1", "4": "2", "5": "3", "8": "4"}
"""Index in a decoder block there, to the canonical one; the rest is the watermark's."""
UNUSED = {"mean", "std"}
"""Constants that SAM-Audio stores beside the codec and never reads."""


def _matches(entries: Entries, fields: Fields) -> bool:
    return "quantizer.in_proj.weight" in entries or any(n.startswith(WATERMARK) for n in entries)


def _rename(entries: Entries) -> Entries:
    levels = highest(entries, "decoder.model.", r"block\.")
    names = {name: _canonical(name, levels) for name in entries if name not in UNUSED}
    return {ours: entries[theirs] for theirs, ours in names.items() if ours}


def _canonical(name: str, levels: int) -> str | None:
    if name.startswith(HEAD) and name[len(HEAD)] in "01":
        index = levels + 1 + int(name[len(HEAD)])
        return f"decoder.model.{index}.{name.rpartition('.')[2]}"
    if name.startswith(WATERMARK):
        return None
    match = re.match(r"(decoder\.model\.\d+\.block\.)(\d+)(\..+)", name)
    if match is None:
        return name
    index_here = CODEC_UNITS.get(match[2])
    return index_here and f"{match[1]}{index_here}{match[3]}"


DACVAE = Layout(
    name="dacvae",
    matches=_matches,
    rename=_rename,
    family=lambda entries, fields: META,
    droppable="the watermark branch: decoded audio carries no watermark",
)
