"""`.dac` files of the original: our codes for its sources, our audio for its codes."""

from __future__ import annotations

import json
from pathlib import Path

import networks as nw
import numpy as np
import pytest
import torch
from kits import ROOTS
from safetensors.torch import load_file
from tolerances import CODES_GAP, CODES_GAP_RESAMPLED, LOUDNESS_DB

import dac_rocm
from dac_rocm.audio.files import read_audio
from dac_rocm.container import read_encoded
from dac_rocm.encoded import Loudness

DATA = Path(__file__).parents[1] / "data"
KIT_FOLDERS = [DATA, *(root for root in ROOTS if root.name == "reference" and root.parent != DATA)]
FOLDERS = [f / "descript_files" for f in KIT_FOLDERS if (f / "descript_files").is_dir()]


def models_of(folder: Path) -> Path:
    local = folder.parent / "descript"
    return local if local.is_dir() else DATA / "reference" / "descript"


def cases(*, padding: bool | None = None, channels: int | None = None) -> list:
    found = []
    for folder in FOLDERS:
        for name, facts in json.loads((folder / "manifest.json").read_text())["cases"].items():
            if not (folder / f"{name}.dac").exists() or name.startswith("old"):
                continue
            if padding not in (None, facts.get("padding")):
                continue
            if channels not in (None, facts.get("channels")):
                continue
            found.append(pytest.param(folder, name, facts, id=f"{folder.parent.name}-{name}"))
    return found


def model_of(folder: Path, facts: dict) -> dac_rocm.DAC:
    return dac_rocm.load(models_of(folder) / facts["model"] / "weights.pth")


@pytest.mark.parametrize(("folder", "name", "facts"), cases(channels=1))
def test_their_codes_give_their_audio(folder, name, facts):
    """Chunked and whole; where the original raises, zeros up to the original length."""
    model = model_of(folder, facts)
    stored = load_file(folder / f"{name}.safetensors")
    audio, rate = dac_rocm.decode_audio(model, read_encoded(folder / f"{name}.dac"))
    assert (rate, audio.shape) == (facts["sample_rate"], (1, facts["original_length"]))
    if "decoded" in stored:
        wanted, atol = stored["decoded"], facts["suggested_atol_decoded"]
        torch.testing.assert_close(torch.from_numpy(audio), wanted, rtol=0, atol=atol)
    else:
        raw = stored["decoded_before_reshape"].reshape(1, -1)
        n = raw.shape[-1]
        torch.testing.assert_close(torch.from_numpy(audio[:, :n]), raw, rtol=0, atol=2e-5)
        assert (audio[:, n:] == 0).all()


@pytest.mark.parametrize(("folder", "name", "facts"), cases(channels=2))
def test_stereo_keeps_its_balance(folder, name, facts):
    """The original levels each channel alone: ours differs from it by one factor per channel."""
    model = model_of(folder, facts)
    wanted = load_file(folder / f"{name}.safetensors")["decoded"].numpy()
    audio, _ = dac_rocm.decode_audio(model, read_encoded(folder / f"{name}.dac"))
    assert audio.shape == wanted.shape
    factors = (audio * wanted).sum(1) / np.square(wanted).sum(1)
    atol = max(facts["suggested_atol_decoded"], 1e-4 * np.abs(wanted).max())
    np.testing.assert_allclose(audio, wanted * factors[:, None], atol=4 * atol)
    raw = np.array(facts["reconstruction_db_per_row"])
    ratio = 20 * np.log10(factors[0] / factors[1])
    assert ratio == pytest.approx(raw[0] - raw[1], abs=2 * LOUDNESS_DB)


@pytest.mark.parametrize(("folder", "name", "facts"), cases(padding=True))
def test_our_codes_for_their_sources(folder, name, facts, tmp_path):
    source = folder / f"{name}.wav"
    if not source.exists():
        pytest.skip("the source of this copy is not kept")
    model = model_of(folder, facts)
    target = tmp_path / "ours.dac"
    dac_rocm.encode_file(model, source, target)
    ours, theirs = read_encoded(target), read_encoded(folder / f"{name}.dac")
    assert isinstance(ours.level, Loudness)
    assert ours.level.db == pytest.approx(facts["input_db"][0], abs=LOUDNESS_DB)
    assert (ours.length, ours.channels) == (theirs.length, theirs.channels)
    stored = load_file(folder / f"{name}.safetensors")
    n = theirs.frames
    assert ours.frames - n in (0, 1)  # one more where the original would fall short
    sure = nw.sure(stored["codes_gap"], CODES_GAP_RESAMPLED if "resampled" in stored else 1e-3)
    tail = 0 if "resampled" not in stored else 2
    equal = torch.from_numpy(ours.data[..., : n - tail].astype(np.int64))
    wanted = stored["codes"][..., : n - tail]
    last = slice(None, n - 12)  # with a frame more, the last ones see its samples
    ok = (equal == wanted)[..., last][sure[..., : n - tail][..., last]]
    assert ok.float().mean() > 0.999
    assert sure.float().mean() > 0.3, CODES_GAP
    audio, _ = read_audio(source)
    assert audio.shape == (ours.channels, ours.length)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.parent.name)
@pytest.mark.parametrize("name", ["old_mono", "old_mono_plain"])
def test_files_before_release_1(folder, name):
    """Their length counts samples at the model's rate, their level comes from ffmpeg's meter."""
    encoded = read_encoded(folder / f"{name}.dac")
    weights = models_of(folder) / "even" / "weights.pth"
    audio, rate = dac_rocm.decode_audio(dac_rocm.load(weights), encoded)
    assert rate == encoded.sample_rate
    assert audio.shape[1] == encoded.length * rate // 16000
    stored = load_file(folder / "old_mono.safetensors")
    if rate != 16000 or "decoded_model_rate" not in stored:
        return
    wanted = stored["decoded_model_rate"].reshape(1, -1).numpy()
    factor = (audio * wanted).sum() / np.square(wanted).sum()
    assert abs(20 * np.log10(factor)) < 0.6
    np.testing.assert_allclose(audio, wanted * factor, atol=1e-4)
