"""Every block of the README, `docs/usage.md` and `docs/amd.md` is run, in order, as a reader would.

The blocks of a page share one folder and one Python session. A comment before a block says what
the test does otherwise, and a reader of the source sees it:

    <!-- test: "cuda" -> "cpu"; "name" -> "other" -->   run with these replacements
    <!-- test: not run, it needs the Hub -->            not run, and why
"""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import soundfile
import torch

from dac_rocm import DACVAE, CodecConfig

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/usage.md", "docs/amd.md")
BLOCK = re.compile(r"(?:<!-- test: ([^>]*?|.*?->.*?) -->\n)?```(\w+)\n(.*?)^```$", re.M | re.S)
SECONDS = 1.5


def blocks(page):
    """Yield the marker, language and text of each block of a page."""
    for match in BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
        yield match.groups()


def substituted(marker, text):
    for change in (marker or "").split(";"):
        old, arrow, new = (part.strip() for part in change.partition("->"))
        assert not arrow or old in text, f"{old} is not in the block; mend its marker"
        text = text.replace(old, new) if arrow else text
    return text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make the folder that the pages speak of."""
    audio = ROOT / "tests/data/audio"
    for name, source in (
        ("speech.wav", "speech_it_m_16k.wav"),
        ("other.wav", "speech_ru_f_16k_f32.wav"),
        ("guitar.wav", "solo_guitar_slide_48k_24bit.wav"),
    ):
        rate = soundfile.info(audio / source).samplerate
        samples, _ = soundfile.read(audio / source, stop=int(SECONDS * rate))
        soundfile.write(tmp_path / name, samples, rate, soundfile.info(audio / source).subtype)
    save_small_mova(tmp_path / "small-mova")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    return tmp_path


def save_small_mova(folder):
    """Save a network with the shape of MOVA's, but few channels and random weights."""
    data = json.loads((ROOT / "configs/mova-360p.json").read_text())["config"]
    for half in ("encoder", "decoder"):
        data[half]["width"] = 8
        for level in data[half]["levels"]:
            level["width"] = 8
    data["encoder"]["out_channels"] = 2 * data["bottleneck"]["latent_channels"]
    DACVAE(CodecConfig.from_dict(data)).save_pretrained(folder)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page, folder):
    torch.manual_seed(0)
    session = {}
    for marker, language, text in blocks(page):
        if (marker or "").startswith("not run"):
            assert len(marker) > len("not run, "), "say why"
        elif language == "python":
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*weights are random", UserWarning)
                exec(compile(substituted(marker, text), page, "exec"), session)
        elif language == "sh":
            command = ["bash", "-euo", "pipefail", "-c", substituted(marker, text)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{text}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_its_language(page):
    fences = re.findall(r"^```(.*)$", (ROOT / page).read_text(encoding="utf-8"), re.M)
    assert set(fences[::2]) <= {"sh", "python", "text"} and set(fences[1::2]) <= {""}


def test_generated_parts_of_the_readme_are_up_to_date():
    subprocess.run([sys.executable, ROOT / "scripts/make_readme.py", "--check"], check=True)


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md", "docs/decisions/README.md"])
def test_links_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
        assert "://" in target or (path.parent / target).exists(), f"{page}: {target}"


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs/decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for path in folder.glob("[0-9]*.md"):
        assert f"({path.name})" in index
