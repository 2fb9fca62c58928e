"""The models in the wheel are the ones that their cards describe."""

import hashlib
import json
import re
import warnings
from pathlib import Path

import pytest
from safetensors.torch import load_file

import dac_rocm

ROOT = Path(__file__).parents[2]
ASSETS, CARDS = ROOT / "dac_rocm/assets", ROOT / "docs/models"
SHA256 = {
    "tiny": "366dbd838aa56269f9086401f9b00c462d4c9fd17ad967d6f07db1f4d9fdae53",
    "tiny-vae": "8c371cea0b0331a9dc668aab13450a76ae6e5926e533803e5b635ea7fc4a87f0",
}
"""Of the tensor files; written by scripts/training/export.py. A new model needs new scores too."""


@pytest.mark.parametrize("name", SHA256)
def test_the_file_is_the_one_that_was_scored(name):
    content = (ASSETS / f"{name}.safetensors").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256[name]
    assert SHA256[name] in (CARDS / f"{name}.md").read_text()


@pytest.mark.parametrize("name", SHA256)
def test_the_file_is_small_half_precision_and_licensed(name):
    path = ASSETS / f"{name}.safetensors"
    assert path.stat().st_size <= 4_000_000
    assert {str(t.dtype) for t in load_file(path).values()} == {"torch.float16"}
    assert json.loads((ASSETS / f"{name}.json").read_text())["license"] == "CC-BY-SA-4.0"


@pytest.mark.parametrize("name", SHA256)
def test_loading_warns_nothing(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dac_rocm.load(name, device="cpu").notes == ()


def tables(text):
    """Return {heading: {coder: numbers}} of the scores of a card."""
    found, heading = {}, ""
    for line in text.split("<!-- scores -->")[1].split("<!-- end of scores -->")[0].splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.endswith(":"):
            heading = line.split(",")[0].split(" in ")[0]
        elif len(cells) > 2 and re.fullmatch(r"-?[\d.]+", cells[1]):
            found.setdefault(heading, {})[cells[0]] = [float(c) for c in cells[1:]]
    return found


@pytest.fixture(scope="module")
def scores():
    return tables((CARDS / "tiny.md").read_text())


def test_more_codebooks_are_closer(scores):
    falling = [row[-1] for name, row in scores["Log-mel distance"].items() if "codebook" in name]
    assert len(falling) == 5
    assert falling == sorted(falling, reverse=True) and len(set(falling)) == 5


def test_the_scores_are_what_the_models_were_made_for(scores):
    mean, worst = scores["STOI of speech"]["`tiny`, 16 codebooks, 8 kbit/s"]
    assert mean >= 0.85 and worst >= 0.75
    speech, dense, solo, choir, *_ = scores["SI-SDR"]["`tiny`, 16 codebooks, 8 kbit/s"]
    assert min(speech, dense, solo, choir) > 0


def test_latents_are_closer_than_codes(scores):
    for heading, rows in scores.items():
        codes, latents = rows["`tiny`, 16 codebooks, 8 kbit/s"], rows["`tiny-vae`, latents"]
        sign = 1 if heading in ("SI-SDR", "STOI of speech") else -1
        for a, b in zip(codes, latents, strict=True):
            assert sign * b > sign * a, heading


def test_other_coders_stand_beside_them(scores):
    for rows in scores.values():
        assert {name.split(",")[0] for name in rows} == {"`tiny`", "`tiny-vae`", "Opus", "Codec2"}


def test_the_card_shows_the_picture():
    assert "(spectrogram.png)" in (CARDS / "tiny.md").read_text()
    assert (CARDS / "spectrogram.png").stat().st_size < 1_000_000
