#!/usr/bin/env python3
"""Score bundled models on given clips, by category and number of codebooks, as the card has it.

Opus and Codec2 at about the same bitrate stand beside them where opusenc and c2enc are installed.

Needs: pystoi; for the peers Debian's opus-tools and codec2.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dac_rocm
from dac_rocm.evaluate import evaluate

RATE = 16_000
Coder = Callable[[np.ndarray], np.ndarray]
"""From samples [1, T] at 16 kHz to decoded ones."""
Row = dict[str, float | str | None]
CATEGORIES = {
    "speech": "speech",
    "dense": "dense music",
    "solo": "solo instrument",
    "choir": "voices",
    "percussion": "percussion",
    "noise": "noise",
}
"""Column of the tables to category of the manifest."""
MEASURES = {
    "si_sdr_db": "SI-SDR in dB, more is better",
    "log_mel_db": "Log-mel distance in dB, less is better",
    "stft_distance": "Multi-resolution STFT distance, less is better",
    "loudness_difference_db": "Loudness difference in dB without its sign, less is better",
}
CODEC2_DELAY = 320
"""Samples at 16 kHz by which Codec2's output is late: where its mean STOI is best."""


def clips(audio: Path) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield (name, category, samples [1, T] at 16 kHz, mono)."""
    with (audio / "MANIFEST.tsv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        x, rate = soundfile.read(audio / row["file"], dtype="float32", always_2d=True)
        mono = soxr.resample(x.mean(1), rate, RATE, "HQ")
        yield row["file"], row["category"].split("/")[0], mono[None].astype(np.float32)


def model_coder(model: dac_rocm.DAC | dac_rocm.DACVAE, n_codebooks: int | None) -> Coder:
    """Encode and decode as the package does, level included."""

    def code(x: np.ndarray) -> np.ndarray:
        encoded = dac_rocm.encode_audio(model, x, RATE, n_codebooks=n_codebooks)
        decoded, _ = dac_rocm.decode_audio(model, encoded)
        return np.asarray(decoded)

    return code


def opus_coder(kbps: int) -> Coder:
    """Opus by opusenc and opusdec, constant bitrate."""

    def code(x: np.ndarray) -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder:
            a, b, c = (str(Path(folder) / n) for n in ("a.wav", "b.opus", "c.wav"))
            soundfile.write(a, x[0], RATE)
            quiet = ["opusenc", "--quiet", "--hard-cbr", "--bitrate", str(kbps), a, b]
            subprocess.run(quiet, check=True)
            subprocess.run(["opusdec", "--quiet", "--rate", str(RATE), b, c], check=True)
            y, _ = soundfile.read(c, dtype="float32")
        return _fit(y, x.shape[1])

    return code


def codec2_coder(x: np.ndarray) -> np.ndarray:
    """Codec2 at its highest rate, 3.2 kbit/s, on 8 kHz audio; resampled back, delay removed."""
    low = np.round(soxr.resample(x[0], RATE, 8000, "HQ").clip(-1, 1) * 32767).astype("<i2")
    data = np.pad(low, (0, CODEC2_DELAY)).tobytes()
    for command in ("c2enc", "c2dec"):
        done = subprocess.run(
            [command, "3200", "-", "-"], input=data, capture_output=True, check=True
        )
        data = done.stdout
    y = soxr.resample(np.frombuffer(data, "<i2").astype(np.float32) / 32768, 8000, RATE, "HQ")
    return _fit(y[CODEC2_DELAY:], x.shape[1])


def _fit(y: np.ndarray, length: int) -> np.ndarray:
    return np.pad(y, (0, max(0, length - len(y))))[None, :length].astype(np.float32)


def coders(models: list[str], *, peers: bool) -> Iterator[tuple[str, Coder]]:
    """Yield (name, coder) of everything that is scored."""
    for name in models:
        model = dac_rocm.load(name, device="cpu")
        if not isinstance(model, dac_rocm.DAC):
            yield f"`{model.name}`, latents", model_coder(model, None)
            continue
        every = model.config.bottleneck.n_codebooks
        for n in (n for n in (1, 2, 4, 8, 16, 32) if n <= every):
            kbps = model.config.bitrate * n / every / 1000
            yield (
                f"`{model.name}`, {n} codebook{'s' * (n > 1)}, {kbps:g} kbit/s",
                model_coder(model, n),
            )
    if peers and shutil.which("opusenc"):
        yield "Opus, 8 kbit/s, hard CBR", opus_coder(8)
    if peers and shutil.which("c2enc"):
        yield "Codec2, 3.2 kbit/s", codec2_coder


def score(coder: Coder, audio: Path) -> list[Row]:
    """Score every clip: one row each."""
    rows: list[Row] = []
    for name, category, x in clips(audio):
        scores = evaluate(x, coder(x), RATE, with_stoi=category == "speech").to_dict()
        scores["loudness_difference_db"] = abs(scores["loudness_difference_db"] or 0.0)
        rows.append({"file": name, "category": category, **scores})
    return rows


def mean(rows: list[Row], measure: str, category: str | None = None) -> float:
    """Return the mean of a measure over a category of the manifest, or over all clips."""
    values = [r[measure] for r in rows if category in (r["category"], None)]
    return float(np.mean(np.array(values, dtype=np.float64)))


def stois(rows: list[Row]) -> tuple[float, float]:
    """Return mean and worst STOI."""
    values = [float(r["stoi"]) for r in rows if r["stoi"] is not None]
    return float(np.mean(values)), min(values)


def markdown(results: dict[str, list[Row]]) -> str:
    """Return one table for each measure, a line for each coder."""
    lines = ["STOI of speech, more is better:", "", "| coder | mean | worst |", "|---|---:|---:|"]
    for name, rows in results.items():
        lines.append("| {} | {:.3f} | {:.3f} |".format(name, *stois(rows)))
    for measure, title in MEASURES.items():
        lines += ["", f"{title}:", "", "| coder | " + " | ".join([*CATEGORIES, "all"]) + " |"]
        lines.append("|---" + "|---:" * (len(CATEGORIES) + 1) + "|")
        for name, rows in results.items():
            values = [mean(rows, measure, c) for c in (*CATEGORIES.values(), None)]
            lines.append(f"| {name} | " + " | ".join(f"{v:.2f}" for v in values) + " |")
    return "\n".join(lines) + "\n"


def write_card(card: Path, text: str) -> None:
    """Replace what stands between the marks of the scores."""
    pattern = r"(<!-- scores -->\n).*(<!-- end of scores -->)"
    old = card.read_text(encoding="utf-8")
    if not re.search(pattern, old, flags=re.S):
        sys.exit(f"no marks of scores in {card}: `<!-- scores -->`, `<!-- end of scores -->`")
    new = re.sub(pattern, lambda m: f"{m[1]}\n{text}\n{m[2]}", old, flags=re.S)
    card.write_text(new, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=["tiny", "tiny-vae"], help="names or paths")
    parser.add_argument("--audio", type=Path, default=Path("../shared/audio"))
    parser.add_argument("--peers", action="store_true", help="Opus and Codec2 too")
    parser.add_argument("--json", type=Path, help="where to write the scores of every clip")
    parser.add_argument("--card", type=Path, help="page whose tables are to be replaced")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for name, coder in coders(args.models, peers=args.peers):
        results[name] = score(coder, args.audio)
        print(name, *(f"{v:.3f}" for v in stois(results[name])), file=sys.stderr, flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    if args.card is not None:
        write_card(args.card, markdown(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
