"""`dac-rocm plot FILE…`: pictures of what a model does to files."""

from __future__ import annotations

import argparse
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dac_rocm.codec import Codec


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    from dac_rocm.cli.options import add_model_flags

    parser = subparsers.add_parser(
        "plot",
        help="draw spectrograms, waveform and codes",
        description="Draw an audio file, what a model makes of it, and their difference; or what "
        "an encoded file holds. Needs matplotlib: pip install 'dac_rocm[plot]'.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="audio, .dacz or .dac")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help=".png, .svg or .pdf; default: FILE with .png"
    )
    parser.add_argument(
        "--format", choices=("png", "svg", "pdf"), default="png", help="where OUT does not say"
    )
    parser.add_argument("--n-codebooks", type=int, metavar="K", help="codebooks to use")
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    add_model_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Draw each file; go on after a bad one."""
    from dac_rocm.cli.main import say
    from dac_rocm.cli.options import default_target, load_model
    from dac_rocm.errors import DacError
    from dac_rocm.report.plot import plot_file

    if args.output and len(args.files) > 1:
        say(f"error: --output with {len(args.files)} files found; one file is expected with it")
        return 2

    @cache
    def model(name: str) -> Codec:
        return load_model(args, default=name)

    failed = 0
    for name in args.files:
        target = args.output or default_target(name, f".{args.format}")
        try:
            plot_file(
                model(_model_of(name)),
                name,
                target,
                n_codebooks=args.n_codebooks,
                overwrite=args.force,
            )
        except DacError as error:
            if len(args.files) == 1:
                raise
            say(f"error: {name}: {error}")
            failed = 1
        else:
            say(f"{name} -> {target}")
    return failed


def _model_of(path: str) -> str:
    """Name of the model that an encoded file says made it; the default for audio."""
    from dac_rocm.container import read_info
    from dac_rocm.presets import is_known
    from dac_rocm.report.plot import is_encoded

    name = read_info(path).model.name if is_encoded(path) else ""
    return name if is_known(name) else "tiny"
