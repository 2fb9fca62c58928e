#!/usr/bin/env python3
"""Count the entries of each codebook of `tiny` that training audio uses; hash the data's list.

Needs: the folder that scripts/fetch_training_audio.py made.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT.parent)]

import dac_rocm  # noqa: E402
from training.data import Corpus  # noqa: E402

SECONDS = 8


def shares(model: dac_rocm.DAC, corpus: Corpus, batches: int, seed: int = 77) -> list[float]:
    """Return the share of the entries of each codebook that any frame uses.

    Args:
        model: Codebook model.
        corpus: Training audio; segments are drawn from it.
        batches: Of 8 segments of 8 s.
        seed: Of the segments.
    """
    size = model.config.bottleneck.codebook_size
    used = torch.zeros(model.config.bottleneck.n_codebooks, size, dtype=torch.bool)
    for i in range(batches):
        x = torch.from_numpy(corpus.batch(seed, i, 8, SECONDS * model.sample_rate))
        for n, codes in enumerate(model.encode(x).transpose(0, 1)):
            used[n, codes.flatten().unique()] = True
    return used.float().mean(1).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("training"))
    parser.add_argument("--model", default="tiny", help="name or path")
    parser.add_argument("--batches", type=int, default=30, help="of 64 s of audio each")
    args = parser.parse_args()
    torch.set_num_threads(1)
    listed = (args.data / "training.tsv").read_bytes()
    print("sha256 of training.tsv", hashlib.sha256(listed).hexdigest())
    for deb in sorted((args.data / "debs").glob("*.deb")):
        print(hashlib.sha256(deb.read_bytes()).hexdigest(), deb.name)
    model = dac_rocm.load(args.model, device="cpu")
    found = shares(model, Corpus.read(args.data), args.batches)
    print("share of the entries used:", *(f"{share:.3f}" for share in found))


if __name__ == "__main__":
    main()
