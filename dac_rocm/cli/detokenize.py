"""`dac-rocm detokenize SRC DST`: shards that `tokenize` wrote, back to audio files."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout

from dac_rocm.cli.options import add_model_flags
from dac_rocm.cli.tokenize import Progress, add_engine_flags, finish, load_options, make_engine


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("detokenize", help="decode the shards of a corpus")
    parser.add_argument("source", metavar="SRC", help="folder that tokenize wrote")
    parser.add_argument("target", metavar="DST", help="folder of the audio, named by the ids")
    parser.add_argument("--subtype", choices=("pcm16", "pcm24", "float32"), help="default: as was")
    parser.add_argument("--any-model", action="store_true", help="decode another model's codes")
    parser.add_argument(
        "--skip-existing", action="store_true", help="go on where a run was stopped"
    )
    add_engine_flags(parser)
    add_model_flags(parser)
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Decode a corpus."""
    from pathlib import Path

    from dac_rocm.cli.main import say
    from dac_rocm.distributed import detokenize
    from dac_rocm.distributed.manifest import read_manifest

    manifest = read_manifest(Path(args.source))
    with redirect_stdout(sys.stderr):  # where Ray prints what its nodes say
        summary = detokenize(
            args.source,
            args.target,
            load=load_options(args, args.model or manifest["weights"]),
            engine=make_engine(args),
            tell=Progress(),
            convolve=args.conv_backend,
            dtype=args.dtype,
            threads=max(1, args.threads),
            subtype=args.subtype,
            any_model=args.any_model,
            overwrite=args.force,
            skip_existing=args.skip_existing,
        )
    if summary.made < summary.shards:
        say(f"{summary.shards - summary.made} of {summary.shards} shards are not there yet")
    return finish(args, summary)
