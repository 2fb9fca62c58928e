#!/usr/bin/env python3
"""Score a training checkpoint on the given test clips, by category and number of codebooks.

Opus and Codec2 at about the same bitrate stand beside it where opusenc and c2enc are installed.

Needs: soundfile, soxr, pystoi; for the peers Debian's opus-tools and codec2.
"""

from __future__ import annotations

import argparse
import csv
import json
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

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT.parent)]

from training.network import RATE, Codec  # noqa: E402

from dac_rocm.audio.loudness import loudness, normalizing_gain_db  # noqa: E402
from dac_rocm.config import CodecConfig, RVQConfig  # noqa: E402
from dac_rocm.evaluate import evaluate  # noqa: E402

Coder = Callable[[np.ndarray], np.ndarray]
"""From samples [1, T] at 16 kHz to decoded ones."""
COLUMNS = ("stoi", "si_sdr_db", "log_mel_db", "stft_distance", "loudness_difference_db")


def clips(audio: Path) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield (name, category, samples [1, T] at 16 kHz, mono)."""
    with (audio / "MANIFEST.tsv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        x, rate = soundfile.read(audio / row["file"], dtype="float32", always_2d=True)
        mono = soxr.resample(x.mean(1), rate, RATE, "HQ")
        yield row["file"], row["category"].split("/")[0], mono[None].astype(np.float32)


def load_codec(path: Path) -> Codec:
    """Load the smoothed weights of a checkpoint."""
    state = torch.load(path, weights_only=True)
    net = Codec(CodecConfig.from_dict(state["config"]))
    net.load_state_dict(state["smooth"])
    return net.eval()


def network_coder(net: Codec, n_codebooks: int | None) -> Coder:
    """Code at -16 LUFS and give the level back, as the package does."""

    @torch.no_grad()
    def code(x: np.ndarray) -> np.ndarray:
        gain = 10 ** (normalizing_gain_db(loudness(x, RATE)) / 20)
        hop = net.config.hop_length
        padded = np.pad(x * np.float32(gain), ((0, 0), (0, -x.shape[1] % hop)))
        y = net(torch.from_numpy(padded)[None], n_codebooks)[0].numpy()
        return y[:, : x.shape[1]] / np.float32(gain)

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
    """Codec2 at its highest rate, 3.2 kbit/s, on 8 kHz audio; resampled back."""
    low = np.round(soxr.resample(x[0], RATE, 8000, "HQ").clip(-1, 1) * 32767).astype("<i2")
    coded = subprocess.run(
        ["c2enc", "3200", "-", "-"], input=low.tobytes(), capture_output=True, check=True
    ).stdout
    raw = subprocess.run(
        ["c2dec", "3200", "-", "-"], input=coded, capture_output=True, check=True
    ).stdout
    y = np.frombuffer(raw, "<i2").astype(np.float32) / 32768
    return _fit(soxr.resample(y, 8000, RATE, "HQ"), x.shape[1])


def _fit(y: np.ndarray, length: int) -> np.ndarray:
    return np.pad(y, (0, max(0, length - len(y))))[None, :length].astype(np.float32)


def coders(args: argparse.Namespace) -> Iterator[tuple[str, Coder]]:
    """Yield (name, coder) of everything that is scored."""
    if args.checkpoint is not None:
        net = load_codec(args.checkpoint)
        bottleneck = net.config.bottleneck
        if isinstance(bottleneck, RVQConfig):
            for n in (n for n in (1, 2, 4, 8, 16, 32) if n <= bottleneck.n_codebooks):
                yield f"{n} codebooks", network_coder(net, n)
        else:
            yield "latents", network_coder(net, None)
    if args.peers and shutil.which("opusenc"):
        yield "Opus 8 kbit/s", opus_coder(8)
    if args.peers and shutil.which("c2enc"):
        yield "Codec2 3.2 kbit/s", codec2_coder


def score(coder: Coder, audio: Path) -> list[dict[str, object]]:
    """Score every clip: one row each."""
    rows: list[dict[str, object]] = []
    for name, category, x in clips(audio):
        scores = evaluate(x, coder(x), RATE, with_stoi=category == "speech").to_dict()
        rows.append({"file": name, "category": category, **scores})
    return rows


def means(rows: list[dict[str, object]]) -> dict[str, dict[str, float]]:
    """Means of each measure by category and over all; the worst STOI beside them."""
    table: dict[str, dict[str, float]] = {}
    for category in (*sorted({str(r["category"]) for r in rows}), "all"):
        mine = [r for r in rows if category in (r["category"], "all")]
        table[category] = {}
        for column in COLUMNS:
            values = [float(str(r[column])) for r in mine if r[column] is not None]
            if values and not (column == "stoi" and category == "all"):
                table[category][column] = float(np.mean(values))
        if category == "speech":
            table[category]["worst_stoi"] = min(float(str(r["stoi"])) for r in mine)
    return table


def markdown(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return one table: a line for each coder and category."""
    columns = ("stoi", "worst_stoi", *COLUMNS[1:])
    lines = ["| coder | category | " + " | ".join(columns) + " |", "|---" * 8 + "|"]
    for coder, table in results.items():
        for category, values in table.items():
            cells = " | ".join(f"{values[c]:.3f}" if c in values else "" for c in columns)
            lines.append(f"| {coder} | {category} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--audio", type=Path, default=Path("../shared/audio"))
    parser.add_argument("--peers", action="store_true", help="Opus and Codec2 too")
    parser.add_argument("--json", type=Path, help="where to write all rows")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = {name: score(coder, args.audio) for name, coder in coders(args)}
    results = {name: means(some) for name, some in rows.items()}
    if args.json is not None:
        args.json.write_text(json.dumps({"clips": rows, "means": results}, indent=1) + "\n")
    print(markdown(results))


if __name__ == "__main__":
    main()
