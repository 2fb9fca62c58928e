#!/usr/bin/env python3
"""Fetch set A of `../shared/training_audio.md` and make a 16 kHz mono training set of it.

The recordings come from Debian packages with attribution and share-alike licences; they are never
committed. Clips of the given test set are left out by source path and by content, and every
twentieth file by name is held out for validation.

Needs: apt-get and dpkg (Debian), numpy, soundfile, soxr, and ffmpeg or imageio-ffmpeg (G.722).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile
import soxr

PACKAGES = {
    "asterisk-core-sounds-en-g722": "speech",
    "asterisk-core-sounds-es-g722": "speech",
    "asterisk-core-sounds-fr-g722": "speech",
    "asterisk-core-sounds-it-g722": "speech",
    "asterisk-core-sounds-ru-g722": "speech",
    "singularity-music": "music",
    "fretsonfire-songs-sectoid": "music",
    "lomiri-sounds": "music",
    "sonic-pi-samples": "effects",
    "yaru-theme-sound": "effects",
}
"""Set A: no GPL. Source: ../shared/training_audio.md."""

OTHER_COPIES = {
    (
        "asterisk-core-sounds-en-g722",
        "usr/share/asterisk/sounds/en_US_f_Allison/tt-allbusy.g722",
    ),
    (
        "fretsonfire-songs-sectoid",
        "usr/share/games/fretsonfire/data/songs/sectoid/Metal madness/guitar.ogg",
    ),
    (
        "fretsonfire-songs-sectoid",
        "usr/share/games/fretsonfire/data/songs/sectoid/Feelings/song.ogg",
    ),
}
"""Further copies or stems of test clips. Source: the recipe in ../shared/training_audio.md."""

SUFFIXES = {".wav", ".ogg", ".oga", ".opus", ".flac", ".g722"}
RATE = 16_000
HOLD_OUT_EVERY = 20
PRINT_RATE = 4_000
"""Hz at which contents are compared: enough for a second of anything but a pure hiss."""
PRINT_SECONDS = 1.0
SAME_RECORDING = {"speech": 0.6, "music": 0.8, "effects": 0.8}
"""Normalised correlation above which two excerpts are the same recording.

Strange speech stays below 0.5; any two steady tones of one pitch reach 0.7 for a second, so music
needs more. The same recording in another format or rate reaches 0.95.
"""


def download(folder: Path) -> None:
    """Download the packages that `folder` lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [p for p in PACKAGES if not any(folder.glob(f"{p}_*.deb"))]
    if missing:
        subprocess.run(["apt-get", "download", *missing], cwd=folder, check=True)


def unpack(debs: Path, folder: Path) -> None:
    """Unpack every package of set A to `folder/PACKAGE`."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        deb = max(debs.glob(f"{package}_*.deb"))
        if not (folder / package).is_dir():
            subprocess.run(["dpkg", "-x", str(deb), str(folder / package)], check=True)


def given_sources(manifest: Path) -> set[tuple[str, str]]:
    """Return (package, path inside) of everything that the test clips were made from."""
    sources = set(OTHER_COPIES)
    with manifest.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            package = row["source package"].split()[0]
            sources |= {(package, path) for path in row["source file"].split(" + ")}
    return sources


def decode(path: Path) -> tuple[np.ndarray, int] | None:
    """Decode to (mono float32 samples, rate in Hz), or None where the file is of no use."""
    if path.suffix == ".g722":
        command = [ffmpeg(), "-v", "error", "-f", "g722", "-i", str(path), "-f", "f32le", "-"]
        raw = subprocess.run(command, capture_output=True, check=True).stdout
        x, rate = np.frombuffer(raw, "<f4")[:, None], 16_000
    else:
        try:
            x, rate = soundfile.read(path, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError:
            return None
    if rate < RATE or len(x) < rate // 4 or not np.isfinite(x).all():
        return None
    return (x.mean(1), rate) if 1e-3 < np.abs(x).max() < 2 else None


def ffmpeg() -> str:
    """Find ffmpeg: of the system, or the one that imageio-ffmpeg carries."""
    found = shutil.which("ffmpeg")
    if found is None:
        import imageio_ffmpeg

        found = imageio_ffmpeg.get_ffmpeg_exe()
    return found


def excerpts(x: np.ndarray, rate: int, count: int = 2) -> list[np.ndarray]:
    """Cut the `count` loudest seconds that do not overlap, at PRINT_RATE, each of norm 1."""
    y = soxr.resample(x.astype(np.float32), rate, PRINT_RATE, "HQ")
    n = min(len(y), int(PRINT_SECONDS * PRINT_RATE))
    pieces = [y[i : i + n] - y[i : i + n].mean() for i in range(0, len(y) - n + 1, n)]
    loudest = sorted(pieces, key=lambda p: -float(p @ p))[:count]
    return [p / np.linalg.norm(p) for p in loudest if np.linalg.norm(p) > 0]


def likeness(x: np.ndarray, rate: int, prints: list[np.ndarray]) -> float:
    """Return the largest normalised correlation of `x` with any of the excerpts, in 0..1.

    It sees the same recording at another place, level, sign, rate or in another file format.
    """
    y = soxr.resample(x.astype(np.float32), rate, PRINT_RATE, "HQ").astype(np.float64)
    size = 1 << (len(y) + PRINT_RATE).bit_length()
    spectrum = np.fft.rfft(y, size)
    square = np.concatenate([[0.0], np.cumsum(y**2)])
    best = 0.0
    for p in prints:
        valid = len(y) - len(p) + 1
        if valid < 1:
            continue
        dot = np.fft.irfft(spectrum * np.conj(np.fft.rfft(p, size)), size)[:valid]
        energy = square[len(p) :] - square[: -len(p)]
        loud = energy > 1e-4 * energy.max()
        best = max(best, float(np.max(np.abs(dot[loud]) / np.sqrt(energy[loud]), initial=0.0)))
    return best


def recordings(root: Path, given: set[tuple[str, str]]) -> Iterator[tuple[str, str, Path]]:
    """Yield (package, path inside, path) of what may be trained on, by path."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            inside = path.relative_to(root / package).as_posix()
            allowed = (package, inside) not in given and "/silence/" not in inside
            if path.suffix.lower() in SUFFIXES and allowed:
                yield package, inside, path


def test_prints(audio: Path) -> list[np.ndarray]:
    """Excerpts of every given test clip."""
    prints: list[np.ndarray] = []
    for path in sorted(p for p in audio.iterdir() if p.suffix not in (".tsv", ".md")):
        x, rate = soundfile.read(path, dtype="float32", always_2d=True)
        prints += excerpts(x.mean(1), rate)
    return prints


def make(root: Path, out: Path, audio: Path) -> list[dict[str, object]]:
    """Write `out/{train,valid}/PACKAGE/NAME.flac`; return one row per file."""
    given, prints = given_sources(audio / "MANIFEST.tsv"), test_prints(audio)
    rows: list[dict[str, object]] = []
    for package, inside, path in recordings(root, given):
        decoded = decode(path)
        if decoded is None:
            continue
        if (same := likeness(*decoded, prints)) > SAME_RECORDING[PACKAGES[package]]:
            print(f"left out, same recording as a test clip ({same:.2f}): {package} {inside}")
            continue
        rows.append(write(decoded, package, inside, out, len(rows)))
    return rows


def write(
    decoded: tuple[np.ndarray, int], package: str, inside: str, out: Path, index: int
) -> dict[str, object]:
    """Resample and write one file; return its row."""
    x, rate = decoded
    x = x if rate == RATE else soxr.resample(x, rate, RATE, "HQ")
    x = x / max(1.0, float(np.abs(x).max()))
    split = "valid" if index % HOLD_OUT_EVERY == HOLD_OUT_EVERY - 1 else "train"
    name = f"{split}/{package}/{inside.replace('/', '__')}.flac"
    (out / name).parent.mkdir(parents=True, exist_ok=True)
    samples = np.round(x * 32767).astype(np.int16)
    soundfile.write(out / name, samples, RATE, subtype="PCM_16")
    digest = hashlib.sha256(samples.tobytes()).hexdigest()
    kind = PACKAGES[package]
    return {"split": split, "kind": kind, "file": name, "seconds": len(x) / RATE, "sha256": digest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("training"))
    parser.add_argument("--audio", type=Path, default=Path("../shared/audio"))
    args = parser.parse_args()
    download(args.out / "debs")
    unpack(args.out / "debs", args.out / "unpacked")
    rows = make(args.out / "unpacked", args.out, args.audio)
    with (args.out / "training.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for split in ("train", "valid"):
        for kind in ("speech", "music", "effects"):
            mine = [
                float(str(r["seconds"])) for r in rows if (r["split"], r["kind"]) == (split, kind)
            ]
            print(f"{split} {kind}: {len(mine)} files, {sum(mine) / 60:.1f} min")


if __name__ == "__main__":
    main()
