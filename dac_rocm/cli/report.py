"""`dac-rocm report INPUT… -o report.html`: one page to see and hear what models do to files."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dac_rocm.codec import Codec


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    from dac_rocm.cli.options import add_model_flags

    parser = subparsers.add_parser(
        "report",
        help="write a page to see and hear what models do",
        description="Encode and decode each INPUT with each model and number of codebooks, and "
        "write one HTML file with players, spectrograms, scores and a blind test. It needs nothing "
        "but a browser.",
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="audio file")
    parser.add_argument("-o", "--output", default="report.html", metavar="OUT", help="the page")
    parser.add_argument(
        "--models", default="", metavar="A,B", help="several models; default: that of --model"
    )
    parser.add_argument(
        "--n-codebooks", default="", metavar="1,2,…", help="numbers of codebooks; default: all"
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing page")
    parser.add_argument("--json", action="store_true", help="print every number on stdout as JSON")
    add_model_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    from dac_rocm.cli.main import say
    from dac_rocm.cli.options import codebook_counts, print_json
    from dac_rocm.report.page import write_report

    data = write_report(
        args.inputs,
        _models(args),
        args.output,
        n_codebooks=codebook_counts(args.n_codebooks),
        machine=_machine(),
        overwrite=args.force,
        progress=say,
    )
    if args.json:
        print_json(data)
    say(f"{args.output}: {len(data['rows'])} versions, {data['bytes'] / 1e6:.1f} MB")
    return 0


def _models(args: argparse.Namespace) -> dict[str, Codec]:
    from dac_rocm.cli.options import load_model

    names = [name for name in args.models.split(",") if name] or [args.model or "tiny"]
    models: dict[str, Codec] = {}
    for name in names:
        args.model = name
        models[name] = load_model(args)
    return models


def _machine() -> dict[str, str]:
    """Return facts of the machine, without the environment: the page may be mailed."""
    from dac_rocm.doctor import facts

    return {name: value for name, value in facts().items() if name not in os.environ}
