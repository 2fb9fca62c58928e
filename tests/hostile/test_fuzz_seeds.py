"""What the fuzzer started from and found, read again; `scripts/fuzz` makes more."""

from pathlib import Path

import pytest
from reader_check import check, mended

SEEDS = sorted((Path(__file__).parent / "seeds").iterdir())
WRITTEN = [path for path in SEEDS if path.suffix]
"""Files of our writers; the others are what the fuzzer made of them."""


def test_every_seed():
    assert len(SEEDS) > 100
    for path in SEEDS:
        check(path.read_bytes())


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_every_flip_and_every_cut(path):
    data = path.read_bytes()
    for i in range(len(data)):
        check(data[:i] + bytes([data[i] ^ 0xFF]) + data[i + 1 :])
        check(data[:i])


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_whole_files_have_nothing_to_mend(path):
    if path.suffix == ".dacz":
        assert mended(path.read_bytes()) == path.read_bytes()
