"""Only recordings that anybody may pass on are in the repository, and each says whose it is."""

import csv
import hashlib
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
ALLOWED = ("CC0", "MIT", "CC-BY-3.0", "CC-BY-4.0")
NOT_RECORDINGS = {"MANIFEST.tsv", "ATTRIBUTION.md"}


def manifest(folder):
    with (folder / "MANIFEST.tsv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file, delimiter="\t")}


def files(folder):
    found = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return {name for name in found if name not in NOT_RECORDINGS}


def test_every_recording_has_an_attribution_and_a_licence():
    folder = DATA / "audio"
    rows, attribution = manifest(folder), (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert rows.keys() == files(folder)
    for name, row in rows.items():
        line = next(text for text in attribution.splitlines() if text.startswith(f"| `{name}` |"))
        assert row["licence"] in ALLOWED and row["licence"] in line
        assert row["attribution"] in line
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == row["sha256"], name


def test_every_odd_file_is_made_from_free_sound():
    folder = DATA / "audio_odd"
    rows, attribution = manifest(folder), (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert rows.keys() == files(folder)
    assert "The sound in them is CC0" in attribution
    for name, row in rows.items():
        assert "(CC0)" in row["source"] or not row["source"].endswith((".flac", ".wav")), name
