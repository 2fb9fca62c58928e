"""Parity with descript-audio-codec 1.0.0 through `load`: every intermediate, in order."""

from __future__ import annotations

import json
from pathlib import Path

import networks as nw
import pytest
import torch
from kits import ROOTS
from safetensors.torch import load_file
from tolerances import CODES_GAP

import dac_rocm

CASES = [
    (root / "descript", name, clip.stem)
    for root in ROOTS
    for name in ("even", "odd", "listdim")
    for clip in sorted((root / "descript" / name).glob("clip_*.safetensors"))
]


def noise_of(folder: Path, name: str, clip: str) -> dict[str, float]:
    manifest = json.loads((folder / "manifest.json").read_text())
    noise = manifest["models"][name]["clips"][clip]["noise_float32_vs_float64"]
    return {tensor: facts["suggested_atol"] for tensor, facts in noise.items()}


@pytest.mark.parametrize("optimize", [False, True], ids=["plain", "fast"])
@pytest.mark.parametrize(("folder", "name", "clip"), CASES, ids=lambda x: getattr(x, "name", x))
def test_every_intermediate(folder, name, clip, optimize):
    model = dac_rocm.load(folder / name / "weights.pth", optimize=optimize)
    stored = load_file(folder / name / f"{clip}.safetensors")
    atol = noise_of(folder, name, clip)
    audio = stored["audio"]
    z = model.encode_z(audio)
    near(z, stored["z_e"], atol["z_e"])
    sure = nw.sure(stored["codes_gap"], CODES_GAP)
    quantized = model.quantize(z)
    assert (quantized.codes == stored["codes"])[sure].all()
    frames = sure.all(1, keepdim=True)
    near((quantized.z - stored["z"]) * frames, 0 * stored["z"], atol["z"])
    near((quantized.latents - stored["latents"]) * frames, 0 * stored["latents"], atol["latents"])
    near(model.from_codes(stored["codes"]), stored["z_from_codes"], atol["z_from_codes"])
    near(model.decode(stored["codes"]), stored["audio_from_codes"], atol["audio_from_codes"])
    near(model.decode_z(stored["z"]), stored["audio_from_z"], atol["audio_from_z"])


@pytest.mark.parametrize(
    ("folder", "name", "clip"), [c for c in CASES if c[2] == "clip_a"], ids=lambda x: str(x)[-8:]
)
def test_fewer_codebooks(folder, name, clip):
    model = dac_rocm.load(folder / name / "weights.pth")
    stored = load_file(folder / name / f"{clip}.safetensors")
    atol = noise_of(folder, name, clip)
    for suffix in ("nq1", "nqhalf"):
        wanted = stored[f"codes_{suffix}"]
        n = wanted.shape[1]
        sure = nw.sure(stored["codes_gap"][:, :n], CODES_GAP)
        codes = model.encode(stored["audio"], n_codebooks=n)
        assert (codes == wanted)[sure].all()
        length = stored[f"audio_{suffix}"].shape[-1]
        near(
            model.decode(wanted)[..., :length], stored[f"audio_{suffix}"], atol["audio_from_codes"]
        )


def near(found: torch.Tensor, wanted: torch.Tensor, atol: float) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=atol)
