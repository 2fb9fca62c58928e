"""`dac-rocm evaluate`: how close decoded audio is to its original."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dac_rocm.dac import DAC
    from dac_rocm.dacvae import DACVAE


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    from dac_rocm.cli.options import add_model_flags

    parser = subparsers.add_parser(
        "evaluate",
        help="score decoded audio",
        description="With --model: encode, decode and score each FILE. Without: score DECODED "
        "against ORIGINAL.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="ORIGINAL DECODED, or originals")
    parser.add_argument(
        "--n-codebooks", default="", metavar="1,2,…", help="score each number of codebooks"
    )
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    add_model_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one line of scores per file and number of codebooks, and their means."""
    from dac_rocm.cli.options import print_json
    from dac_rocm.roundtrip import means

    rows = _of_pair(*args.files) if args.model is None else _of_model(args)
    if args.json:
        print_json(rows)
        return 0
    names = [name for name in rows[0] if name != "file"]
    print("  ".join([f"{'file':<32}", *(f"{name:>16}" for name in names)]))
    for row in [*rows, *means(rows)]:
        cells = ["-" if row[n] is None else f"{row[n]:.4g}" for n in names]
        print("  ".join([f"{row['file'][-32:]:<32}", *(f"{cell:>16}" for cell in cells)]))
    return 0


def _of_pair(*files: str) -> list[dict[str, Any]]:
    from dac_rocm.audio.files import read_audio
    from dac_rocm.errors import AudioError
    from dac_rocm.evaluate import evaluate

    if len(files) != 2:
        raise AudioError(
            f"{len(files)} files without --model found; ORIGINAL and DECODED are expected. Name "
            "two files, or a model."
        )
    (original, rate), (decoded, other) = map(read_audio, files)
    if rate != other:
        raise AudioError(
            f"{rate} Hz and {other} Hz found; equal rates are expected. Resample one of them."
        )
    return [{"file": files[1], **evaluate(original, decoded, rate).to_dict()}]


def _of_model(args: argparse.Namespace) -> list[dict[str, Any]]:
    from dac_rocm.cli.options import codebook_counts, load_model

    counts: list[int | None] = [*codebook_counts(args.n_codebooks)] or [None]
    model = load_model(args)
    return [_score(model, name, n) for name in args.files for n in counts]


def _score(model: DAC | DACVAE, name: str, n_codebooks: int | None) -> dict[str, Any]:
    """Encode and decode one file in memory."""
    from dac_rocm.audio.files import read_audio
    from dac_rocm.roundtrip import round_trip

    trip = round_trip(model, *read_audio(name), n_codebooks=n_codebooks)
    return {"file": name, **trip.to_dict()}
