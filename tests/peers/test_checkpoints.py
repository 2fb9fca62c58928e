"""Descript's `DAC.load` and transformers' `DacModel.from_pretrained` open what we convert."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from kits import COPIES, load
from safetensors.torch import load_file, save_file
from torch import Tensor

from dac_rocm.dac import DAC
from dac_rocm.weights import convert_checkpoint

VENVS = Path(__file__).parents[2] / ".venvs"
SOURCES = ["descript/odd/weights.pth", "transformers/main"]
DESCRIPT = """
model = dac.DAC.load({path!r}).eval()
z, codes, latents, *_ = model.encode(audio)
made = dict(z=z, codes=codes, audio=model.decode(z))
"""
TRANSFORMERS = """
model, info = transformers.DacModel.from_pretrained({path!r}, output_loading_info=True)
assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
extractor = transformers.AutoFeatureExtractor.from_pretrained({path!r})
assert extractor.hop_length == model.config.hop_length
out = model.eval().encode(audio)
decoded = model.decode(out.quantized_representation).audio_values[:, None]
made = dict(z=out.quantized_representation, codes=out.audio_codes, audio=decoded)
"""
PEERS = {
    "descript": ("dac", DESCRIPT, "weights.pth"),
    "transformers": ("transformers", TRANSFORMERS, "."),
}

pytestmark = pytest.mark.peers


def asked(peer: str, folder: Path, audio: Tensor) -> dict[str, Tensor]:
    """Let the peer encode and decode, in its own environment."""
    python = VENVS / peer / "bin" / "python"
    if not python.exists():
        pytest.skip("scripts/peers has not made the environment")
    module, script, name = PEERS[peer]
    save_file({"audio": audio}, folder / "in.safetensors")
    program = "\n".join(
        (
            "import sys, torch",
            "from safetensors.torch import load_file, save_file",
            f"import {module}",
            f"audio = load_file({str(folder / 'in.safetensors')!r})['audio']",
            "with torch.no_grad():",
            *(f"    {line}" for line in script.format(path=str(folder / name)).split("\n")),
            "made = {k: v.contiguous() for k, v in made.items()}",
            f"save_file(made, {str(folder / 'out.safetensors')!r})",
        )
    )
    command = [python, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return load_file(folder / "out.safetensors")


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("source", SOURCES)
def test_they_open_what_we_convert(peer: str, source: str, tmp_path: Path) -> None:
    checkpoint = load(COPIES / source)
    convert_checkpoint(checkpoint, tmp_path, peer)
    torch.manual_seed(0)
    audio = 0.2 * torch.randn(1, 1, 50 * checkpoint.config.hop_length)
    theirs = asked(peer, tmp_path, audio)
    model = DAC.from_checkpoint(checkpoint)
    codes = model.encode(audio)
    assert torch.equal(codes, theirs["codes"].long())
    torch.testing.assert_close(model.from_codes(codes), theirs["z"], rtol=0, atol=2e-5)
    torch.testing.assert_close(model.decode(codes), theirs["audio"], rtol=0, atol=3e-5)
