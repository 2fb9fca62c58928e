#!/usr/bin/env python3
"""Make the pictures of README.md: a plot, and a screenshot of a report in headless Chromium."""

import argparse
import io
import shutil
import tempfile
from pathlib import Path

import soundfile
from PIL import Image
from playwright.sync_api import sync_playwright

import dac_rocm
from dac_rocm.report import plot_file, write_report

ROOT = Path(__file__).parents[1]
RECORDING = ROOT / "tests/data/audio/speech_it_m_16k.wav"
PICTURES = ROOT / "docs/pictures"
SECONDS = 3.6
SCREEN = {"width": 1000, "height": 1470}
COLOURS = 96
MOST_BYTES = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="the browser to use")
    args = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    model = dac_rocm.load("tiny")
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "speech.wav"
        rate = soundfile.info(RECORDING).samplerate
        soundfile.write(clip, soundfile.read(RECORDING, stop=int(SECONDS * rate))[0], rate)
        plot_file(model, clip, clip.with_suffix(".png"))
        save("plot.png", clip.with_suffix(".png").read_bytes())
        page = clip.with_suffix(".html")
        write_report([clip], {"tiny": model}, page, n_codebooks=[4, 8, 16])
        save("report.png", screenshot(page, args.chromium))


def screenshot(page: Path, chromium: str) -> bytes:
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport=SCREEN)
        tab.goto(page.as_uri())
        tab.wait_for_timeout(500)  # players draw their length
        picture = tab.screenshot()
        browser.close()
    return picture


def save(name: str, data: bytes) -> None:
    """Write a picture with few colours, small enough for a repository."""
    picture = (
        Image.open(io.BytesIO(data)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    )
    path = PICTURES / name
    picture.save(path, optimize=True)
    size = path.stat().st_size
    assert size < MOST_BYTES, f"{path} has {size} bytes; at most {MOST_BYTES} are wanted"
    print(f"{path}: {size} bytes")


if __name__ == "__main__":
    main()
