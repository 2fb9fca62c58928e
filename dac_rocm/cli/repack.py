"""`dac-rocm repack SRC DST`: encoded files anew, without encoding again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dac_rocm.cli.options import add_model_flags, add_output_flags, load_model

if TYPE_CHECKING:
    from dac_rocm.codec import Codec


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("repack", help="drop codebooks, or change the container")
    parser.add_argument("source", metavar="SRC", help="a .dacz or .dac file")
    parser.add_argument("target", metavar="DST", help="a .dacz or .dac file")
    parser.add_argument("--format", choices=("dacz", "dac"), help="default: by suffix of DST")
    parser.add_argument("--n-codebooks", type=int, metavar="K", help="keep the first K codebooks")
    parser.add_argument("--latents-dtype", choices=("float32", "float16"), help="default: as it is")
    parser.add_argument(
        "--decode-again", action="store_true", help="decode and encode, where codes cannot be kept"
    )
    add_model_flags(parser)
    add_output_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Repack one file."""
    from dac_rocm.cli.main import say
    from dac_rocm.cli.options import print_json
    from dac_rocm.container import read_info
    from dac_rocm.repack import repack

    before = read_info(args.source)
    repack(
        args.source,
        args.target,
        model=_model(args, before.container, before.model.name),
        format=args.format,
        n_codebooks=args.n_codebooks,
        latents_dtype=args.latents_dtype,
        decode_again=args.decode_again,
        overwrite=args.force,
    )
    after = read_info(args.target)
    if args.json:
        print_json({"source": args.source, "target": args.target, "file_bytes": after.file_bytes})
    say(
        f"{args.source} -> {args.target}: {before.width} -> {after.width} codebooks or channels, "
        f"{before.file_bytes} -> {after.file_bytes} bytes"
    )
    return 0


def _model(args: argparse.Namespace, container: str, recorded: str) -> Codec | None:
    """Load a model where one is needed and known: a `.dac` does not say which made it."""
    from dac_rocm.container import container_format

    if container == container_format(args.target, args.format) and not args.decode_again:
        return None
    if not (args.model or recorded):
        return None
    parts = "all" if args.decode_again else "decoder"
    return load_model(args, parts=parts, default=recorded)
