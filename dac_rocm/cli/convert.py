"""`dac-rocm convert SRC DST`: a checkpoint for this package, transformers or Descript."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    from dac_rocm.cli.options import add_source_flags

    parser = subparsers.add_parser("convert", help="write a checkpoint for another reader")
    parser.add_argument("source", metavar="SRC", help="name, Hub id, folder or file")
    parser.add_argument("target", metavar="DST", help="a folder; for descript also a .pth file")
    parser.add_argument(
        "--to", choices=("canonical", "transformers", "descript"), default="canonical"
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    add_source_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Convert one checkpoint."""
    from dac_rocm.cli.main import say
    from dac_rocm.cli.options import source_options
    from dac_rocm.weights import convert_checkpoint, load_checkpoint

    checkpoint = load_checkpoint(args.source, **source_options(args))
    for note in checkpoint.notes:
        say(f"warning: {args.source}: {note}")
    convert_checkpoint(checkpoint, Path(args.target), args.to, overwrite=args.force)
    say(f"{args.source} -> {args.target}: {args.to}, {len(checkpoint.tensors)} tensors")
    return 0
