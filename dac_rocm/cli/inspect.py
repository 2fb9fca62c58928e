"""`dac-rocm inspect CHECKPOINT`: what a checkpoint is, without reading its tensors."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    from dac_rocm.cli.options import add_source_flags

    parser = subparsers.add_parser("inspect", help="say what a checkpoint is")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="name, Hub id, folder or file")
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    add_source_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the facts."""
    from dac_rocm.cli.options import print_json, source_options
    from dac_rocm.weights import inspect_checkpoint

    found = inspect_checkpoint(args.checkpoint, **source_options(args))
    config = found.config
    facts: dict[str, Any] = {k: v for k, v in asdict(found).items() if k != "config"}
    facts |= {
        "sample_rate": config.sample_rate,
        "hop_length": config.hop_length,
        "frame_rate": config.frame_rate,
        "audio_channels": config.audio_channels,
    }
    if args.json:
        print_json({**facts, "config": config.to_dict()})
        return 0
    for key, value in facts.items():
        text = ", ".join(map(str, value)) if isinstance(value, tuple) else value
        print(f"{key:<16}{text if text is not None else '-'}")
    return 0
